"""Workers without Ray."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from maskwright.scale import parts
from maskwright.scale.parts import Workers


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compute in this process, without Ray. Returns the names of the parts that are computed."""
    computed: list[str] = []

    def compute(workers: Workers, items: list[dict[str, Any]]) -> dict[str, Any]:
        worker = workers.kind(**workers.arguments("cpu", 1))
        computed.extend(item["name"] for item in items)
        batch = {"item": np.array([json.dumps(item) for item in items], dtype=object)}
        return {one["name"]: one for one in map(json.loads, worker(batch)["facts"])}

    monkeypatch.setattr(Workers, "compute", compute)
    return computed
