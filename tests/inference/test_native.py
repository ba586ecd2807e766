"""Layers in C++: the numbers of the modules, the same bits in every pack, and a reason wherever they are not used."""

import copy
import shutil
import stat
import threading

import pytest
import torch

from maskwright.data.batch import Batch
from maskwright.inference.engine import native
from maskwright.inference.engine.engine import Engine
from maskwright.inference.engine.native import missing
from maskwright.inference.ready import keep_private
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.nn.native import library

CPU = torch.device("cpu")
USUAL = {"vocab_size": 90, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96}
# The largest difference of hidden states of a standard deviation of about 1, and the smallest cosine similarity.
CLOSE = {"fp32": (2e-5, 0.999999), "bf16": (0.15, 0.999), "int8": (0.5, 0.985)}
LENGTHS = [1, 2, 3, 5, 6, 7, 12, 13, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 130, 257, 300]
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}


def pack(lengths, seed=0) -> Batch:
    draws = torch.Generator().manual_seed(seed)
    return Batch.from_sequences([torch.randint(0, 90, (length,), generator=draws).numpy() for length in lengths])


def drawn(precision="fp32", **changes) -> Model:
    """A network with biases and scales that are not those of an untrained one, and its engine."""
    if missing(PRECISIONS[precision]) is not None:
        pytest.skip(f"layers in C++: {missing(PRECISIONS[precision])}")
    model = build(ModelConfig(**{**USUAL, **changes})).eval()
    draws = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws) * 0.05)
    return with_engine(model, precision)


def with_engine(model: Model, precision: str) -> Model:
    model.engine = Engine(int8=precision == "int8")
    model.compute_dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    if precision == "int8":
        model.engine.calibrate(model, [pack(LENGTHS, seed) for seed in range(1, 4)])
    return model


def hidden(model: Model, batch: Batch) -> torch.Tensor:
    with torch.inference_mode():
        return model.encode(batch).hidden.float()


def by_modules(model: Model, batch: Batch):
    plain = copy.deepcopy(model)
    plain.engine, plain.compute_dtype = None, torch.float32
    with torch.no_grad():
        return plain.encode(batch, hidden_states=True)


def uses_native(model: Model) -> bool:
    hidden(model, pack([3]))
    return model.engine._fixed.native is not None


@pytest.mark.compatibility(
    "torch 2.13.0",
    theirs="A product in bfloat16 or int8 takes 17 to 30 microseconds to start on a CPU, one in float32 3",
    ours="Layers in C++ compute the same in one call, where there are AVX-512 and a compiler; doctor states it",
)
@pytest.mark.parametrize("precision", list(PRECISIONS))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hidden_act": "gelu_new", "num_hidden_groups": 1, "num_hidden_layers": 3},  # shared weights, as in ALBERT
        {"hidden_act": "relu", "num_attention_heads": 4},  # heads of 16
        {"hidden_size": 96, "num_attention_heads": 2, "linear_bias": False},  # heads of 48
        {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512},  # heads of 64
        {"embedding_size": 32, "qkv_bias": False},
    ],
)
def test_every_kind_of_layer_has_the_numbers_of_the_modules(precision, changes):
    model, batch = drawn(precision, **changes), pack(LENGTHS)
    assert uses_native(model)
    wanted = by_modules(model, batch)
    with torch.inference_mode():
        found = model.encode(batch, hidden_states=True)
    assert len(found.hidden_states) == len(wanted.hidden_states)
    worst, least = CLOSE[precision]
    for one, other in zip((*found.hidden_states, found.hidden), (*wanted.hidden_states, wanted.hidden), strict=True):
        assert float((one.float() - other).abs().max()) < worst
        assert float(torch.cosine_similarity(one.float(), other, dim=-1).min()) > least
    assert torch.equal(hidden(model, batch), found.hidden.float()), "the states of all layers changed the last"


