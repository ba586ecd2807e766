"""Situations that are refused: one sentence on standard error that names the word, exit code 2, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinned.runs import command

FILES = {
    "good.tsv": "text\tlabel\na\tx\nb\ty\n",
    "one_class.tsv": "text\tlabel\na\tx\nb\tx\n",
    "no_label.tsv": "text\tbody\na\tx\n",
    "empty.tsv": "",
    "header.tsv": "text\tlabel\n",
    "short_row.tsv": "text\tlabel\na\tx\nb\n",
    "words.tsv": "text\tlabel\na\tmuch\n",
    "bad.jsonl": '{"text": "a"\n',
    "number.jsonl": '{"text": 3, "label": "x"}\n',
    "latin1.txt": b"caf\xe9\n",
    "zeros.txt": b"a\x00b\n",
    "empty.txt": "",
    "broken.json": '{"data": [',
    "squad.json": json.dumps(
        {
            "data": [
                {
                    "paragraphs": [
                        {
                            "context": "abc",
                            "qas": [{"id": "1", "question": "?", "answers": [{"text": "z", "answer_start": 0}]}],
                        }
                    ]
                }
            ]
        }
    ),
    "tags.conll": "a O\nb\n",
    "choices.jsonl": '{"context": "a", "choices": ["b", "c"], "label": 7}\n',
    "bad.toml": "steps = \n",
    "unknown.toml": "stepz = 3\n",
    "pickle.gz": b"\x1f\x8b\x08\x00broken",
    "pairs.tsv": "source\ttarget\na\n",
}
TRAIN = ["finetune", "classification", "--model", "english", "-o", "out"]
REFUSED: list[tuple[list[str], str]] = [
    (["frobnicate"], "frobnicate"),
    (["pretrain", "--stepz", "3", "corpus.txt", "-o", "out"], "stepz"),
    (["predict", "no/such/folder", "text"], "no/such/folder"),
    (["predict", "english", "--input", "missing.txt"], "missing.txt"),
    (["predict", "folder", "text"], "config.json"),
    (["embed", "english", "--input", "empty.txt"], "empty.txt"),
    (["embed", "english", "a", "--layers", "99"], "99"),
    (["embed", "english", "a", "--pooling", "median"], "median"),
    (["fill-mask", "english", "no mask here"], "[MASK]"),
    (["answer", "english", "--question", "q", "--context", "c"], "question"),
    (["translate", "english", "once"], "english"),
    ([*TRAIN, "--train", "missing.tsv"], "missing.tsv"),
    ([*TRAIN, "--train", "empty.tsv"], "empty.tsv"),
    ([*TRAIN, "--train", "header.tsv"], "header.tsv"),
    ([*TRAIN, "--train", "no_label.tsv"], "label"),
    ([*TRAIN, "--train", "one_class.tsv"], "class"),
    ([*TRAIN, "--train", "short_row.tsv"], "short_row.tsv:3"),
    ([*TRAIN, "--train", "bad.jsonl"], "bad.jsonl:1"),
    ([*TRAIN, "--train", "number.jsonl"], "number.jsonl:1"),
    ([*TRAIN, "--train", "good.tsv", "--columns", "text=nowhere"], "nowhere"),
    ([*TRAIN, "--train", "good.tsv", "--dev", "missing.tsv"], "missing.tsv"),
    ([*TRAIN, "--train", "good.tsv", "--epochs", "-1"], "epochs"),
    ([*TRAIN, "--train", "good.tsv", "--lr", "nan"], "lr"),
    ([*TRAIN, "--train", "good.tsv", "--batch-size", "0"], "batch"),
    ([*TRAIN, "--train", "good.tsv", "--dev", "good.tsv", "--max-length", "100000"], "512"),
    ([*TRAIN, "--train", "good.tsv", "--device", "cuda"], "cuda"),
    ([*TRAIN, "--train", "good.tsv", "--config", "bad.toml"], "bad.toml"),
    ([*TRAIN, "--train", "good.tsv", "--config", "unknown.toml"], "stepz"),
    ([*TRAIN, "--train", "good.tsv", "-o", "folder"], "folder"),
    (["finetune", "regression", "--model", "english", "-o", "out", "--train", "words.tsv"], "words.tsv"),
    (["finetune", "tagging", "--model", "english", "-o", "out", "--train", "tags.conll"], "tags.conll:2"),
    (["finetune", "qa", "--model", "english", "-o", "out", "--train", "squad.json"], "squad.json"),
    (["finetune", "qa", "--model", "english", "-o", "out", "--train", "broken.json"], "broken.json"),
    (["finetune", "choice", "--model", "english", "-o", "out", "--train", "choices.jsonl"], "choices.jsonl:1"),
    (["finetune", "translation", "--model", "english", "-o", "out", "--train", "pairs.tsv"], "pairs.tsv"),
    (["pretrain", "missing.txt", "-o", "out"], "missing.txt"),
    (["pretrain", "empty.txt", "-o", "out"], "empty.txt"),
    (["pretrain", "latin1.txt", "-o", "out"], "latin1.txt"),
    (["pretrain", "pickle.gz", "-o", "out"], "pickle.gz"),
    (["pretrain", "good.tsv", "--preset", "bert-huge", "-o", "out"], "bert-huge"),
    (["pretrain", "good.tsv", "--objective", "guess", "-o", "out"], "guess"),
    (["evaluate", "english", "good.tsv"], "english"),
    (["export", "english", "--to", "tflite", "-o", "out"], "tflite"),
    (["convert", "folder", "-o", "out"], "folder"),
    (["tokenizer", "train", "--kind", "morse", "-o", "out", "good.tsv"], "morse"),
    (["tokenizer", "train", "--vocab-size", "1", "-o", "out", "zeros.txt"], "zeros.txt:1"),
    (["tokenizer", "encode", "folder", "text"], "folder"),
    (["doctor", "data", "missing.tsv"], "missing.tsv"),
    (["search", "english", "query", "--input", "empty.txt"], "empty.txt"),
    (["serve", "no/such/folder"], "no/such/folder"),
    (["plan", "--preset", "bert-huge"], "bert-huge"),
    (["push", "folder", "someone/name"], "folder"),
    (["distill", "--teacher", "folder", "-o", "out", "good.tsv"], "folder"),
]


@pytest.mark.parametrize("words, named", REFUSED, ids=[" ".join(words)[:60] for words, _ in REFUSED])
def test_a_refusal_is_one_sentence(words: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("x")
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*words)
    assert code == 2, err
    assert named in err and "Traceback" not in err and not out
    assert not (tmp_path / "out" / "model").exists()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["notes.txt"]
