"""Recurrent translation models on the command line: alignments as pictures, BLEU by length, sentence embeddings."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from train.test_translation import TINY as SMALL
from train.test_translation import sentences, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_once) -> Path:
    where = tmp_path_factory.mktemp("seq2seq")
    train, dev = write(where, "train", sentences(200, 1), False), write(where, "dev", sentences(30, 2), False)
    run_once("tokenizer", "train", "--kind", "word", "--vocab-size", 60, "-o", where / "tok", train[0], "--quiet")
    for name, preset in (("attention", "seq2seq-small"), ("plain", "autoencoder-small")):
        network = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
        speed = ["--epochs", 3, "--warmup", 10, "--lr", 1e-2, "--max-length", 16, "--batch-tokens", 512]
        start = ["--preset", preset, "--tokenizer", where / "tok", "--train", *train, "--dev", *dev]
        run_once("finetune", "translation", *start, *network, *speed, "--quiet", "-o", where / name)
    return where


def test_alignments_are_drawn_beside_the_translations(folder: Path, maskwright, tmp_path: Path):
    words = ["w1 w2 w3", "w4 & <w5>"]
    plain = maskwright("translate", folder / "attention/model", *words, "--beam", 2, "--quiet")[1]
    for ending in ("svg", "png", "html"):
        path = tmp_path / f"drawn.{ending}"
        code, out, said = maskwright("translate", folder / "attention/model", *words, "--beam", 2, "--alignments", path)
        assert code == 0 and out == plain and "alignments are drawn in" in said
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "drawn.svg").read_text(encoding="utf-8")
    texts = [one.text for one in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"w1", "w2", "w3"} <= set(texts)
    assert "Text 2" in (tmp_path / "drawn.html").read_text(encoding="utf-8")


def test_what_cannot_be_drawn_is_said_before_anything_is_translated(folder: Path, refused, tmp_path: Path):
    for name, ending, said in (
        ("attention", "gif", "written as .svg, .png or .html"),
        ("plain", "svg", "no attention"),
    ):
        refused(said, "translate", folder / name / "model", "w1", "--alignments", tmp_path / f"x.{ending}")
    assert not list(tmp_path.iterdir())


def test_translators_are_compared_by_length(folder: Path, as_json, maskwright, refused, tmp_path: Path):
    models = [folder / "attention/model", folder / "plain/model"]
    data = ["--data", folder / "dev.src", "--data", folder / "dev.tgt"]
    found = as_json("inspect", *models, "--view", "lengths", *data, "--groups", 3, "--quiet", "-o", tmp_path / "l.html")
    assert [one["name"] for one in found] == [str(model) for model in models]
    assert sum(found[0]["rows"]) == 30 and found[0]["rows"] == found[1]["rows"]
    assert all(0 <= share <= 1 for one in found for share in one["token_accuracy"] + one["exact"])
    assert "Scores by length" in (tmp_path / "l.html").read_text(encoding="utf-8")
    code, out, _ = maskwright("inspect", models[0], "--view", "lengths", *data, "--quiet")
    assert code == 0 and "source words" in out
    same = tmp_path / "same.tsv"
    same.write_text("source\ttarget\n" + "w1 w2\tw1 w2\n" * 12, encoding="utf-8")
    code, out, _ = maskwright("inspect", models[0], "--view", "lengths", "--input", same, "--quiet")
    assert code == 0 and "All sources are about 2 words long" in out
    refused("--input FILE", "inspect", models[0], "--view", "lengths")


def test_the_state_of_an_autoencoder_is_a_vector(folder: Path, maskwright, tmp_path: Path):
    texts = ["w1 w2", "w3", "w1 w2"]
    how = ["--pooling", "state", "-o", tmp_path / "v.npy", "--quiet"]
    code, _, _ = maskwright("embed", folder / "plain/model", *texts, *how)
    vectors = np.load(tmp_path / "v.npy")
    assert code == 0 and vectors.shape == (3, 48)
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    assert not np.allclose(vectors[0], vectors[1])