@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_a_text_has_the_same_bits_in_every_pack_and_with_any_number_of_threads(precision):
    model, before = drawn(precision), torch.get_num_threads()
    lengths = LENGTHS * 4  # enough for each thread to take sequences of its own
    together = hidden(model, pack(lengths)).split(lengths)
    rows = pack(lengths).input_ids.split(lengths)
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            for count in (1, 4, len(lengths)):
                few = Batch.from_sequences([row.numpy() for row in rows[-count:]])
                for found, wanted in zip(hidden(model, few).split(lengths[-count:]), together[-count:], strict=True):
                    assert torch.equal(found, wanted)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_large_numbers_stay_finite_and_what_is_no_number_stays_one(precision):
    model = drawn(precision, hidden_act="gelu_new")
    with torch.no_grad():
        model.encoder.layers[0].ffn.up.bias[::2] = 1e7
        model.encoder.layers[0].ffn.up.bias[1::2] = -1e7
    model = with_engine(model, precision)
    assert uses_native(model) and hidden(model, pack([4, 20])).isfinite().all()
    if precision != "int8":
        with torch.no_grad():
            model.encoder.layers[0].attention.qkv.bias[0] = float("nan")
        assert hidden(model, pack([4, 20])).isnan().all()


def test_int8_without_an_activation_scales_every_channel():
    model, batch = drawn("int8", hidden_act="linear"), pack(LENGTHS)
    with torch.no_grad():
        model.encoder.layers[0].ffn.up.weight[:4] *= 100
        model.encoder.layers[0].ffn.down.weight[:, :4] /= 100
    model = with_engine(model, "int8")
    assert uses_native(model)
    assert float(torch.cosine_similarity(hidden(model, batch), by_modules(model, batch).hidden, dim=-1).min()) > 0.985


def test_weights_that_move_in_memory_and_defaults_of_torch_change_nothing(monkeypatch):
    model, batch = drawn(), pack([5, 9])
    keep_private(model)
    wanted = hidden(model, batch)
    model.share_memory()
    assert torch.equal(hidden(model, batch), wanted)
    monkeypatch.setattr(native, "_time", lambda library, precision: 1.0)
    usual = [native.missing.__wrapped__(precision) for precision in PRECISIONS.values()]
    try:
        torch.set_default_dtype(torch.bfloat16)
        torch.set_default_device("meta")
        assert [native.missing.__wrapped__(precision) for precision in PRECISIONS.values()] == usual
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def test_threads_of_python_encode_at_the_same_time():
    model = drawn()
    batches = [pack(LENGTHS, seed) for seed in range(4)]
    wanted, found = [hidden(model, batch) for batch in batches], {}

    def run(number: int) -> None:
        found[number] = [torch.equal(hidden(model, batches[number]), wanted[number]) for _ in range(5)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(found[number]) == 5 and all(found[number]) for number in range(len(batches)))


def test_changed_weights_are_read_again():
    model, batch = drawn(), pack([5, 9])
    before = hidden(model, batch)
    with torch.no_grad():
        model.encoder.layers[0].ffn.down.weight.mul_(2.0)
    assert not torch.allclose(hidden(model, batch), before)
    torch.testing.assert_close(hidden(model, batch), by_modules(model, batch).hidden, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "pre"},
        {"gated": True},
        {"norm_kind": "rms"},
        {"hidden_act": "silu"},
        {"positions": "rotary"},
        {"positions": "relative_key"},
        {"attention": "causal"},
        {"num_attention_heads": 8},  # heads of 8
        {"hidden_size": 48, "num_attention_heads": 3},
        {"intermediate_size": 100},
        {"num_hidden_layers": 0},
    ],
)
def test_other_layers_use_the_products_of_torch(changes):
    model = drawn(**changes)
    assert not uses_native(model)
    torch.testing.assert_close(hidden(model, pack([4, 9])), by_modules(model, pack([4, 9])).hidden, rtol=0, atol=2e-5)


# -- where there is no library -----------------------------------------------------------------------------------


