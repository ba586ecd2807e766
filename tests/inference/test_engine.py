"""The inference engine: the numbers of the modules, whatever the switches, and never those of weights that were."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_networks import configs
from inference.samples import tiny
from maskwright.data.batch import Batch
from maskwright.inference.engine import attention, choice, layers, operators
from maskwright.inference.engine.attention import CACHED_SCORES, WAYS, packed_attention
from maskwright.inference.engine.engine import Engine
from maskwright.models import device
from maskwright.models.build import build
from maskwright.models.device import CACHES, KEPT_SHAPES
from maskwright.models.model import Model
from maskwright.models.presets import PRESETS, preset
from maskwright.nn.attention import Run, attend
from maskwright.nn.layers import ACTIVATIONS
from maskwright.nn.native import library

ragged = st.lists(st.integers(1, 16), min_size=1, max_size=8)
SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def pack(lengths, vocab_size=40, num_types=0, seed=0) -> Batch:
    draws = torch.Generator().manual_seed(seed)
    rows = [torch.randint(0, vocab_size, (length,), generator=draws).numpy() for length in lengths]
    if not num_types:
        return Batch.from_sequences(rows)
    types = [torch.randint(0, num_types, (length,), generator=draws).numpy() for length in lengths]
    return Batch.from_sequences(rows, types)


def by_modules(model: Model, batch: Batch):
    with torch.no_grad():
        return model.encode(batch, hidden_states=True)


def by_engine(model: Model, batch: Batch):
    model.engine = model.engine or Engine()
    with torch.inference_mode():
        return model.encode(batch, hidden_states=True)


def cosine(a, b) -> float:
    return float(torch.nn.functional.cosine_similarity(a.float(), b.float(), dim=-1).min())


# -- the same numbers --------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(configs, ragged, st.integers(0, 9), st.booleans())
def test_every_switch_gives_the_numbers_of_the_modules(config, lengths, seed, packed_products):
    model = build(config, seed=seed).eval()
    batch = pack(lengths, num_types=config.type_vocab_size * (seed % 2), seed=seed)
    expected = by_modules(model, batch)
    with pytest.MonkeyPatch.context() as patch:
        if not packed_products:
            patch.setattr(operators, "missing", lambda dtype: "removed")
        found = by_engine(model, batch)
    for one, other in zip(found.hidden_states, expected.hidden_states, strict=True):
        scale = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one, other, rtol=0, atol=2e-4 * scale)  # unscaled scores round coarsely
    assert torch.equal(found.hidden, found.hidden_states[-1])


def test_global_tokens_of_a_pack_that_is_filled_up():
    config = preset("bert-mini", **SMALL, attention="window", window_size=4, global_attention=True)
    model = build(config, "classification", labels=2, seed=0).eval()
    batch = pack([3, 5, 5], 60, 2)
    with torch.no_grad():
        expected = model.logits(batch)
    model.engine = Engine()
    with torch.inference_mode():
        torch.testing.assert_close(model.logits(batch), expected, rtol=0, atol=1e-5)


ALIKE = {repr(preset(name, **SMALL)): name for name, config in PRESETS.items() if config.recurrent is None}


@pytest.mark.parametrize("name", sorted(ALIKE.values()))  # one of those that differ in sizes alone
def test_every_preset_in_bfloat16_stays_near_the_modules_in_float32(name):
    config = preset(name, **SMALL)
    model = build(config, seed=3).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)), alpha=0.1)
    batch = pack([3, 1, 9, 9, 9, 30, 30], 60, config.type_vocab_size)
    expected = by_modules(model, batch).hidden  # float32
    model.compute_dtype = torch.bfloat16
    found = by_engine(model, batch).hidden
    assert found.dtype == torch.bfloat16 and cosine(found, expected) > 0.998


@settings(max_examples=60)
@given(
    ragged,
    st.sampled_from([1, 2, 4]),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.sampled_from(["columns", "rows", "float", "wide columns", "wide rows", "fused"]),
    st.integers(1, 3000),
)
def test_every_way_of_attention_is_that_of_the_modules(lengths, num_heads, dtype, way, cached):
    runs, start = [], 0
    for length in lengths:
        runs.append(Run(start, 2, length))
        start += 2 * length
    qkv = torch.randn(start, 24, generator=torch.Generator().manual_seed(0)).to(dtype)
    expected, _ = attend(qkv.float(), runs, num_heads, fused=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(WAYS, dtype, () if way == "fused" else ((9, way), (99, way)))
        patch.setitem(CACHED_SCORES, dtype, cached)
        patch.setattr(attention, "cpu_has", lambda flag: False)
        found = packed_attention(qkv, runs, num_heads)
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("flags", [(), ("amx_bf16", "avx512_f")])
@pytest.mark.compatibility(
    "torch 2.13.0",
    theirs="scaled_dot_product_attention of one sequence without a batch axis is another kernel than of a batch",
    ours="Only the length of a text selects the kernel, so attention does not depend on the other texts of a pack",
)
def test_attention_does_not_depend_on_the_other_sequences_to_the_last_bit(dtype, flags, monkeypatch):
    monkeypatch.setattr(attention, "cpu_has", lambda flag: flag in flags)
    draws = torch.Generator().manual_seed(0)
    for length in (1, 5, 15, 16, 17, 31, 32, 55, 56, 100, 191, 192):
        many = torch.randn(9, length, 3 * 24, generator=draws).to(dtype)
        runs = [Run(0, 9, length)]
        together = packed_attention(many.view(-1, 72), runs, 2).view(9, length, 24)
        for row in range(0, 9, 4):
            assert torch.equal(packed_attention(many[row], [Run(0, 1, length)], 2), together[row])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_every_activation_is_inside_or_after_the_product(name, dtype):
    draws = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(size, generator=draws).to(dtype) for size in ((10, 6), (10,), (5, 6)))
    act = ACTIVATIONS[name]
    expected = act(torch.nn.functional.linear(x.float(), weight.float(), bias.float()))
    kinds = [layers.PlainProduct]
    if operators.missing(dtype) is None:
        assert layers.NAMES[act] in operators.FUSED
        kinds.append(layers.PackedProduct)
    for kind in kinds:
        with torch.inference_mode():
            found = kind(weight, bias, dtype, act)(x)
        torch.testing.assert_close(found.float(), expected, rtol=2e-2, atol=1e-5 if dtype == torch.float32 else 2e-2)


# -- weights that change -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("used", ["before backward", "before the step", "after the step"])
@pytest.mark.parametrize("to_none", [True, False])
def test_a_fused_step_is_seen_wherever_the_model_is_used_between(used, to_none):
    """A fused optimizer of the caller changes weights without counting a version, and has no hook of ours."""
    model, batch = tiny(), pack([4, 4, 9])
    by_engine(model, batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    for _ in range(2):
        loss = model.encode(batch).hidden.square().sum()
        if used == "before backward":
            by_engine(model, batch)
        loss.backward()
        if used != "before backward":
            by_engine(model, batch)
        optimizer.step()
        if used == "after the step":
            found, expected = by_engine(model, batch).hidden, by_modules(model, batch).hidden
            torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
        optimizer.zero_grad(set_to_none=to_none)
    torch.testing.assert_close(by_engine(model, batch).hidden, by_modules(model, batch).hidden, rtol=0, atol=2e-5)


def test_parameters_do_not_keep_the_engine():
    model = tiny()
    by_engine(model, pack([4, 9]))
    engine = weakref.ref(model.engine)
    model.engine = None
    gc.collect()
    assert engine() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.load_state_dict(tiny(seed=9).state_dict()),
        lambda model: setattr(model.encoder.layers[0].ffn.up, "weight", torch.nn.Parameter(torch.ones(64, 32))),
        lambda model: setattr(model.encoder.layers[0], "ffn", copy.deepcopy(model.encoder.layers[1].ffn)),
        lambda model: setattr(model, "encoder", tiny(seed=9).encoder),
        lambda model: setattr(model.encoder.layers[0].ffn.up.weight, "data", torch.ones(64, 32)),
        lambda model: model.encoder.layers[0].ffn.up.weight.detach().mul_(2),
        lambda model: model.to(torch.float64),
    ],
    ids=["load_state_dict", "parameter", "module", "encoder", "data", "in place", "dtype"],
)
def test_every_other_change_of_weights_is_seen(change):
    model, batch = tiny(), pack([4, 4, 9])
    by_engine(model, batch)
    change(model)
    torch.testing.assert_close(by_engine(model, batch).hidden, by_modules(model, batch).hidden, rtol=0, atol=2e-5)


def test_nothing_in_the_model_changes():
    model = tiny("mlm")
    before = {name: (one.clone(), one._version) for name, one in model.named_parameters()}
    keys = list(model.state_dict())
    by_engine(model, pack([4, 4, 9]))
    assert list(model.state_dict()) == keys
    for name, one in model.named_parameters():
        assert torch.equal(one, before[name][0]) and one._version == before[name][1]


def test_weights_made_under_inference_mode_are_never_copied():
    with torch.inference_mode():
        model, batch = tiny(), pack([4, 9])
        model.engine = Engine()
        model.encode(batch)
        for parameter in model.parameters():
            parameter.mul_(0.5)
        found = model.encode(batch).hidden
        model.engine = None
        torch.testing.assert_close(found, model.encode(batch).hidden, rtol=0, atol=1e-6)


def test_a_copied_or_pickled_model_packs_its_own_weights():
    model, batch = tiny(), pack([4, 9])
    expected = by_engine(model, batch).hidden
    model.tokenizer = None
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.engine is not model.engine
        torch.testing.assert_close(by_engine(other, batch).hidden, expected, rtol=0, atol=1e-6)


# -- the choice --------------------------------------------------------------------------------------------------


def test_plain_products_serve_where_packed_ones_are_missing(monkeypatch):
    monkeypatch.setattr(choice, "cpu_has", lambda flag: True)
    monkeypatch.setattr(operators, "missing", lambda dtype: "this build of torch has no oneDNN")
    found = choice.choose("fp32", torch.device("cpu"))
    assert found.products == "plain" and "no oneDNN" in found.why
    assert choice.float_kernels(torch.float32, torch.device("cpu")).kind is layers.PlainProduct
    assert choice.choose("bf16", torch.device("cuda")).products == "plain"
    assert choice.choose("int8", torch.device("cuda")).products == "none"


def test_operators_that_changed_or_lie_are_found_out(monkeypatch):
    def gone(*_):
        raise AttributeError("no such operator")

    for wrong, word in ((gone, "no such operator"), (lambda x, *_: x.new_ones(len(x), 64), "differ")):
        operators.missing.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(operators, "product", wrong)
            patch.setattr(operators, "pack", lambda weight: weight)
            patch.setattr(operators, "product_and", lambda x, other, *_: other)
            assert word in operators.missing(torch.float32)
    operators.missing.cache_clear()


# -- memory ------------------------------------------------------------------------------------------------------

SHAPES = """
import torch
from maskwright.inference.engine.engine import Engine
from maskwright.inference.engine.layers import PackedProduct
from maskwright.models.device import resolve_device
{begin}
product = PackedProduct(torch.randn(64, 64), None, torch.bfloat16)
with torch.inference_mode():
    for rows in [*range(1, {many} + 1), 1]:
        product(torch.randn(rows, 64).bfloat16())
