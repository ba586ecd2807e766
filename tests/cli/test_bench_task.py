"""`experiment benchmark` on the command line: a plan, a table with published results, JSON, and rejected input."""

from __future__ import annotations

import json

import pytest

from inference.samples import tiny
from maskwright.cli.common import print_table
from train import benchmark_data as files

FAST = ("--epochs", "1", "--max-length", "24", "--batch-size", "8", "--precision", "fp32")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("bench")
    files.glue(root / "glue")
    tiny(None).save(root / "model")
    return root


def test_a_dry_run_says_what_would_be_trained_and_writes_nothing(maskwright, folder):
    words = (
        "experiment",
        "benchmark",
        "glue",
        "--data",
        folder / "glue",
        "--model",
        folder / "model",
        "-o",
        folder / "dry",
    )
    code, out, _ = maskwright(*words, *FAST, "--seeds", "5", "--dry-run", "--json")
    plan = json.loads(out)
    assert code == 0 and plan["runs"] == 40 and plan["steps"] == 8 * 5 * 2 and plan["missing"] == {}
    assert [part["rows"]["train"] for part in plan["parts"]] == [12] * 8
    code, out, _ = maskwright(*words, "--tasks", "cola", "--grid", "--dry-run")
    assert code == 0 and "18 settings" in out and "Nothing was run." in out
    assert not (folder / "dry").exists()


def test_our_numbers_stand_apart_from_the_published_ones(maskwright, folder):
    words = (
        "experiment",
        "benchmark",
        "glue",
        "--data",
        folder / "glue",
        "--model",
        folder / "model",
        "-o",
        folder / "run",
        *FAST,
    )
    code, out, err = maskwright(*words, "--tasks", "rte,CoLA", "--seeds", "2")
    ours, published = out.split("Published, not measured here", 1)
    assert code == 0 and "matthews" in ours and "±" in ours and "OpenAI GPT" not in ours
    assert "not available" in ours + published and "second version" in published
    assert "run 4 of 4: RTE, batch 8, lr 3e-05, 1 epoch, seed 1; about" in err
    assert str(folder / "run" / "report.html") in out
    code, out, err = maskwright(*words, "--tasks", "rte,CoLA", "--seeds", "2", "--json")
    found = json.loads(out)
    assert code == 0 and "run 1 of" not in err
    assert [part["name"] for part in found["parts"]] == ["CoLA", "RTE"] and found["average"] is None
    code, out, _ = maskwright(*words, "--tasks", "rte,CoLA", "--seeds", "2")
    assert code == 0 and "This run is finished" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("glue",), "Missing: --data (folder of the files of the benchmark), --model ("),
        (("glue", "--data", "DATA", "--model", "absent/model", "-o", "OUT"), "absent/model"),
        (("glue", "--data", "DATA", "--model", "MODEL", "-o", "OUT", "--tasks", " , "), "--tasks is empty"),
        (("conll", "--data", "DATA", "--model", "MODEL", "-o", "OUT"), "does not contain any part of the benchmark"),
        (
            ("glue", "--data", "DATA", "--model", "MODEL", "-o", "OUT", "--max-length", "999"),
            "the model has 48 positions",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_and_leaves_nothing(maskwright, folder, words, message):
    places = {"DATA": folder / "glue", "MODEL": folder / "model", "OUT": folder / "refused"}
    code, out, err = maskwright("experiment", "benchmark", *(places.get(word, word) for word in words))
    assert code == 2 and out == "" and message in err
    assert not (folder / "refused").exists()


@pytest.mark.parametrize("width", ["80", "40"])
def test_a_wide_table_keeps_names_and_numbers_in_a_narrow_terminal(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", width)
    names = ["system", *(f"number-{index}" for index in range(9))]
    print_table(names, [["BiLSTM+ELMo+Attn", *(f"{index}7.25" for index in range(9))]], right=names[1:])
    shown = capsys.readouterr().out
    assert "BiLSTM+ELMo+Attn" in shown and all(f"{index}7.25" in shown for index in range(9))
