"""Commands on recurrent networks: pre-train, write, score, look inside, measure, climb."""

import json
from pathlib import Path

import pytest

from train.runs import corpus, labeled


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_once) -> Path:
    where = tmp_path_factory.mktemp("recurrent")
    text, tok = corpus(where), where / "tok"
    run_once("tokenizer", "train", "--kind", "byte-bpe", "--vocab-size", 261, "-o", tok, text, "--quiet")
    network = ["--set", "hidden_size=16", "--set", "num_hidden_layers=1", "--objective", "clm", "--tokenizer", tok]
    speed = ["--steps", 20, "--batch-tokens", 512, "--max-length", 32, "--lr", 1e-2, "--precision", "fp32"]
    for name in ("lstm", "rnn"):
        run_once("pretrain", "--preset", f"{name}-small", *network, *speed, "-o", where / name, text, "--quiet")
    return where


def test_what_was_trained_writes_and_is_scored(folder: Path, maskwright, refused):
    code, out, _ = maskwright("generate", folder / "lstm/model", "the ", "--top-k", 5, "--max-new-tokens", 10, "--json")
    assert code == 0 and json.loads(out)["continuations"][0]["num_tokens"] == 10
    _, out, _ = maskwright("evaluate", folder / "lstm/model", folder / "corpus.txt", "--json")
    assert 1 < json.loads(out)["metrics"]["perplexity"] < 261
    refused("without windows", "evaluate", folder / "lstm/model", folder / "corpus.txt", "--stride", 8)
    code, _, said = maskwright(
        "pretrain", "--preset", "bert-tiny", "--objective", "bilm", "-o", folder / "x", folder / "corpus.txt"
    )
    assert code == 2 and "recurrent" in said and not (folder / "x").exists()


def test_reset_state_is_another_run(folder: Path, refused):
    same = ["pretrain", "--preset", "lstm-small", "--objective", "clm", "-o", folder / "lstm", folder / "corpus.txt"]
    refused("reset_state", *same, "--reset-state")


def test_gradients_are_shown_for_every_network(folder: Path, as_json, maskwright, refused):
    models, text = (folder / "rnn/model", folder / "lstm/model"), folder / "corpus.txt"
    words = ["inspect", *models, "--view", "gradients", "--input", text, "--distance", 10]
    found = as_json(*words, "--untrained", "-o", folder / "g.html")
    assert len(found) == 4 and all(len(one["norms"]) == 10 for one in found)
    assert "untrained" in (folder / "g.html").read_text()
    code, out, _ = maskwright(*words)
    assert code == 0 and "factor per step" in out
    refused("--input", "inspect", folder / "rnn/model", "--view", "gradients")


def test_cells_are_found_and_drawn(folder: Path, as_json, maskwright, refused):
    words = ["inspect", "cells", folder / "lstm/model", folder / "corpus.txt", "--max-tokens", 2000]
    found = as_json(*words, "--rule", "line", "--top", 2, "--unit", "1:3", "-o", folder / "c.html")
    assert len(found["units"]) == 2 and found["units"][0]["rule"] == "line"
    assert "Layer 1, unit 3" in (folder / "c.html").read_text()
    code, out, _ = maskwright(*words)
    assert code == 0 and "searched" in out
    for wrong, hint in (("2:0", "1 to 1"), ("x", "1:0")):
        refused(hint, *words, "--unit", wrong)
    refused("quotes", *words, "--rule", "qoutes")
    refused(".html", *words, "-o", "cells.png")


def test_a_ladder_prints_its_table_and_goes_on(folder: Path, maskwright, refused):
    train, dev = labeled(folder / "train.tsv", 40, 1), labeled(folder / "dev.tsv", 20, 2)
    words = ["experiment", "ladder", "--data", train, "--dev", dev]
    words += ["--only", "words", "--seeds", 1, "-o", folder / "ladder"]
    code, out, _ = maskwright(*words)
    assert code == 0 and "bag of words" in out and "report:" in out
    _, out, _ = maskwright(*words, "--json")
    assert [row["name"] for row in json.loads(out)["rows"]] == ["words"]
    refused("bert", *words[:-1], folder / "other", "--only", "brt")
