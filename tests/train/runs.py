"""Tiny runs that the training tests share."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from maskwright.core import storage
from maskwright.train import loop
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.pretraining.config import PretrainConfig

TIMES = ("tokens_per_second", "tflops_per_second", "memory_mb", "seconds", "time")  # of the log: differ in every run
TINY = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}


def corpus(folder, documents=30):
    """Documents of a few short sentences, the same every time."""
    rng = random.Random(1)
    words = "the a cat dog bird sees likes finds small red old house tree river and then it was here".split()  # noqa: SIM905
    text = [
        "\n".join(" ".join(rng.choices(words, k=rng.randint(4, 10))) + " ." for _ in range(rng.randint(2, 6)))
        for _ in range(documents)
    ]
    path = folder / "corpus.txt"
    path.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    return path


def pretraining(folder, **changes):
    settings: dict[str, Any] = {
        "corpus": (str(corpus(folder)),),
        "output": folder / "run",
        "preset": "bert-tiny",
        "model": TINY,
        "vocab_size": 80,
        "steps": 6,
        "batch_tokens": 256,
        "max_length": 32,
        "checkpoint_every": 2,
        "log_every": 1,
        "holdout": 0.15,
        "precision": "fp32",
    }
    return PretrainConfig(**{**settings, **changes})


def sentence_teacher(text, folder):
    """A sentence encoder with random weights, whose embeddings (32 dimensions) differ much from text to text."""
    from maskwright.models.build import build
    from maskwright.models.model import SentenceSettings
    from maskwright.models.presets import preset
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    tokenizer = Tokenizer.train([text], kind="wordpiece", vocab_size=100)
    network = preset("bert-tiny", vocab_size=tokenizer.vocab_size, initializer_range=0.2, **TINY)
    model = build(replace(network, num_hidden_layers=2), None, seed=3)
    model.tokenizer, model.sentence = tokenizer, SentenceSettings("mean", True, 64)
    model.save(folder)
    return folder


def labeled(path, rows, seed):
    """Rows whose class can be read off one word."""
    rng = random.Random(seed)
    lines = ["text\tlabel"]
    for _ in range(rows):
        label = rng.choice(["animal", "place"])
        word = rng.choice(["cat", "dog", "bird"] if label == "animal" else ["house", "tree", "river"])
        lines.append(f"the {rng.choice(['old', 'red', 'small'])} {word} was here\t{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def finetuning(folder, **changes):
    """A fine-tuning run from scratch of some seconds; the tokenizer is that of `folder / "tok"`."""
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    if not (folder / "tok").exists():
        Tokenizer.train([corpus(folder)], kind="wordpiece", vocab_size=80).save(folder / "tok")
    settings: dict[str, Any] = {
        "train": labeled(folder / "train.tsv", 64, 1),
        "dev": labeled(folder / "dev.tsv", 24, 2),
        "output": folder / "tuned",
        "preset": "bert-tiny",
        "tokenizer": folder / "tok",
        "epochs": 3,
        "lr": 2e-3,
        "batch_size": 16,
        "max_length": 24,
        "precision": "fp32",
    }
    return FinetuneConfig(**{**settings, **changes})


def records(folder):
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: one for name, one in json.loads(line).items() if name not in TIMES} for line in lines]


def stopped(run, config, monkeypatch, step):
    """End a run after `step` steps, without saving."""
    plain = loop._stop_if_requested

    def stop(request, folder, done, steps):
        if done == step:
            raise loop.Interrupted
        plain(request, folder, done, steps)

    with monkeypatch.context() as patch, pytest.raises(loop.Interrupted):
        patch.setattr(loop, "_stop_if_requested", stop)
        run(config)


def continues_exactly(run, config, monkeypatch, step=3, whole=None, files=("model/model.safetensors",)):
    """A run that is ended after `step` steps and run again has the files and the log of an uninterrupted one.

    whole: the folder of that one, if there is one already.
    """
    whole = whole or run(replace(config, output=config.output.with_name("whole"))).output
    stopped(run, config, monkeypatch, step)
    run(config)
    for name in files:
        assert storage.sha256(config.output / name) == storage.sha256(whole / name), name
    for log in whole.rglob("metrics.jsonl"):
        assert records(config.output / log.parent.relative_to(whole)) == records(log.parent)
