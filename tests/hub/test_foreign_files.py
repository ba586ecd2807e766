"""Readers of `.bin` files, without the process around them: every table comes back, and nothing else is believed."""

from __future__ import annotations

import ast
import io
import pickle
import random
import struct
import sys
import tarfile
from collections import OrderedDict
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conventions.sources import modules
from hub.bin_samples import FORMATS, attacks, contained, forged, saved, zipped
from maskwright.hub.foreign import reader
from maskwright.hub.foreign.child import LONGEST_PICKLE_BYTES, BadFile, describe_and_send


def read(data: bytes) -> dict[str, torch.Tensor]:
    """What the confined process does, and what its parent makes of the answer, in one process."""
    answer = io.BytesIO()
    describe_and_send(memoryview(data), io.BytesIO(data), answer)
    answer.seek(0)
    found = reader._receive(answer, 4 * len(data) + (1 << 20))
    assert answer.read() == b""
    return {name: tensor for names, tensor in found for name in names}


def refuses(data: bytes, said: str | None = None) -> None:
    with pytest.raises(BadFile, match=said):
        read(data)


def bits(tensor) -> torch.Tensor:
    """Its numbers as bytes in C order, whatever its strides."""
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor).view(-1).view(torch.uint8)


def same(found, expected) -> bool:
    """Equal names in equal order, dtypes, shapes and bits (a NaN is one)."""
    return list(found) == list(expected) and all(
        found[name].dtype == tensor.dtype
        and found[name].shape == tensor.shape
        and bits(found[name]).equal(bits(tensor.detach()))
        for name, tensor in expected.items()
    )


# -- tables ------------------------------------------------------------------------------------------------------

DTYPES = list(reader.DTYPES.values())


@st.composite
def tables(draw):
    """A table of tensors of every kind: views with gaps, turned, repeated, empty, of one storage, of one element."""
    table = OrderedDict()
    for index in range(draw(st.integers(1, 5))):
        dtype = draw(st.sampled_from(DTYPES))
        shape = draw(st.lists(st.integers(0, 4), max_size=4))
        numbers = torch.randint(-99, 99, [max(size * 2, 1) for size in shape]).to(dtype)
        for axis, size in enumerate(shape):
            start, step = draw(st.integers(0, 1)), draw(st.integers(1, 2))
            numbers = numbers.narrow(axis, start * size, size)[(slice(None),) * axis + (slice(None, None, step),)]
        if numbers.ndim > 1 and draw(st.booleans()):
            numbers = numbers.transpose(0, -1)
        if draw(st.booleans()):
            numbers = numbers.unsqueeze(0).expand(3, *numbers.shape)
        table[f"a.{index}"] = numbers
        if draw(st.booleans()):
            table[f"b.{index}"] = numbers[:1] if numbers.ndim else numbers
    return table


@settings(max_examples=60)
@given(tables(), st.sampled_from(FORMATS))
def test_any_table_comes_back_bit_for_bit(table, form):
    assert same(read(saved(table, form)), table)


@pytest.mark.parametrize("form", FORMATS)
def test_a_state_dict_with_parameters_and_versions_comes_back(form):
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).half()
    assert same(read(saved(module.state_dict(), form)), module.state_dict())
    parameters = dict(module.named_parameters())
    assert same(read(saved(parameters, form)), {name: value.detach() for name, value in parameters.items()})


def test_a_newer_protocol_comes_back():
    table = {"w": torch.arange(6.0).view(2, 3).T}
    assert same(read(saved(table, pickle_protocol=4)), table)


def test_a_part_of_a_storage_as_old_files_have_it_is_that_part():
    """Before 0.4 a view named its root and where it begins there."""
    found = read(forged(length=99, part=(("v", 1, 2),), shape=(2,)))
    assert found["x"].view(torch.uint8).tolist() == list(range(4, 12))


_EVENTS: list[set[str]] = []  # a hook cannot be removed again, so there is one, which asks whether anyone listens


@cache
def _hook() -> None:
    sys.addaudithook(lambda event, _: _EVENTS[-1].add(event) if _EVENTS else None)


@contextmanager
def watched():
    """Collect what Python does in the block, by the names of its audit events."""
    _hook()
    _EVENTS.append(set())
    try:
        yield _EVENTS[-1]
    finally:
        _EVENTS.pop()


