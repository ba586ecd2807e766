"""Every family and head answers as when networks.json was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinned.networks import answers, write

NETWORKS = json.loads(Path(__file__).with_name("networks.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_answers_as_before(name: str, tmp_path: Path):
    case = NETWORKS[name]
    write(tmp_path / "m", case["config"], case["tensors"])
    found = answers(tmp_path / "m")
    for output, (shape, numbers) in case["answers"].items():
        assert found[output][0] == shape, output
        scale = max(1.0, *map(abs, numbers))
        assert found[output][1] == pytest.approx(numbers, abs=2e-4 * scale), output