@pytest.fixture
def anew(monkeypatch, tmp_path):
    """Forgets what was compiled, during a test; returns the cache's folder."""
    if missing(torch.float32) is not None:
        pytest.skip(f"layers in C++: {missing(torch.float32)}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library, "READY", tmp_path / "absent")
    monkeypatch.setattr(native, "_time", lambda library, precision: 1.0)
    native.missing.cache_clear()
    library.library.cache_clear()
    yield tmp_path / "maskwright" / "native"
    native.missing.cache_clear()
    library.library.cache_clear()


def test_it_is_compiled_once_in_a_folder_that_only_its_owner_can_open(anew, monkeypatch, capsys):
    assert missing(torch.float32) is None and "compiling" in capsys.readouterr().err
    assert [path.suffix for path in anew.iterdir()] == [".so"] and stat.S_IMODE(anew.stat().st_mode) == 0o700
    native.missing.cache_clear()
    library.library.cache_clear()
    monkeypatch.setattr(library.subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    assert missing(torch.float32) is None and not capsys.readouterr().err


def test_threads_that_need_it_first_compile_it_once(anew, monkeypatch, capsys):
    found: list[str | None] = []
    threads = [threading.Thread(target=lambda one=one: found.append(missing(one))) for one in PRECISIONS.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(missing(torch.float32)) >= 1 and capsys.readouterr().err.count("compiling") == 1
    assert len(list(anew.iterdir())) == 1


def test_what_cannot_be_compared_has_a_reason(anew, monkeypatch):
    def gone(*_):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(native, "_time", gone)
    assert "no such operator" in missing(torch.float32)


def test_without_a_compiler_the_products_of_torch_are_used(anew, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "there is no C++ compiler on the path (g++, clang++, c++)" in missing(torch.float32)
    model = with_engine(build(ModelConfig(**USUAL)).eval(), "fp32")
    assert not uses_native(model)


def test_code_that_another_user_could_have_put_there_is_not_loaded(anew):
    anew.parent.mkdir(parents=True)
    anew.parent.chmod(0o777)
    assert "every user can write to it" in missing(torch.float32) and not list(anew.iterdir())
    native.missing.cache_clear()
    library.library.cache_clear()
    anew.parent.chmod(0o700)
    assert missing(torch.float32) is None


def test_the_environment_switches_it_off(monkeypatch):
    monkeypatch.setenv("MASKWRIGHT_NATIVE", "off")
    assert native.missing.__wrapped__(torch.float32) == "MASKWRIGHT_NATIVE=off"


@pytest.mark.parametrize("script", ["echo 'x.cpp:1: error: no such header' >&2; exit 1", "exit 0", "exit 1"])
def test_a_compiler_that_fails_leaves_nothing_and_its_reason(script, anew, monkeypatch, tmp_path):
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(compiler))
    reason = missing(torch.float32)
    assert ("no such header" if "header" in script else "cannot be used") in reason
    assert not list(anew.iterdir())


def test_a_damaged_library_and_one_that_computes_otherwise_are_found_out(anew, monkeypatch, tmp_path):
    monkeypatch.setattr(native, "_difference", lambda library, precision: float("nan"))
    assert "differs from torch's operators" in missing(torch.float32)
    monkeypatch.setattr(library, "READY", tmp_path / "native.so")
    library.READY.write_bytes(b"no library")
    native.missing.cache_clear()
    library.library.cache_clear()
    assert "cannot be used" in missing(torch.float32)


def test_it_is_not_used_where_torch_is_faster(anew, monkeypatch):
    monkeypatch.setattr(native, "_time", lambda library, precision: 1.3)
    assert missing(torch.float32) == "it takes 1.30 times as long as torch's products on this CPU"


def test_a_cpu_without_the_instructions_or_with_amx_does_not_use_it(monkeypatch):
    monkeypatch.delenv("MASKWRIGHT_NATIVE", raising=False)
    for flags, precision, word in (
        ({"avx2"}, torch.float32, "AVX-512"),
        ({*library.REQUIRED}, torch.int8, "avx512_vnni"),
        ({*library.REQUIRED}, torch.float16, "float16"),
        ({*library.REQUIRED, "avx512_vnni", "amx_int8"}, torch.int8, "AMX"),
        ({*library.REQUIRED, "avx512_bf16", "amx_bf16"}, torch.bfloat16, "AMX"),
    ):
        monkeypatch.setattr(library, "instruction_sets", lambda flags=flags: frozenset(flags))
        assert word in native.missing.__wrapped__(precision)
