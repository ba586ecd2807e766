"""Translation models on the command line: training from two files, translations of texts, and error messages."""

import io
import json
import sys
from pathlib import Path

import pytest

import maskwright as mw
from train.test_translation import SMALL, sentences, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_once) -> Path:
    where = tmp_path_factory.mktemp("translation")
    train, dev = write(where, "train", sentences(200, 1), False), write(where, "dev", sentences(20, 2), False)
    (where / "both.txt").write_text("".join(path.read_text(encoding="utf-8") for path in train), encoding="utf-8")
    run_once(
        "tokenizer", "train", "--kind", "word", "--vocab-size", 60, "-o", where / "tok", where / "both.txt", "--quiet"
    )
    network = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    speed = ["--epochs", 4, "--warmup", 20, "--lr", 3e-3, "--max-length", 16, "--batch-tokens", 512]
    options = ["--precision", "fp32", "--average-checkpoints", 2, "--quiet", "-o", where / "run"]
    files = ["--train", *train, "--dev", *dev]
    start = ["--preset", "transformer-mini", "--tokenizer", where / "tok"]
    run_once("finetune", "translation", *start, *network, *files, *speed, *options)
    return where


def test_texts_are_translated_in_their_order_with_scores_and_others(folder: Path, maskwright, monkeypatch):
    texts = ["w1 w2 w3", "w4", "w5 w6"]
    words = ("translate", folder / "run/model", *texts, "--beam", 3, "--quiet")
    code, out, _ = maskwright(*words)
    assert code == 0 and len(out.splitlines()) == 3
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    assert maskwright("translate", folder / "run/model", "--beam", 3, "--quiet")[1] == out
    _, lines, _ = maskwright(*words, "--results", 2, "--json")
    found = [json.loads(line) for line in lines.splitlines()]
    assert [one["source"] for one in found] == texts
    assert [one["translation"] for one in found] == out.splitlines()
    for one in found:
        assert len(one["results"]) == 2 and one["results"][0]["score"] >= one["results"][1]["score"]


def test_a_file_is_written_whole_and_python_gives_the_same(folder: Path, maskwright, tmp_path: Path):
    source = folder / "dev.src"
    plain = tmp_path / "in.txt"
    plain.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    words = ("--input", plain, "--output", tmp_path / "out.txt", "--quiet")
    code, _, _ = maskwright("translate", folder / "run/model", *words)
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert code == 0 and len(lines) == 20
    translator = mw.Translator(str(folder / "run/model"))
    assert translator.predict(plain.read_text(encoding="utf-8").splitlines()) == lines
    both = mw.Translator(str(folder / "run/model"), num_results=2).translate("w1 w2")
    assert len(both[0]) == 2 and both[0][0].score >= both[0][1].score


def test_a_translator_is_scored_on_pairs_and_predicts(folder: Path, as_json, maskwright):
    words = ("evaluate", folder / "run/model", folder / "dev.src", folder / "dev.tgt", "--quiet")
    result = as_json(*words)
    assert result["task"] == "translation" and result["examples"] == 20
    assert {"token_accuracy", "perplexity"} <= result["metrics"].keys()
    if "bleu" in result["metrics"]:  # where sacrebleu is installed
        assert 0 <= result["metrics"]["bleu"] <= 100 and "tok:13a" in result["signatures"]["bleu"]
    _, out, _ = maskwright("predict", folder / "run/model", "w1 w2", "--json", "--quiet")
    assert "translation" in json.loads(out)
    _, out, _ = maskwright("predict", folder / "run/model", "w1 w2", "--quiet")
    assert "translation" in out and "label" not in out
    _, out, _ = maskwright(*words, "--errors", 2)
    assert ", predicted " not in out and ("% of the tokens of" in out or result["metrics"]["token_accuracy"] == 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["translate", "MODEL", "a", "--beam", 0], "beam size is 0"),
        (["translate", "MODEL", "a", "--beam", 2, "--results", 3], "3 results are requested from 2 beams"),
        (["translate", "MODEL", "a", "--input", "SOURCE"], "either texts or --input"),
        (["translate", "MODEL", "a", "--results", 2, "--output", "OUT"], "use .jsonl for several"),
        (["evaluate", "MODEL", "SOURCE"], "the line-aligned file of translations"),
        (["evaluate", "MODEL", "SOURCE", "SHORT"], "has no translation"),
        (
            ["finetune", "classification", "--model", "MODEL", "--train", "SOURCE", "SHORT", "-o", "OUT"],
            "one task takes",
        ),
        (
            ["pretrain", "--preset", "transformer-mini", "--objective", "mlm", "-o", "OUT", "BOTH"],
            "finetune translation",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_words(folder: Path, refused, tmp_path: Path, words: list[object], said: str):
    lines = (folder / "dev.tgt").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "short.tgt").write_text("".join(lines[:-1]), encoding="utf-8")
    names = {"MODEL": folder / "run/model", "SOURCE": folder / "dev.src", "SHORT": tmp_path / "short.tgt"}
    names |= {"OUT": tmp_path / "out", "BOTH": folder / "both.txt"}
    refused(said, *(names.get(str(word), word) for word in words), "--quiet")
    assert not (tmp_path / "out").exists()
