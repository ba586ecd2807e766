"""Compiled layers: when they are chosen, that they give the plain numbers, what happens where they cannot be had."""

from __future__ import annotations

import pytest
import torch

from maskwright.core.errors import ConfigError
from maskwright.data.batch import Batch
from maskwright.models import transformer
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.train.pretraining import job as compiled
from maskwright.train.pretraining.job import choose_compiling, compile_layers
from small_network import SMALL

CPU, GPU = torch.device("cpu"), torch.device("cuda")
STILL = {**SMALL, "hidden_dropout": 0.0, "attention_dropout": 0.0}


def test_long_runs_on_a_gpu_are_compiled_and_others_are_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "missing_compiler", lambda device: None)
    assert choose_compiling("auto", GPU, 10**6).compiles
    assert not choose_compiling("auto", GPU, 10).compiles
    assert not choose_compiling("auto", CPU, 10**6).compiles
    assert not choose_compiling("off", GPU, 10**6).compiles
    assert choose_compiling("on", CPU, 1).compiles


def test_where_there_is_no_compiler_auto_says_so_and_on_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "missing_compiler", lambda device: "Triton is not installed")
    assert choose_compiling("auto", GPU, 10**6) == compiled.Choice(False, "Triton is not installed")
    with pytest.raises(ConfigError, match="Triton"):
        choose_compiling("on", GPU, 10**6)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch):
    """The same tracing and gradients without making kernels, which takes long; counts the graphs."""
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, inputs: object):
        graphs.append(graph)
        return make_boxed_func(graph)

    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    function = torch.compile(
        transformer.Layer._add, dynamic=True, fullgraph=True, backend=aot_autograd(fw_compiler=keep)
    )
    monkeypatch.setattr(transformer, "_compiled_add", lambda: function)
    yield graphs
    torch._dynamo.reset()


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}])
def test_one_graph_serves_all_layers_and_lengths_with_the_plain_numbers(traced: list, changes: dict):
    found = []
    for compiles in (False, True):
        model = build(ModelConfig(**(STILL | changes))).train()
        if compiles:
            assert compile_layers(model, torch.float32) is None
            assert all(parameter.grad is None for parameter in model.parameters())
        gradients = []
        for lengths in ((5, 9), (7, 7, 11), (3, 20)):
            batch = Batch.from_sequences([[7 + place for place in range(length)] for length in lengths])
            model.zero_grad()
            model.encode(batch).hidden.square().sum().backward()
            gradients += [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        found.append(gradients)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert 1 <= len(traced) <= 2  # the trial's graph, perhaps once more for a free number of tokens


def test_a_compiler_that_fails_leaves_the_layers_plain_and_is_reported(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> torch.Tensor:
        raise RuntimeError("no kernel today\nmore lines")

    monkeypatch.setattr(transformer, "_compiled_add", lambda: broken)
    model = build(ModelConfig(**STILL)).train()
    assert compile_layers(model, torch.float32) == "RuntimeError: no kernel today"
    assert not any(layer.compiles for layer in model.encoder.layers)
    with pytest.raises(ConfigError, match="no kernel today"):
        compile_layers(model, torch.float32, must=True)


@pytest.mark.slow
def test_real_kernels_give_the_plain_numbers_with_dropout_too():
    if compiled.missing_compiler(CPU) is not None:
        pytest.skip("no compiler here")
    model = build(ModelConfig(**(STILL | {"hidden_dropout": 0.1}))).train()
    assert compile_layers(model, torch.bfloat16) is None
