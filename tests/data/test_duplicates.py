"""Texts seen before are recognized, whatever the order, the batches and how many sorted files there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maskwright.data.prepare import DIGEST_BYTES, SeenDigests, digest


def key(number: int) -> bytes:
    """Digests that share their first half in groups of four."""
    return (number // 4).to_bytes(8, "little") + (number % 4).to_bytes(8, "little")


@given(
    numbers=st.lists(st.integers(0, 40), max_size=80),
    batch=st.integers(1, 9),
    run_size=st.integers(1, 12),
    known=st.lists(st.integers(0, 40), max_size=30, unique=True),
)
def test_only_the_first_of_equal_digests_is_new(tmp_path_factory, numbers, batch, run_size, known):
    seen = SeenDigests(tmp_path_factory.mktemp("seen"), run_size)
    seen.restore(b"".join(map(key, known)))
    fresh: list[bool] = []
    for start in range(0, len(numbers), batch):
        fresh += seen.add([key(number) for number in numbers[start : start + batch]])
    before = set(known)
    for number, is_new in zip(numbers, fresh, strict=True):
        assert is_new == (number not in before)
        before.add(number)
    assert len(seen.recent) < run_size + batch


def test_the_digest_tells_sentences_apart_from_one_long_one():
    assert digest(("a", "b")) != digest(("a b",))
    value, size = digest(("é", "b"))
    assert len(value) == DIGEST_BYTES and size == 4
