"""Everything that is registered meets the contract of its kind, and is documented.

Nothing is listed here: a new line in the registry, a new preset or an entry point is tested by being there.
"""

import re

import pytest

from contracts.registered import CONTRACTS, entries, kinds
from conventions.sources import REPOSITORY
from maskwright.core import registry
from maskwright.models.presets import PRESETS, preset
from maskwright.models.sizes import parameter_count

CASES = [(kind, name, check) for kind, name in entries() for check in CONTRACTS.get(kind, {})]
UNNAMED = {"preset", "schedule", "metric", "command", "export_format", "model_loader"}  # on pages


QUICK = {"bert", "gpt2", "deberta-v2", "bart"}  # families that the fast suite saves; the slow one saves all


def case_of(kind, name, check):
    is_slow = kind == "family" and check == "saving" and name not in QUICK
    return pytest.param(kind, name, check, id=f"{kind}-{name}-{check}", marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize(("kind", "name", "check"), [case_of(*case) for case in CASES])
def test_what_is_registered_meets_its_contract(kind, name, check, tmp_path):
    CONTRACTS[kind][check](name, tmp_path)


def test_every_kind_has_a_contract():
    assert set(kinds()) == set(CONTRACTS), "a kind of the registry needs a contract"


def test_everything_has_a_docstring_and_is_shown_as_code_on_a_page():
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    code = re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL)
    shown = {word for part in code for word in re.split(r"[\s`,;|=\"'()\[\]]+", part)}
    own = [(kind, name) for kind, name in entries() if kind != "preset"]
    assert not [entry for entry in own if not (registry.resolve(*entry).__doc__ or "").strip()]
    assert not [(kind, name) for kind, name in own if kind not in UNNAMED and name not in shown]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    counts = {name: f"{parameter_count(preset(name)):,}" for name in PRESETS}
    assert not [name for name, count in counts.items() if not any(f"`{name}`" in row and count in row for row in rows)]
