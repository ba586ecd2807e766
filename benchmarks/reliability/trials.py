"""Random trials of promises: damage, mutated files, Unicode, tables with known faults. Each returns what it counted."""

from __future__ import annotations

import json
import random
import resource
import shutil
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from hub.folder_tools import foreign, make
from maskwright.core.errors import MaskwrightError
from maskwright.hub.folders import load_model
from maskwright.text.formats import files
from text import test_tables_faults as tables
from text.tokenizer_samples import KINDS, trained

SHOWN_FAILURES = 5


@dataclass
class Counted:
    """What came of some trials: how many ended how, the slowest, and what must not have happened."""

    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def try_one(self, name: str, trial: Callable[[], str]) -> None:
        """Count what `trial` returns; any exception but a MaskwrightError is a failure."""
        began = time.monotonic()
        try:
            outcome = trial()
        except MaskwrightError as error:
            outcome = "refused"
            if "\n" in str(error) or not str(error):
                self.failures.append(f"{name}: not one sentence: {str(error)[:200]!r}")
        except Exception as error:
            outcome = "crashed"
            self.failures.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
        self.outcomes[outcome] += 1
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)

    def to_json(self, figure: str) -> dict[str, Any]:
        """For the page. figure: a sentence in which {trials}, {slowest} and outcomes by name are filled in."""
        values: dict[str, Any] = Counter(self.outcomes)
        values = {
            name: f"{values[name]:,}" for name in ("refused", "loaded", "harmless", "encoded", "found", "crashed")
        }
        trials = f"{self.outcomes.total():,}"
        text = figure.format(trials=trials, slowest=f"{self.slowest_seconds:.2f}", **values)
        return {"figure": text, "failures": self.failures[:SHOWN_FAILURES], "num_failures": len(self.failures)}


