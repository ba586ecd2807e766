"""Exported folders in transformers.js under node give the results of the library.

Needs node, and a folder with node_modules/@huggingface/transformers, which MASKWRIGHT_NODE_PACKAGES names:

    npm install --prefix packages --ignore-scripts @huggingface/transformers
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import maskwright as mw
from maskwright.api import open_embedder, open_predictor
from maskwright.inference.generate import Generation, TextGenerator
from maskwright.inference.translate import TextTranslator, TranslationSettings
from maskwright.models.decoding.rules import Rules

SCRIPT = Path(__file__).with_name("transformers_js.mjs")
PACKAGES = os.environ.get("MASKWRIGHT_NODE_PACKAGES", "")
PACKAGE = Path(PACKAGES, "node_modules", "@huggingface", "transformers")
TEXTS = ["the cat sat on the mat .", "dogs chase cats"]  # of unequal lengths

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(
        not PACKAGES or not PACKAGE.is_dir(), reason="MASKWRIGHT_NODE_PACKAGES names no folder with transformers.js"
    ),
]


def in_node(task: str, folder: Path, texts: list[str], **options):
    command = ["node", SCRIPT, PACKAGES, task, folder, json.dumps(texts), json.dumps(options)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_sentence_embeddings(encoder_folder, exported_encoder):
    expected = open_embedder(encoder_folder, precision="fp32").vectors(TEXTS)
    found = in_node("feature-extraction", exported_encoder, TEXTS, pooling="mean", normalize=True)
    np.testing.assert_allclose(np.array(found), expected, atol=1e-5)


def test_classes(classifier_folder, exported_classifier):
    for text, found in zip(TEXTS, in_node("text-classification", exported_classifier, TEXTS, top_k=3), strict=True):
        expected = open_predictor(classifier_folder, precision="fp32").predict([text])[0]["probabilities"]
        assert {one["label"]: one["score"] for one in found} == pytest.approx(expected, abs=1e-5)


def test_generated_text(generators):
    model, exported = generators
    settings = Generation(max_new_tokens=12, rules=Rules(greedy=True))
    expected = TextGenerator(mw.load(model)).generate(TEXTS, settings)
    texts = [f"[CLS] {text}" for text in TEXTS]  # the pipeline adds no special tokens
    found = in_node("text-generation", exported, texts, max_new_tokens=12, do_sample=False, return_full_text=False)
    for (one,), (other,) in zip(found, expected, strict=True):
        assert one["generated_text"].split() == other.text.split()


def test_translations(translators):
    model, exported = translators
    expected = TextTranslator(mw.load(model)).translate(TEXTS, TranslationSettings(beams=1, max_new_tokens=12))
    found = in_node("translation", exported, TEXTS, max_new_tokens=12, do_sample=False)
    assert [one["translation_text"].split() for one in found] == [other.text.split() for (other,) in expected]