# -- what runs code elsewhere ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [*FORMATS, "alone"])
@pytest.mark.parametrize("attack", list(attacks("")))
def test_a_pickle_that_acts_is_refused_and_nothing_happens(attack, form, tmp_path):
    data = contained(attacks(str(tmp_path / "canary"))[attack], form)
    with watched() as events:
        refuses(data)
    assert not (tmp_path / "canary").exists()
    acts = {"exec", "compile", "import", "open", "os.system", "os.posix_spawn", "subprocess.Popen", "pickle.find_class"}
    assert not acts & events


def test_what_the_test_above_watches_for_is_seen(tmp_path):
    with watched() as events:
        pickle.loads(attacks(str(tmp_path / "canary"))["os.system"])
    assert (tmp_path / "canary").exists() and {"pickle.find_class", "os.system"} <= events


def test_the_requested_name_is_reported():
    refuses(contained(attacks("x")["os.system"], "zip"), "refers to 'posix.system', which no weights file needs")


@pytest.mark.parametrize("module", ["child"])
def test_what_runs_in_the_confined_process_needs_the_standard_library_alone(module):
    for node in ast.walk(modules()[f"hub.foreign.{module}"]):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        assert all(name.split(".")[0] in sys.stdlib_module_names for name in names), names


# -- tables that lie ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claims, said",
    [
        ({"shape": (5,)}, "beyond its storage"),
        ({"offset": 1}, "beyond its storage"),
        ({"shape": (2, 2), "stride": (4, 1)}, "beyond its storage"),
        ({"shape": (1 << 40,), "length": 1 << 40}, "data of 'x'"),
        ({"shape": (1 << 40,), "stride": (0,)}, "claims 4,398,046,511,104 bytes"),
        ({"shape": (1 << 30, 1 << 30, 1 << 30), "stride": (0, 0, 0)}, "claims"),
        ({"offset": -1}, "is invalid"),
        ({"stride": (-1,)}, "is invalid"),
        ({"shape": (-4,)}, "is invalid"),
        ({"shape": (2, 2)}, "is invalid"),
        ({"shape": (2.0,)}, "is invalid"),
        ({"shape": (True,)}, "is invalid"),
        ({"shape": [4]}, "is invalid"),
        ({"shape": (1,) * 99, "stride": (1,) * 99}, "is invalid"),
        ({"shape": (1 << 70,)}, "is invalid"),
        ({"shape": None}, "is invalid"),
        ({"length": -4}, "storage is invalid"),
        ({"length": "4"}, "storage is invalid"),
        ({"key": 0}, "storage is invalid"),
        ({"kind": 5}, "storage is invalid"),
        ({"kind": torch.nn.Linear}, "refers to 'torch.nn.modules.linear.Linear'"),
        ({"kind": torch.ComplexFloatStorage}, "refers to 'torch.ComplexFloatStorage'"),
        ({"kind": torch.UntypedStorage}, "refers to 'torch.storage.UntypedStorage'"),
        ({"part": (5,)}, "storage view is invalid"),
        ({"part": (("v", -1, 4),)}, "storage is invalid"),
        ({"part": (("v", 2, 4),)}, "data of"),
        ({"key": "1"}, "data of 'x'"),
        ({"key": "../data.pkl"}, "data of 'x'"),
        ({"numbers": bytes(15)}, "data of 'x'"),
        ({"kind": torch.BoolStorage}, "values other than true and false"),
    ],
)
def test_a_table_that_lies_is_refused(claims, said):
    refuses(forged(**claims), said)


def test_many_names_of_one_tensor_cannot_make_much_of_little():
    one = torch.zeros(100_000)
    refuses(saved({f"w.{index}": one for index in range(40)}), "claims 16,000,000 bytes")
    assert len(read(saved({f"w.{index}": one for index in range(4)}))) == 4


