"""A library call leaves the state of the process as it was: generators, torch's switches, hooks, environment."""

import csv
import importlib
import json
import locale
import logging
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import optimizer as torch_optimizer

import maskwright as mw
from inference.samples import TEXTS, tiny, tokenizer
from maskwright.models.model import SentenceSettings
from train.runs import TINY, corpus, labeled, pretraining

X = [text for text in TEXTS if text] * 2
Y = [index % 2 for index in range(len(X))]
QUICK = {"epochs": 1, "batch_size": 8, "max_length": 16, "precision": "fp32", "device": "cpu"}
DICTS_OF_HOOKS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")


@pytest.fixture(scope="module", autouse=True)
def imported():
    """What other packages set when they are first imported or used is not ours: sklearn and torch set variables."""
    for name in (
        "scipy.special",
        "scipy.sparse",
        "sklearn.metrics",
        "sklearn.cluster",
        "sympy",
        "torch._inductor.runtime",
    ):
        importlib.import_module(name)
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    torch.optim.AdamW([weight], fused=True).step()
    torch.nn.LSTM(2, 2)


def state():
    numpy_state = np.random.get_state()
    return {
        "torch generator": torch.get_rng_state().tolist(),
        "numpy generator": [part.tolist() if isinstance(part, np.ndarray) else part for part in numpy_state],
        "python generator": random.getstate(),
        "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "deterministic": (torch.get_deterministic_debug_mode(), torch.utils.deterministic.fill_uninitialized_memory),
        "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()),
        "matmul precision": torch.get_float32_matmul_precision(),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "mkldnn": torch.backends.mkldnn.enabled,
        "optimizer hooks": {name: list(getattr(torch_optimizer, name)) for name in DICTS_OF_HOOKS},
        "module hooks": {
            name: list(value)
            for name, value in vars(torch.nn.modules.module).items()
            if name.startswith("_global_") and isinstance(value, dict)
        },
        "warning filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "signal handlers": {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)},
        "environment": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109 - the process's own
        "numpy errors": np.geterr(),
        "print options": np.get_printoptions(),
        "csv limit": csv.field_size_limit(),
        "recursion limit": sys.getrecursionlimit(),
        "hooks of the interpreter": (sys.excepthook, sys.stdout, sys.stderr),
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": (logging.root.level, list(logging.root.handlers)),
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    tiny("pretraining").save(root / "pretrained")
    tiny("qa").save(root / "qa")
    encoder = tiny()
    encoder.sentence = SentenceSettings(normalize=True, max_length=16)
    encoder.save(root / "sentence")
    labels = {"labels": ["animal", "place"]}
    tiny("classification", **labels).save(root / "classifier")
    writer = mw.build(mw.preset("gpt2", vocab_size=len(tokenizer()), **TINY, max_position_embeddings=48), head="clm")
    writer.tokenizer = tokenizer()
    writer.save(root / "writer")
    sizes = {"num_hidden_layers": 1, "num_decoder_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
    network = mw.preset("transformer-mini", vocab_size=len(tokenizer()), **sizes, intermediate_size=64)
    translator = mw.build(network, head="seq2seq")
    translator.tokenizer = tokenizer()
    translator.save(root / "translator")
    tokenizer().save(root / "tok")
    corpus(root)
    labeled(root / "rows.tsv", 24, 1)
    (root / "rows.csv").write_text(
        "text,label\n" + "".join(f"the {n} {w},{w}\n" for n in range(8) for w in ("cat", "tree"))
    )
    lines = [f"cats\tB-A\n{n}\tO\n\ndogs\tB-A\n{n}\tO\n\n" for n in range(8)]
    (root / "rows.conll").write_text("".join(lines))
    return root


WORDS, TAGS = [["rain", "fell"], ["cats", "sit"]] * 4, [["A", "B"], ["B", "A"]] * 4
QUESTIONS = [("who sat ?", "the cat sat"), ("what fell ?", "rain fell")] * 4
CHOICES = [("rain", ["fell", "sat"]), ("the cat", ["fell", "sat"])] * 4


def run_of(made, folder, task="classification", **changes):
    settings = {"train": made / "rows.tsv", "epochs": 1, "max_length": 16, "precision": "fp32", "output": folder}
    return mw.FinetuneConfig(**{**settings, "task": task, "model": str(made / "pretrained"), **changes})


CALLS: dict[str, Callable[[Any, Any], object]] = {
    "Tokenizer.train": lambda made, new: mw.Tokenizer.train([str(made / "corpus.txt")], vocab_size=60),
    "Tokenizer.batch": lambda made, new: mw.Tokenizer.load(made / "tok").batch(X, max_length=16),
    "build": lambda made, new: mw.build(mw.preset("bert-tiny", vocab_size=60), head="qa"),
    "load": lambda made, new: mw.load(made / "pretrained"),
    "a model's call": lambda made, new: mw.load(made / "qa")(input_ids=torch.tensor([[1, 5, 6, 2]])),
    "save": lambda made, new: mw.load(made / "qa").save(new / "copy"),
    "TextClassifier": lambda made, new: (
        mw.TextClassifier(str(made / "pretrained"), **QUICK, class_weight="balanced").fit(X, Y).predict_proba(X)
    ),
    "TextRegressor": lambda made, new: mw.TextRegressor(str(made / "pretrained"), **QUICK).fit(X, Y).score(X, Y),
    "TokenTagger": lambda made, new: (
        mw.TokenTagger(str(made / "pretrained"), **QUICK, crf=True).fit(WORDS, TAGS).predict(WORDS)
    ),
    "QuestionAnswerer": lambda made, new: (
        mw.QuestionAnswerer(str(made / "qa"), **QUICK).fit(QUESTIONS, ["cat", "rain"] * 4).predict(QUESTIONS)
    ),
    "MultipleChoice": lambda made, new: (
        mw.MultipleChoice(str(made / "pretrained"), **QUICK).fit(CHOICES, [0, 1] * 4).predict(CHOICES)
    ),
    "AnomalyDetector": lambda made, new: mw.AnomalyDetector(str(made / "pretrained"), **QUICK).fit(X).predict(X),
    "Embedder": lambda made, new: mw.Embedder(str(made / "sentence"), precision="fp32").fit(X).transform(X),
    "FillMask": lambda made, new: mw.FillMask(str(made / "pretrained")).predict(["the [MASK] sat"]),
    "Generator": lambda made, new: mw.Generator(str(made / "writer"), max_new_tokens=4).predict(["the cat"]),
    "Generator.complete": lambda made, new: mw.Generator(str(made / "writer")).complete("the cat"),
    "Translator": lambda made, new: mw.Translator(str(made / "translator"), max_new_tokens=4).predict(["the cat"]),
    "similarity": lambda made, new: mw.similarity(made / "sentence", X[:3]),
    "zero_shot": lambda made, new: mw.zero_shot(made / "sentence", X[:3], ["one", "two"]),
    "search": lambda made, new: mw.search(made / "sentence", str(made / "corpus.txt"), ["cat"]),
    "cluster": lambda made, new: mw.cluster(made / "sentence", X, 2),
    "pipeline": lambda made, new: mw.pipeline(made / "classifier").predict(X),
    "evaluate": lambda made, new: mw.evaluate(made / "classifier", made / "rows.tsv"),
    "pretrain": lambda made, new: mw.pretrain(pretraining(new, steps=2, objective="mlm+nsp")),
    "pretrain, rtd": lambda made, new: mw.pretrain(pretraining(new, steps=2, objective="rtd")),
    "pretrain, lstm": lambda made, new: mw.pretrain(
        pretraining(new, steps=2, objective="clm", preset="lstm-small", model={"hidden_size": 32})
    ),
    "finetune": lambda made, new: mw.finetune(run_of(made, new / "run", calibrate=True)),
    "finetune, several": lambda made, new: mw.finetune(
        mw.MultiTaskConfig(
            multi_task=(str(made / "rows.tsv"), f"tagging:{made / 'rows.conll'}"),
            model=str(made / "pretrained"), epochs=1, max_length=16, precision="fp32", output=new / "run",
        )
    ),
    "distill": lambda made, new: mw.distill(
        mw.DistillConfig(
            teacher=str(made / "pretrained"), corpus=(str(made / "corpus.txt"),), preset="half", steps=2,
            batch_tokens=256, max_length=16, precision="fp32", output=new / "run",
        )
    ),
    "layer_lab": lambda made, new: mw.layer_lab(
        mw.LayerLabConfig(
            model=str(made / "pretrained"), train=made / "rows.conll", dev=made / "rows.conll", epochs=1, max_length=16,
            output=new / "run",
        )
    ),
    "inspect.attention": lambda made, new: mw.inspect.attention(mw.load(made / "pretrained"), "the cat sat"),
    "inspect.attribute": lambda made, new: mw.inspect.attribute(mw.load(made / "classifier"), "the cat sat"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_global_state_as_it_was(made, tmp_path, name):
    torch.manual_seed(1234)
    before = state()
    CALLS[name](made, tmp_path)
    after = state()
    changed = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    assert not changed, json.dumps({key: [str(value)[:200] for value in both] for key, both in changed.items()})


def test_settings_of_the_caller_are_restored_after_training(made):
    """Settings that are not torch's defaults come back too."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        mw.TextClassifier(str(made / "pretrained"), **QUICK).fit(X, Y)
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_every_public_name_is_called():
    classes = ("Batch", "Callback", "MaskwrightError", "ModelConfig", "PretrainConfig", "Tokenizer", "preset")
    called = " ".join(CALLS)
    for name in mw.__all__:
        assert name in called or name in classes or name.endswith("Config"), f"{name} is not in CALLS"
