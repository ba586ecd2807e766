#!/usr/bin/env bash
# Expected: sequences_scores of a beam search is the log probability of the returned tokens by their number, so a text
# that was cut at max_new_tokens does not score better than its tokens are probable.
# Happens: Marian and BART have forced_eos_token_id by default. At the limit the end token is added at a log probability
# of 0, whatever the model says (here -14.7), and counts in the length. The cut text looks complete, since it has an
# end token, and its score is far above its probability.
# Version: transformers 5.23.0, torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0
"$folder/venv/bin/python" - <<'PY'
import sys

import torch
import transformers
from transformers import MarianConfig, MarianMTModel

print("transformers", transformers.__version__)
torch.manual_seed(0)
sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
config = MarianConfig(
    vocab_size=40, d_model=16, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64, init_std=0.5,
    pad_token_id=39, decoder_start_token_id=39, eos_token_id=0, **sizes,
)
model = MarianMTModel(config).eval()
with torch.no_grad():
    model.final_logits_bias[0, 0] = -10  # the model does not want to end
source = torch.tensor([[5, 9, 11, 13, 0]])
found = model.generate(
    source, num_beams=2, max_new_tokens=6, do_sample=False, bad_words_ids=[[39]], output_scores=True,
    return_dict_in_generate=True,
)
tokens = found.sequences[0]
with torch.no_grad():
    logits = model(input_ids=source, decoder_input_ids=tokens[None, :-1]).logits[0]
steps = logits.log_softmax(-1).gather(1, tokens[1:, None]).squeeze(1)
score, exact = float(found.sequences_scores[0]), float(steps.mean())
print("tokens", tokens.tolist(), "log probability of the last:", round(float(steps[-1]), 2))
print("score", round(score, 4), "- log probability by length:", round(exact, 4))
without = float(steps[:-1].sum() / len(steps))
if abs(score - without) > 1e-3 or score - exact < 0.5:
    sys.exit("The behavior changed: the forced end token counts with its probability.")
PY
