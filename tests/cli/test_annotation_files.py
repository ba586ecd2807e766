"""Files of annotation tools on the command line."""

from __future__ import annotations

import json

import pytest

from cli.test_use import lines_of

SPANS = {"Ann met Eva.": [[0, 3, "PER"], [0, 7, "PER"], [8, 11, "PER"]], "To Graz!": [[3, 7, "LOC"]]}


@pytest.fixture
def names(tmp_path):
    """Labeled spans in the layout of Doccano; two overlap."""
    rows = [{"id": id, "text": text, "label": spans} for id, (text, spans) in enumerate(SPANS.items())]
    path = tmp_path / "names.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_doctor_names_the_format_and_what_is_left_out(maskwright, names):
    code, out, _ = maskwright("doctor", names, "--json")
    found = lines_of(out)[0]
    assert (code, found["task"], found["files"][0]["format"]) == (0, "tagging", "Doccano JSON lines")
    assert "overlapping spans, the longest kept (1)" in found["files"][0]["read"]
    code, out, _ = maskwright("doctor", names)
    assert code == 0 and "Doccano JSON lines" in out and "overlapping spans" in out
    _, out, _ = maskwright("doctor", names, "--overlap", "error", "--json")
    assert lines_of(out)[0]["files"][0]["bad_rows"] == 1


def test_the_wrong_task_is_refused_before_anything_is_written(maskwright, names):
    run = names.parent / "run"
    code, _, err = maskwright("finetune", "classification", "--train", names, "-o", run)
    assert code == 2 and "finetune tagging" in err and not run.exists()
    code, _, err = maskwright("finetune", "tagging", "--train", names, "-o", run, "--overlap", "error")
    assert code == 2 and "overlaps PER" in err and f"{names}:1" in err
