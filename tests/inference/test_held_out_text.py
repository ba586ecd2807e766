"""Scoring a pre-trained model on text: by formula where the answer is known, the same each time."""

import pytest
import torch

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import InputError
from maskwright.inference.held_out_text import score_text


@pytest.fixture
def text(tmp_path):
    lines = [line for line in TEXTS if line]
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join("\n".join(lines[start:] + lines[:start]) for start in range(8)), encoding="utf-8")
    return path


@pytest.mark.parametrize("head", ["mlm", "pretraining"])
def test_a_model_that_knows_nothing_is_as_perplexed_as_the_vocabulary_is_large(head, text):
    model = tiny(head)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.zero_()
    score = score_text(model, text)
    assert score.metrics["perplexity"] == pytest.approx(len(tokenizer()), rel=1e-4)
    assert 0.0 <= score.metrics["mlm_accuracy"] < 0.2
    assert ("nsp_accuracy" in score.metrics) == (head == "pretraining") and score.examples > 8


def test_examples_have_at_most_the_requested_length(text):
    model = tiny("mlm")
    assert score_text(model, text, seed=1) == score_text(model, text, seed=1) != score_text(model, text, seed=2)
    assert score_text(model, text, max_length=12).examples > score_text(model, text, max_length=40).examples
    with pytest.raises(InputError, match="3 to 48"):
        score_text(model, text, max_length=500)


def test_skipped_rows_are_reported(tmp_path, capsys):
    text = tmp_path / "held.txt"
    text.write_bytes("\n".join(TEXTS[:3]).encode() + b"\n\nbroken \xff\n\n" + TEXTS[3].encode() + b"\n")
    score_text(tiny("mlm"), text, skip_bad_rows=True)
    assert "Skipped 1 invalid row" in capsys.readouterr().err
