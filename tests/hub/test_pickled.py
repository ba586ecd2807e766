"""What torch.save wrote, without the process around the reader: every table comes back, and nothing else is read."""

from __future__ import annotations

import io
import pickle
import random
import struct
import tarfile
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.bin_samples import FORMATS, attacks, contained, forged, saved, zipped
from maskwright.core.isolation import BadFile
from maskwright.hub.pickled import DTYPES, read_and_send, received


def read(data: bytes) -> dict[str, torch.Tensor]:
    """What the confined process does, and what its parent makes of the answer, in one process."""
    answer = io.BytesIO()
    read_and_send(memoryview(data), io.BytesIO(data), answer)
    return {name: tensor for names, tensor in received(answer.getvalue()) for name in names}


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


@st.composite
def tables(draw):
    """A table of tensors of every kind: views with gaps, turned, repeated, empty, of one storage, of one element."""
    table = OrderedDict()
    for index in range(draw(st.integers(1, 5))):
        dtype = draw(st.sampled_from(sorted(DTYPES, key=str)))
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


@pytest.mark.compatibility(
    "torch 2.13.0",
    theirs="torch.load(weights_only=True) rejects what torch.save(pickle_protocol=4) wrote",
    ours="The error states it, and to save it again with pickle_protocol=2",
)
def test_a_newer_protocol_is_named():
    refuses(saved({"w": torch.arange(6.0)}, pickle_protocol=4), "pickle_protocol=2")


@pytest.mark.parametrize("form", [*FORMATS, "alone"])
@pytest.mark.parametrize("attack", list(attacks("")))
def test_a_pickle_that_acts_is_refused_and_nothing_happens(attack, form, tmp_path):
    data = contained(attacks(str(tmp_path / "canary"))[attack], form)
    refuses(data)
    assert not (tmp_path / "canary").exists()


def test_what_the_test_above_looks_for_is_real(tmp_path):
    pickle.loads(attacks(str(tmp_path / "canary"))["os.system"])
    assert (tmp_path / "canary").exists()


def test_the_requested_name_is_reported():
    refuses(contained(attacks("x")["os.system"], "zip"), "refers to 'posix.system', which no weights file needs")


@pytest.mark.parametrize(
    "claims, said",
    [
        ({"shape": (5,)}, "damaged"),
        ({"offset": 1}, "damaged"),
        ({"shape": (1 << 40,), "stride": (0,)}, "claims 4,398,046,511,104 bytes"),
        ({"offset": -1}, "damaged"),
        ({"shape": (-4,)}, "damaged"),
        ({"length": "4"}, "damaged"),
        ({"kind": torch.nn.Linear}, "torch.nn.modules.linear.Linear"),
        ({"key": "1"}, "damaged"),
        ({"numbers": bytes(15)}, "damaged"),
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
        ({"w": torch.zeros(2, dtype=torch.complex64)}, "complex64"),
        ({"w": torch.zeros(2, 2).to_sparse()}, "sparse"),
        ({"w": torch.zeros(2).to(torch.float8_e4m3fn)}, "float8|dtype"),
        ({"w": torch.zeros(2).numpy()}, "refers to"),
        (torch.nn.Linear(2, 2), "refers to 'torch.nn.modules.linear.Linear'"),
    ],
)
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_plain_table_of_weights_is_refused(table, said, form):
    refuses(saved(table, form), said)


TABLE = {"w": torch.arange(300.0).view(20, 15).T, "b": torch.arange(7)}


def test_a_packed_zip_is_refused_before_anything_is_unpacked():
    bomb = zipped({"data.pkl": b"", "data/0": bytes(50_000_000)}, packed=True)
    assert len(bomb) < 60_000
    refuses(bomb, "compressed entries")


def test_two_parts_of_one_name_are_refused():
    twice = zipped({"data.pkl": b"1", "data.pkX": b"2"}).replace(b"data.pkX", b"data.pkl")
    refuses(twice, "two entries have the same name")


@pytest.mark.parametrize(
    "parts, said",
    [({"readme": b""}, "not written by torch.save"), ({"data.pkl": b"", "code/model.py": b""}, "a program")],
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


def test_random_damage_is_refused_in_words():
    good, chance = saved(TABLE), random.Random(3)
    for _ in range(200):
        bad = bytearray(good)
        for _ in range(chance.choice([1, 1, 3, 20])):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        try:
            assert read(bytes(bad)).keys() == TABLE.keys()
        except BadFile as error:
            assert str(error)