@pytest.mark.parametrize(
    "table, said",
    [
        ({}, "contains no dict"),
        ([torch.zeros(2)], "contains no dict"),
        (torch.zeros(2), "contains no dict"),
        ({"state_dict": {"w": torch.zeros(2)}}, "its entry 'state_dict' is not a tensor"),
        ({"w": torch.zeros(2), "step": 7}, "its entry 'step' is not a tensor"),
        ({7: torch.zeros(2)}, "a key that is not a string"),
        ({("a", "b"): torch.zeros(2)}, "a key that is not a string"),
        ({"": torch.zeros(2)}, "invalid tensor metadata"),
        ({"a\x1b[31m": torch.zeros(2)}, "invalid tensor metadata"),
        ({"__metadata__": torch.zeros(2)}, "invalid tensor metadata"),
        ({"w": torch.zeros(2, dtype=torch.complex64)}, "ComplexFloatStorage"),
        ({"w": torch.zeros(2, 2).to_sparse()}, "_rebuild_sparse_tensor"),
        ({"w": torch.zeros(2).to(torch.float8_e4m3fn)}, "refers to"),
        ({"w": torch.zeros(2).numpy()}, "refers to"),
        (torch.nn.Linear(2, 2), "refers to 'torch.nn.modules.linear.Linear'"),
    ],
)
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_plain_table_of_weights_is_refused(table, said, form):
    refuses(saved(table, form), said)


# -- containers that lie -----------------------------------------------------------------------------------------

TABLE = {"w": torch.arange(300.0).view(20, 15).T, "b": torch.arange(7)}


def test_a_packed_zip_is_refused_before_anything_is_unpacked():
    bomb = zipped({"data.pkl": b"", "data/0": bytes(50_000_000)}, packed=True)
    assert len(bomb) < 60_000
    refuses(bomb, "compressed entries")


def test_a_description_beyond_any_model_is_refused():
    refuses(zipped({"data.pkl": bytes(LONGEST_PICKLE_BYTES + 1)}), "more than any model")


def test_two_parts_of_one_name_are_refused():
    twice = zipped({"data.pkl": b"1", "data.pkX": b"2"}).replace(b"data.pkX", b"data.pkl")
    refuses(twice, "two entries have the same name")


@pytest.mark.parametrize(
    "parts, said",
    [
        ({"readme": b""}, "not written by torch.save"),
        ({"data.pkl": b"", "code/model.py": b""}, "a program"),
        ({"data.pkl": b"", "byteorder": b"big"}, "byte order"),
    ],
)
def test_other_zips_are_named(parts, said):
    refuses(zipped(parts), said)


def tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    return stream.getvalue()


@pytest.mark.parametrize(
    "data, said",
    [
        (b"<!DOCTYPE html><html>not found</html>", "not written by torch.save"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (pickle.dumps({"w": [1.0, 2.0]}), "not written by torch.save"),
        (struct.pack("<Q", 2) + b"{}", "not written by torch.save"),
        (b"\x00" * 1000, "not written by torch.save"),
        (b"x", "not written by torch.save"),
        (tar(), "tar archive"),
    ],
)
def test_files_of_another_kind_are_named(data, said):
    refuses(data, said)


def test_a_legacy_file_of_another_order_of_bytes_is_refused():
    good = saved(TABLE, "legacy")
    assert good.count(b"little_endianq\x02\x88") == 1
    refuses(good.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89"), "on an unsupported machine")


@pytest.mark.parametrize("form", FORMATS)
def test_every_truncation_is_found(form):
    good = saved(TABLE, form)
    for length in {*range(1, len(good), 37), len(good) - 1, len(good) - 8}:
        refuses(good[:length])


def test_every_flipped_bit_of_the_numbers_in_a_zip_is_found():
    good = saved(TABLE)
    numbers = good.index(TABLE["w"].T.contiguous().numpy().tobytes())
    for place in range(numbers, numbers + 1200, 31):
        bad = bytearray(good)
        bad[place] ^= 4
        refuses(bytes(bad), "the checksum of 'archive/data/0' is wrong")


@pytest.mark.parametrize("form", FORMATS)
def test_random_damage_is_refused_in_words_or_changes_numbers_alone(form):
    """The old format has no sums: there a flipped bit of a number is a number."""
    good, chance = saved(TABLE, form), random.Random(3)
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(chance.choice([1, 1, 3, 20])):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        try:
            found = read(bytes(bad))
        except BadFile as error:
            assert str(error)
        else:
            assert all(tensor.dtype in DTYPES for tensor in found.values())


@settings(max_examples=150)
@given(st.binary(max_size=60), st.sampled_from([*FORMATS, "alone"]))
def test_random_pickles_are_refused_in_words(content, form):
    refuses(contained(b"\x80\x02" + content, form))
