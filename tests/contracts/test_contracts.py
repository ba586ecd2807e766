"""Everything that is registered meets the contract of its kind, and an entry that breaks it is found.

Nothing is listed here: a new line in the registry, a new preset or an entry point is tested by being there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.registered import CONTRACTS, broken, entries, kinds
from maskwright.core import registry
from maskwright.models.presets import PRESETS, preset

CASES = [(kind, name, check) for kind, name in entries() for check in CONTRACTS.get(kind, {})]


@pytest.mark.parametrize(("kind", "name", "check"), CASES, ids=["-".join(case) for case in CASES])
def test_what_is_registered_meets_its_contract(kind: str, name: str, check: str, tmp_path: Path):
    CONTRACTS[kind][check](name, tmp_path)


def test_every_kind_has_a_contract():
    assert set(kinds()) == set(CONTRACTS), "a kind of the registry needs a contract"
    for kind, checks in CONTRACTS.items():
        needed = {"documented"} if kind == "reader" else {"documented", "saving", "seed"}
        assert needed <= set(checks), kind


@pytest.mark.parametrize(
    ("kind", "name", "faulty", "checks"),
    [
        ("head", "mlm", "LeakyHead", {"packing"}),
        ("head", "mlm", "IdleHead", {"gradients", "saving"}),
        ("head", "mlm", "NoisyHead", {"packing", "saving", "seed"}),
        ("head", "mlm", "CutHead", {"gradients"}),
        ("head", "mlm", "UndocumentedHead", {"documented"}),
        ("task", "regression", "MeanTask", {"packing"}),
        ("task", "regression", "ShortTask", {"shapes"}),
        ("objective", "mlm", "GlobalDraws", {"seed"}),
        ("objective", "mlm", "WrongSums", {"packing"}),
        ("tokenizer", "word", "train_changing", {"seed"}),
        ("model_folder", "huggingface", "save_rounded", {"saving"}),
    ],
)
def test_an_entry_that_breaks_the_contract_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, faulty: str, checks: set[str]
):
    monkeypatch.setitem(registry.TABLE[kind], name, f"contracts.faulty:{faulty}")
    assert set(broken(kind, name)) == checks


def test_a_new_registration_is_covered_without_being_listed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.TABLE["head"], "brand-new", "contracts.faulty:CutHead")
    monkeypatch.setitem(PRESETS, "bert-brand-new", preset("bert-tiny", num_hidden_layers=3))
    assert ("head", "brand-new") in entries() and ("preset", "bert-brand-new") in entries()
    # No folder knows its weights and no page names it, besides the fault that it has.
    assert set(broken("head", "brand-new")) == {"gradients", "saving", "documented"}
    assert "4,584,192" in str(broken("preset", "bert-brand-new")["documented"])


def test_a_new_kind_without_a_contract_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.TABLE, "rule", {})
    assert set(kinds()) != set(CONTRACTS)
