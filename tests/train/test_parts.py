"""Checkpoints, optimizer, prefetching, run folders, verdicts, compression: the parts of a training alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from contracts.objectives import make, model_for
from maskwright.core import registry, storage
from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.lessons.small import small_network
from maskwright.models import transformer
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.nn.embeddings import Table
from maskwright.train.checkpoint import write_tensors
from maskwright.train.distillation.student import factorize_words, share_layers
from maskwright.train.finetuning.finetune import MAX_TEXT, held_out_examples
from maskwright.train.optimizer import RowGradients, adamw
from maskwright.train.pretraining import job as compiled
from maskwright.train.pretraining.health import Baseline, judge
from maskwright.train.pretraining.job import PretrainJob, choose_compiling, compile_layers
from maskwright.train.run import FINISHED, RunFolder, open_run
from maskwright.train.schedules import learning_rate, warmup_steps
from maskwright.train.steps import Prefetcher
from small_network import SMALL


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_a_file_has_the_bytes_of_the_library(tmp_path, dtype):
    tensors = {
        "b": torch.arange(6).view(2, 3).to(dtype),
        "a/step": torch.tensor(3.0),
        "empty": torch.zeros(0, 4, dtype=dtype),
        "é": torch.ones(3, dtype=torch.float16),
        "c": torch.arange(12.0).view(3, 4).T.to(dtype),
    }
    write_tensors(tmp_path / "x.safetensors", tensors)
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    assert (tmp_path / "x.safetensors").read_bytes() == safetensors.torch.save(whole)


def test_tied_tensors_are_stored_once_each(tmp_path):
    table = torch.randn(4, 2)
    write_tensors(tmp_path / "x.safetensors", {"one": table, "other": table})
    found = safetensors.torch.load((tmp_path / "x.safetensors").read_bytes())
    assert torch.equal(found["one"], table) and torch.equal(found["other"], table)


# -- Schedules and decay groups as published ---------------------------------------------------------------------------

SCHEDULES = st.sampled_from(["linear", "cosine", "constant"])


@given(steps=st.integers(1, 500), share=st.floats(0, 0.9), schedule=SCHEDULES)
def test_rates_rise_to_the_peak_and_never_pass_it(steps, share, schedule):
    warmup = warmup_steps(share, steps)
    rates = [learning_rate(step, steps=steps, peak=1.0, warmup=warmup, schedule=schedule) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates)
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)
    if warmup < steps:
        assert rates[warmup] == 1.0


def test_golden_values_of_the_linear_schedule():
    rates = [learning_rate(step, steps=10, peak=1.0, warmup=2, schedule="linear") for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])


def half(step, steps, warmup):
    return 0.5


def test_a_schedule_is_a_function_and_a_line_of_the_registry(monkeypatch):
    monkeypatch.setitem(registry.TABLE["schedule"], "half", "train.test_parts:half")
    assert learning_rate(7, steps=9, peak=3.0, warmup=2, schedule="half") == 1.5
    assert learning_rate(0, steps=9, peak=3.0, warmup=2, schedule="half") == 1.5  # the warmup is not its own


# -- Sparse look-up gradients train as dense ones do, and leave the model as it was ------------------------------------

STEPS = ([3, 1, 3], [0, 2], [5, 5, 5, 1])


class Small(nn.Module):
    """A table, and if tied a product with it."""

    def __init__(self, tied):
        super().__init__()
        self.table, self.tied = Table(7, 4, padding_id=0), tied
        self.table.weight.data.copy_(torch.randn(7, 4, generator=torch.Generator().manual_seed(0)))

    def loss(self, ids):
        """A number that depends on the rows `ids`, each as often as it occurs."""
        rows = self.table(torch.tensor(ids))
        scale = torch.arange(1.0, 1 + rows.numel()).view_as(rows)
        made = (rows * scale).tanh().sum()
        return made + (rows @ self.table.weight.T).square().sum() if self.tied else made


def three_steps(model, with_rows):
    """Three steps of two micro-batches each. Returns the gradients that the optimizer saw."""
    optimizer, seen = adamw(model, 0.1, 0.01), []
    with RowGradients.of(model) as rows:
        model.table.sparse_gradient &= with_rows
        for ids in STEPS:
            for part in (ids, ids[:1]):
                model.loss(part).backward()
            rows.spread()
            seen.append(model.table.weight.grad.clone())
            optimizer.step()
            rows.clear()
            optimizer.zero_grad(set_to_none=True)
    return seen


@pytest.mark.parametrize("tied", [False, True])
def test_steps_are_those_of_dense_gradients(tied):
    sparse, dense = Small(tied), Small(tied)
    torch.testing.assert_close(three_steps(sparse, True), three_steps(dense, False), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(sparse.table.weight, dense.table.weight, rtol=1e-6, atol=1e-6)


# -- Batches prepared ahead equal those made on demand, and their leftovers are distinguished --------------------------


def test_an_error_is_raised_when_its_step_is_requested():
    def make(step):
        if step == 1:
            raise ValueError("step 1")
        return step

    steps = Prefetcher(make, ahead=True)
    assert steps.take(0) == 0
    with pytest.raises(ValueError, match="step 1"):
        steps.take(1)
    steps.forget()
    assert steps.take(2) == 2


# -- A job with prefetching gives the same batches, and a checkpoint records the end of the used ones ------------------


class Shards:
    tokens = np.random.default_rng(0).integers(5, 30, size=(12, 40))

    def document_tokens(self, document):
        return self.tokens[document].astype(np.int64)

    def sentence_lengths_of(self, document):
        return np.full(8, 5)

    def document_lengths(self):
        return np.full(12, 40)


def job(ahead):
    objective, _ = make("mlm")
    made = PretrainJob(
        model_for(objective),
        objective,
        Shards(),  # type: ignore[arg-type]
        np.arange(12),
        tokenizer=None,
        sequences=3,
        accumulation=2,
        seed=4,
        device=torch.device("cpu"),
    )
    made._next = Prefetcher(made._make, ahead)
    return made


def test_batches_and_positions_are_those_of_a_job_that_makes_them_on_demand():
    plain, early = job(False), job(True)
    for step in range(7):
        for one, other in zip(plain.micro_batches(step), early.micro_batches(step), strict=True):
            assert torch.equal(one.input_ids, other.input_ids) and torch.equal(one.cu_seqlens, other.cu_seqlens)
            assert torch.equal(one.labels["mlm"], other.labels["mlm"])
        assert plain.state() == early.state()


def test_a_restored_job_goes_on_where_the_checkpoint_was():
    first = job(True)
    for step in range(3):
        first.micro_batches(step)
    state = first.state()
    wanted = [first.micro_batches(step)[1].input_ids for step in (3, 4)]
    second = job(True)
    second.micro_batches(0)
    second.restore(state)
    for step, ids in zip((3, 4), wanted, strict=True):
        assert torch.equal(second.micro_batches(step)[1].input_ids, ids)


# -- A failed run leaves no files, unless it has trained weights, which are never removed ------------------------------


def test_refused_input_leaves_no_folder(tmp_path):
    with pytest.raises(InputError), open_run(tmp_path / "run", {"epochs": 1}) as run:
        storage.write_text(run.path / "tokenizer/vocab.txt", "a\n")
        raise InputError("a bad row")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("part", [".", "seed-0", "finetuned/lstm/seed-1"])
def test_trained_weights_stay_when_something_fails_afterwards(tmp_path, part):
    with pytest.raises(ValueError), open_run(tmp_path / "run", {"epochs": 1}) as run:
        (run.path / part).mkdir(parents=True, exist_ok=True)
        RunFolder(run.path / part, {}).log({"step": 1})
        raise ValueError("in the report")
    assert RunFolder(tmp_path / "run" / part, {}).records()[0]["step"] == 1
    with open_run(tmp_path / "run", {"epochs": 1}) as run:  # the same command resumes
        assert run.result is None


@pytest.mark.parametrize("name", FINISHED)
def test_finished_parts_of_ladders_and_labs_stay(tmp_path, name):
    with pytest.raises(InputError), open_run(tmp_path / "run", {"epochs": 1}) as run:
        storage.write_json(run.path / name / "words.json", {"score": 0.5})
        raise InputError("another part cannot be made")
    assert storage.read_json(tmp_path / "run" / name / "words.json") == {"score": 0.5}


# -- The verdict on a run ----------------------------------------------------------------------------------------------

BASELINE = Baseline(mlm_accuracy=0.06, mlm_loss=6.5)


@pytest.mark.parametrize(("loss", "accuracy", "level"), [(6.48, 0.06, "bad"), (6.0, 0.08, "watch"), (3.5, 0.4, "good")])
def test_levels(loss, accuracy, level):
    scores = {"mlm_scored_loss": loss, "mlm_accuracy": accuracy, "nsp_accuracy": 0.8}
    assert judge(scores, BASELINE, [8.0, 7.0, loss]).level == level


def test_a_loss_that_rises_at_the_end_is_watched():
    losses = [*np.linspace(8, 3, 40), *np.linspace(3, 6, 10)]
    verdict = judge({"mlm_scored_loss": 4.0, "mlm_accuracy": 0.3}, BASELINE, losses)
    assert verdict.level == "watch"
    assert "increased toward the end" in " ".join(verdict.reasons)


# -- Which held-out rows a model folder carries ------------------------------------------------------------------------


def row(text, label="a", pair=None):
    return SimpleNamespace(text=text, text_pair=pair, label=label)


def test_one_of_each_label_first_in_their_order():
    rows = [row("1", "b"), row("2", "b"), row("3", "a"), row("4", "b"), row("5", "c"), row("6", "d")]
    assert [one["text"] for one in held_out_examples(rows)] == ["1", "3", "5"]
    assert [one["text"] for one in held_out_examples(rows[:4])] == ["1", "3", "2"]
    assert held_out_examples([]) == []


def test_long_and_empty_texts_are_left_out_and_other_labels_too():
    rows = [
        row("x" * (MAX_TEXT + 1)),
        row(""),
        row("short", pair="y" * 1001),
        row("tags", ["O", "B"]),
        row("q", 1, "p"),
    ]
    assert held_out_examples(rows) == [{"text": "tags"}, {"text": "q", "text_pair": "p", "label": 1}]


# -- Compression without training: what is the same, what is smaller, and what is rejected -----------------------------

BATCH = Batch.from_sequences([[2, 9, 11, 17, 3], [2, 5, 3]])


def hidden(model):
    return model.encode(BATCH).hidden.detach()


def test_a_factorized_table_is_close_and_smaller_and_exact_at_its_own_rank():
    model = small_network(200)
    table = model.encoder.embeddings.word.weight
    smaller = factorize_words(model, 8)
    assert torch.linalg.matrix_rank(smaller.word_embeddings) == 8
    best = torch.linalg.svdvals(table)[8:].square().sum().sqrt()
    gap = (smaller.word_embeddings - table).norm()
    assert torch.isclose(gap, best, rtol=1e-3), "no table of this rank is closer"
    with torch.no_grad():
        table.copy_(smaller.word_embeddings)
    assert torch.allclose(hidden(factorize_words(model, 8)), hidden(model), atol=1e-4)


def test_layers_that_are_alike_may_share_their_weights():
    model = small_network(40, num_hidden_layers=3)
    with torch.no_grad():
        for name, parameter in model.encoder.layers[0].named_parameters():
            for other in model.encoder.layers[1:]:
                other.get_parameter(name).copy_(parameter)
    shared = share_layers(model)
    one = sum(parameter.numel() for parameter in model.encoder.layers[0].parameters())
    assert model.num_parameters - shared.num_parameters == 2 * one
    assert torch.allclose(hidden(shared), hidden(model), atol=1e-5)


def test_what_cannot_be_compressed_again_is_refused():
    with pytest.raises(InputError, match="two layers"):
        share_layers(small_network(40, num_hidden_layers=1))
    with pytest.raises(InputError, match="already factorized"):
        factorize_words(small_network(40, embedding_size=8), 4)
    with pytest.raises(InputError, match="rank of 32"):
        factorize_words(small_network(40), 32)


# -- Compiled layers -------------------------------------------------------------------------------------------------

CPU, GPU = torch.device("cpu"), torch.device("cuda")
STILL = {**SMALL, "hidden_dropout": 0.0, "attention_dropout": 0.0}


def test_long_runs_on_a_gpu_are_compiled_and_others_are_not(monkeypatch):
    monkeypatch.setattr(compiled, "missing_compiler", lambda device: None)
    assert choose_compiling("auto", GPU, 10**6).compiles
    assert not choose_compiling("auto", GPU, 10).compiles
    assert not choose_compiling("auto", CPU, 10**6).compiles
    assert not choose_compiling("off", GPU, 10**6).compiles
    assert choose_compiling("on", CPU, 1).compiles


def test_where_there_is_no_compiler_auto_says_so_and_on_is_refused(monkeypatch):
    monkeypatch.setattr(compiled, "missing_compiler", lambda device: "Triton is not installed")
    assert choose_compiling("auto", GPU, 10**6) == compiled.Choice(False, "Triton is not installed")
    with pytest.raises(ConfigError, match="Triton"):
        choose_compiling("on", GPU, 10**6)


@pytest.fixture
def traced(monkeypatch):
    """The same tracing and gradients without making kernels, which takes long; counts the graphs."""
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph, inputs):
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


@pytest.mark.parametrize("changes", [{}, pytest.param({"norm": "pre"}, marks=pytest.mark.slow)])
def test_one_graph_serves_all_layers_and_lengths_with_the_plain_numbers(traced, changes):
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


def test_a_compiler_that_fails_leaves_the_layers_plain_and_is_reported(monkeypatch):
    def broken(*_):
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
