"""The output of every command with --json is valid JSON for any content."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest

from maskwright.cli.common import print_json

WORST = {
    "combining": "e\u0301 Z\u0351\u036b",
    "right to left": "\u202eשלום مرحبا",
    "joined": "👩\u200d👩\u200d👧\u200d👦",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\r\ng",
    "controls": "\x00\x1b[31m\x7f",
    "nothing": "\ufeff\ufffd\uffff\U0010ffff",
    "quotes": '"\\/\b\t',
    "half of a pair": "a\ud800b",
}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_any_text_comes_back_from_one_line(encoding: str, monkeypatch: pytest.MonkeyPatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, newline="\n"))
    print_json(WORST)
    sys.stdout.flush()
    lines = raw.getvalue().decode(encoding).split("\n")
    assert len(lines) == 2 and json.loads(lines[0]) == WORST


def refuse(name: str) -> None:
    """JSON has no such number."""
    raise AssertionError(name)


def test_what_is_no_number_in_json_is_null(capsys: pytest.CaptureFixture[str]):
    print_json({"confirmed": float("nan"), "table": np.array([1.0, np.inf]), "text": "é NaN"})
    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert found == {"confirmed": None, "table": [1.0, None], "text": "é NaN"}