"""


@pytest.mark.slow
@pytest.mark.skipif(operators.missing(torch.bfloat16) is not None, reason="no packed products in bfloat16 here")
@pytest.mark.parametrize(
    ("begin", "variables", "is_kept"),
    [("Engine()", {}, False), ("resolve_device('cpu')", {}, False), ("Engine()", dict.fromkeys(CACHES, "1024"), True)],
)
def test_code_is_kept_for_few_shapes_unless_the_environment_says_otherwise(begin, variables, is_kept):
    environment = {name: value for name, value in os.environ.items() if name not in CACHES}
    code = SHAPES.format(begin=begin, many=KEPT_SHAPES + 9)
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"ONEDNN_VERBOSE": "profile_create"} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    made = ["cache_hit" in line for line in run.stdout.splitlines() if ",mb1ic64oc64," in line]
    assert made == [False, is_kept]


@pytest.mark.compatibility(
    "torch 2.13.0",
    theirs="oneDNN compiles each product for each number of rows: 1 ms and 0.6 MB each",
    ours="Packs are filled up to few numbers of rows, so a text of a new length takes as long as one of a known length",
)
def test_texts_of_all_lengths_are_computed_with_few_numbers_of_rows(monkeypatch):
    if choice.choose("fp32", torch.device("cpu")).products != "packed":
        pytest.skip("products are not packed on this CPU")
    seen, product = set(), operators.product
    monkeypatch.setattr(operators, "product", lambda x, *rest: seen.add(len(x)) or product(x, *rest))
    model = tiny()
    for length in range(1, 49):
        assert by_engine(model, pack([length])).hidden.shape[0] == length
    assert seen == set(range(8, 49, 8))


@pytest.mark.compatibility(
    "torch 2.13.0, OpenVINO 2026.4.1",
    theirs="An Intel CPU with AVX512_BF16 whose AMX is hidden multiplies bfloat16 in twice the time of float32",
    ours="Automatic precision is bf16 only if a product takes less time in it, measured once; doctor states it",
)
@pytest.mark.parametrize(("time", "chosen"), [(0.5, "bf16"), (1.8, "fp32"), (None, "fp32")])
def test_bfloat16_is_automatic_where_the_cpu_is_faster_in_it(time, chosen, monkeypatch):
    monkeypatch.setattr(device, "bf16_time", lambda: time)
    cpu = torch.device("cpu")
    assert device.resolve_precision("auto", cpu) == device.resolve_precision("auto", cpu, training=True) == chosen
    assert device.resolve_precision("bf16", cpu) == "bf16"  # on request, on every CPU
    assert choice.int8_kernels({}, cpu).attention_dtype == device.DTYPES[chosen]


def test_the_time_of_bfloat16_is_measured_where_the_cpu_has_it(monkeypatch):
    for flags, is_measured in (({"avx512_bf16"}, True), ({"avx2"}, False)):
        monkeypatch.setattr(library, "instruction_sets", lambda flags=flags: frozenset(flags))
        time = device.bf16_time.__wrapped__()
        assert (time is not None and 0 < time < 1000) if is_measured else time is None
