"""Zero-shot classification: by entailment, and by embeddings."""

import json

import numpy as np
import pytest
import torch

import maskwright as mw
from inference.samples import TEXTS, tiny
from maskwright.api import open_zero_shot
from maskwright.core.errors import InputError
from maskwright.tasks.classification import Classification

LABELS = ["animals", "weather", "money"]
ONE = [text for text in TEXTS if text.strip()][:3]


@pytest.fixture(scope="module")
def entailment(tmp_path_factory):
    folder, task = tmp_path_factory.mktemp("models") / "nli", Classification(["Contradiction", "Neutral", "Entailment"])
    tiny("classification", labels=task.labels).save(folder, facts=task.to_json())
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "encoder"
    tiny("pretraining").save(folder)
    return folder


def test_probabilities_are_the_softmax_of_entailment_logits(entailment):
    found = mw.zero_shot(entailment, ONE, LABELS, template="About {}.", precision="fp32")
    model = mw.load(entailment)
    for text, answer in zip(ONE, found, strict=True):
        logits = []
        for label in LABELS:
            encoding = model.tokenizer(text, f"About {label}.")
            with torch.no_grad():
                out = model(input_ids=torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids]))
            logits.append(float(out.logits[0, 2]))
        expected = dict(zip(LABELS, torch.softmax(torch.tensor(logits), 0).tolist(), strict=True))
        assert answer["probabilities"] == pytest.approx(expected, abs=1e-4)
        assert answer["label"] == max(expected, key=expected.__getitem__)
        assert answer["score"] == answer["probabilities"][answer["label"]]


def test_similarities_are_cosines_of_embeddings(encoder):
    found = mw.zero_shot(encoder, ONE, LABELS, precision="fp32")
    embedder = mw.Embedder(encoder, normalize=True, precision="fp32")
    texts, labels = (embedder.transform(part) for part in (ONE, [f"This text is about {one}." for one in LABELS]))
    for row, answer in zip(np.asarray(texts) @ np.asarray(labels).T, found, strict=True):
        assert answer["similarities"] == pytest.approx(dict(zip(LABELS, row.tolist(), strict=True)), abs=1e-4)
        assert list(answer["similarities"]) == sorted(LABELS, key=lambda one: -answer["similarities"][one])


def test_a_template_needs_one_place(encoder):
    for template in ("no place", "{} and {}"):
        with pytest.raises(InputError, match="--template needs one"):
            open_zero_shot(encoder, LABELS, template=template)


def test_a_classifier_of_other_labels_is_an_error(tmp_path):
    task = Classification(["spam", "ham"])
    tiny("classification", labels=task.labels).save(tmp_path / "m", facts=task.to_json())
    with pytest.raises(InputError, match="label 'entailment'"):
        open_zero_shot(tmp_path / "m", LABELS)


def test_the_command_gives_what_the_function_gives(encoder, tmp_path, maskwright, refused):
    (tmp_path / "texts.txt").write_text("\n".join(ONE) + "\n", encoding="utf-8")
    words = ("predict", encoder, "--labels", ",".join(LABELS), "--template", "{}", "--precision", "fp32", "--json")
    code, out, _ = maskwright(*words, "--input", tmp_path / "texts.txt")
    assert code == 0
    found = mw.zero_shot(encoder, ONE, LABELS, template="{}", precision="fp32")
    assert [json.loads(line)["label"] for line in out.splitlines()] == [one["label"] for one in found]
    for options in (("--trace",), ("--pair", "b"), ("--min-confidence", "0.5")):
        refused(f"remove {options[0]}", *words, "a text", *options)
