#!/usr/bin/env bash
# Expected: with length_penalty=0, the score of a translation is the log probability that the model gives it, end token
# included: what score_batch returns for the same tokens.
# Happens: by default an empty translation is not allowed (min_decoding_length=1), and the probability of the end token
# is given to the other first tokens before scores are computed. A translation of one word scores -0.96 where
# score_batch says -1.96; with min_decoding_length=0 both are equal. Scores of two texts are therefore not comparable:
# the surer the model is that nothing follows, the more is added.
# Version: ctranslate2 4.8.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ctranslate2==4.8.5
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import os
import sys

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec, common_spec

print("ctranslate2", ctranslate2.__version__)
draw = np.random.default_rng(0)
words, width, inner = ["<unk>", "<s>", "</s>", "a", "b", "c", "d", "e"], 16, 32
spec = TransformerSpec.from_config((1, 1), 2, pre_norm=False, activation=common_spec.Activation.RELU)


def linear(layer, rows, columns):
    layer.weight = draw.normal(size=(rows, columns)).astype("f4") * 0.4
    layer.bias = np.zeros(rows, "f4")


def norm(layer):
    layer.gamma, layer.beta = np.ones(width, "f4"), np.zeros(width, "f4")


def attention(layer, sizes):
    for part, size in zip(layer.linear, sizes):
        linear(part, size * width, width)
    norm(layer.layer_norm)


table = draw.normal(size=(len(words), width)).astype("f4")
positions = draw.normal(size=(32, width)).astype("f4") * 0.1
for side in (spec.encoder, spec.decoder):
    embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
    embeddings.weight = table
    side.position_encodings.encodings = positions
    for layer in side.layer:
        attention(layer.self_attention, (3, 1))
        linear(layer.ffn.linear_0, inner, width)
        linear(layer.ffn.linear_1, width, inner)
        norm(layer.ffn.layer_norm)
        if hasattr(layer, "attention"):
            attention(layer.attention, (1, 2, 1))
spec.decoder.projection.weight = table * 0.5
spec.decoder.projection.bias = np.array([0, 0, 3, 0, 0, 0, 0, 0], "f4")  # the end token is likely
spec.register_source_vocabulary(words)
spec.register_target_vocabulary(words)
spec.validate()
spec.optimize(None)
os.mkdir("model")
spec.save("model")
translator = ctranslate2.Translator("model", device="cpu", compute_type="float32", intra_threads=1)
largest = {}
for least in (1, 0):
    largest[least] = 0.0
    for source in (["a", "b"], ["c"], ["e", "e", "d"]):
        found = translator.translate_batch(
            [source], beam_size=4, length_penalty=0, return_scores=True, max_decoding_length=12, min_decoding_length=least
        )[0]
        text, score = found.hypotheses[0], found.scores[0]
        if len(text) == 12:  # cut at the limit, without an end token
            continue
        exact = sum(translator.score_batch([source], [text])[0].log_probs)
        print(f"min_decoding_length {least}: {source} -> {text}: score {score:.4f}, log probability {exact:.4f}")
        largest[least] = max(largest[least], abs(score - exact))
if largest[1] < 0.5 or largest[0] > 1e-3:
    sys.exit("The behavior changed: the score is the log probability.")
PY