@contextmanager
def model_folder(is_foreign: bool) -> Iterator[Path]:
    """A small classifier's folder: ours with its manifest, or as others write it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        make("classification", labels=["a", "b"]).save(path)
        if is_foreign:
            foreign(path)
        yield path


def damage(trials: int, rng: random.Random) -> dict[str, Any]:
    """R4: bits flipped, files cut off, extended, emptied, swapped or removed in a folder with a manifest."""
    counted = Counted()
    with model_folder(False) as folder:
        whole = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        weights = load_model(folder)[0].state_dict()
        names = sorted(whole, key=lambda path: path.name)
        for number in range(trials):
            path = rng.choice(names if number % 2 else [folder / "model.safetensors"])
            kind = rng.choice(["flip", "cut", "extend", "empty", "swap", "remove"])
            if kind == "remove" and path.name == "manifest.json":
                kind = "flip"
            changed = {path: _damaged(whole[path], kind, rng)}
            if kind == "swap":
                other = rng.choice([one for one in names if one != path])
                changed = {path: whole[other], other: whole[path]}
            for one, data in changed.items():
                one.unlink() if data is None else one.write_bytes(data)

            def load(path: Path = path, kind: str = kind) -> str:
                found = load_model(folder)[0].state_dict()
                is_equal = all(torch.equal(found[name], value) for name, value in weights.items())
                if is_equal and path.name == "manifest.json":
                    return "harmless"  # the manifest still says the same
                counted.failures.append(f"{path.name}, {kind}: loaded, weights {'equal' if is_equal else 'CHANGED'}")
                return "loaded"

            counted.try_one(f"{path.name}, {kind}", load)
            for one in changed:
                one.write_bytes(whole[one])
    return counted.to_json(
        "{trials} damaged folders: {refused} rejected, {harmless} with a manifest that still said the same, "
        "{loaded} loaded, {crashed} crashes"
    )


def _damaged(data: bytes, kind: str, rng: random.Random) -> bytes | None:
    place = rng.randrange(len(data))
    if kind == "flip":
        return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]
    if kind == "cut":
        return data[:place]
    if kind == "extend":
        return data + rng.randbytes(rng.randint(1, 100))
    return b"" if kind == "empty" else None


ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1e308, float("nan"), "", "x", [], [1], {}, {"0": 3}, "gelu", "\ud800",
)  # fmt: skip


def configs(trials: int, rng: random.Random) -> dict[str, Any]:
    """S3: configurations of a foreign folder with keys changed, removed or nested."""
    counted = Counted()
    with model_folder(True) as folder:
        path = folder / "config.json"
        good = json.loads(path.read_text(encoding="utf-8"))
        for number in range(trials):
            changed = dict(good)
            for name in rng.sample(sorted(good), rng.randint(1, 3)):
                value = rng.choice(ODD_VALUES)
                if isinstance(good[name], int) and rng.random() < 0.5:
                    value = good[name] * rng.choice([-1, 2, 3, 10**3, 10**6, 10**9])
                changed[name] = value
                if rng.random() < 0.2:
                    del changed[name]
            path.write_text(json.dumps(changed), encoding="utf-8")
            counted.try_one(f"config {number}", lambda: load_model(folder) and "loaded")
    return _bounded(counted, "configurations")


def headers(trials: int, rng: random.Random) -> dict[str, Any]:
    """S3: headers of a weights file with shapes, offsets, types or single bytes changed."""
    counted = Counted()
    with model_folder(True) as folder:
        path = folder / "model.safetensors"
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        good = json.loads(data[8 : 8 + length])
        for number in range(trials):
            header = bytearray(json.dumps(_changed_header(good, rng) if number % 2 else good).encode())
            if number % 2 == 0:
                for _ in range(rng.randint(1, 4)):
                    header[rng.randrange(len(header))] = rng.randrange(256)
            claimed = rng.choice([len(header)] * 8 + [0, length + 8, 2**63 - 1, len(data)])
            path.write_bytes(struct.pack("<Q", claimed) + bytes(header) + data[8 + length :])
            counted.try_one(f"header {number}", lambda: load_model(folder) and "loaded")
    return _bounded(counted, "weights headers")


def _changed_header(good: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    changed = json.loads(json.dumps(good))
    name = rng.choice([name for name in changed if name != "__metadata__"])
    entry = changed[name]
    entry[rng.choice(["shape", "data_offsets", "dtype"])] = rng.choice(
        [entry["shape"][::-1], [2**40, 2**40], [-1], [0, 2**62], "F32", "F64", "X", [], None, [[]], [0, 4], [8, 4]]
    )
    return changed


def _bounded(counted: Counted, what: str) -> dict[str, Any]:
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return counted.to_json(
        f"{{trials}} changed {what}: {{refused}} rejected, {{loaded}} loaded, {{crashed}} crashes; the slowest took "
        f"{{slowest}} s, the process at most {resident:,.0f} MB"
    )


POOLS = (
    "abc XYZ .,'\"-\t\n",
    "éüñßøİıǅ",
    "\u0301\u0308\u20dd\u1ab0",  # combining
    "中文漢字かなカナ한국",
    "🙂👩\u200d🏳\ufe0f𝔘𐍈",
    "\u202e\u2066\u200f\u200b\ufeff",  # bidirectional and invisible
    "\x00\x01\x1b\x7f\x85",
    "אבגعربي",
    "\ud800\udfff",  # half characters
    "\u2028\u2029\u00a0\u3000",
    "[CLS][MASK]##</w>▁Ġ",
)


def unicode(trials: int, rng: random.Random) -> dict[str, Any]:
    """D2: encode random texts with every kind of tokenizer: valid offsets, or an error."""
    counted = Counted()
    for number in range(trials):
        pools = rng.sample(POOLS, rng.randint(1, 4))
        text = "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(0, 40)))
        if rng.random() < 0.2:
            text += "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randint(1, 10)))
        kind = KINDS[number % len(KINDS)]

        def encode(text: str = text, kind: str = kind) -> str:
            encoding = trained(kind)(text)
            for (start, end), which in zip(encoding.offsets, encoding.sequence_ids, strict=True):
                if which is not None and not 0 <= start <= end <= len(text):
                    raise AssertionError(f"offsets {start}:{end} of {len(text)}")
            return "encoded"

        counted.try_one(f"{kind}, {text!a}", encode)
    return counted.to_json(
        "{trials} random texts: {encoded} encoded, {refused} rejected with an error, {crashed} crashes"
    )


def rows(trials: int, rng: random.Random) -> dict[str, Any]:
    """D1: tables with known faults: each is reported at its line and column, and no good row is."""
    counted = Counted()
    folder = Path(tempfile.mkdtemp())
    limit, files.MAX_LINE_BYTES = files.MAX_LINE_BYTES, tables.LONG // 2
    forms = (
        ("a.csv", b"text,label\n", tables.good_csv, tables.bad_csv),
        ("a.tsv", b"text\tlabel\n", tables.good_tsv, tables.bad_tsv),
        ("a.jsonl", b"", tables.good_jsonl, tables.bad_jsonl),
    )
    try:
        for name, header, good, bad in forms:
            first = [tables.Piece(b'{"text": "first", "label": "x"}')] if name == "a.jsonl" else []
            strategy = st.tuples(tables.mixture(good, bad), st.booleans(), st.booleans())

            def check(
                drawn: Any, path: Path = folder / name, header: bytes = header, first: Any = tuple(first)
            ) -> None:
                _check_table(counted, path, header, first, drawn)

            try:
                _draw(strategy, check, -(-trials // len(forms)), rng)
            except AssertionError as error:
                counted.outcomes["crashed"] += 1
                counted.failures.append(f"{name}: {str(error)[:300]}")
    finally:
        files.MAX_LINE_BYTES = limit
        shutil.rmtree(folder)
    return counted.to_json(
        "{trials} files with known faults: in {found} every fault at its line and column and no good row, "
        "in {crashed} not"
    )


def _draw(strategy: st.SearchStrategy[Any], check: Callable[[Any], None], count: int, rng: random.Random) -> None:
    """Call `check` with `count` values of a strategy."""

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @seed(rng.randrange(2**32))
    @given(strategy)
    def run(drawn: Any) -> None:
        check(drawn)

    run()


def _check_table(counted: Counted, path: Path, header: bytes, first: tuple[tables.Piece, ...], drawn: Any) -> None:
    pieces, crlf, bom = drawn
    tables.check(path.parent, path.name, header, [*first, *pieces], crlf, bom)
    counted.outcomes["found"] += 1


# What run.py counts, and how many trials its full count has.
TRIALS: dict[str, tuple[Callable[[int, random.Random], dict[str, Any]], int]] = {
    "damage": (damage, 10_000),
    "configs": (configs, 5_000),
    "headers": (headers, 5_000),
    "unicode": (unicode, 1_000_000),
    "rows": (rows, 10_000),
}
