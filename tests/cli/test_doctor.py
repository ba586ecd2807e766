"""`doctor`, `doctor data` and `doctor model` end to end."""

import json
import subprocess
import sys

import numpy as np
import pytest

from cli.test_use import lines_of
from doctor.test_clinic import clean, table
from inference.samples import tiny
from maskwright.tasks.classification import Classification


@pytest.fixture
def files(tmp_path):
    rows, dev = clean(40), clean(10, seed=9)
    table(tmp_path / "train.tsv", [*rows, rows[0], dev[3], (rows[1][0], "a")])
    table(tmp_path / "dev.tsv", dev)
    return tmp_path


def test_findings_are_reported_worst_first_and_are_not_errors(as_json, maskwright, files):
    words = ("doctor", files / "train.tsv", "--dev", files / "dev.tsv")
    found = as_json(*words)
    assert [one["name"] for one in found["findings"]] == ["label-conflicts", "leaks", "duplicates"]
    assert found["files"][0]["rows"] == 43 and found["findings"][1]["places"][0]["line"] == 43
    code, out, _ = maskwright(*words, "--fix", files / "fixed.tsv", "-o", files / "page.html")
    assert code == 0 and "train.tsv:42  same as line 2" in out and "38 rows; left out" not in out
    assert "fixed.tsv with 39 rows; left out: 1 duplicate, 1 leak, 2 in conflict, 0 bad" in out
    assert "leaks" in (files / "page.html").read_text().lower()
    code, out, _ = maskwright("doctor", files / "fixed.tsv", "--dev", files / "dev.tsv")
    assert code == 0 and "Nothing was found" in out


def test_what_cannot_be_read_is_an_error_and_nothing_is_written(maskwright, files):
    page = files / "page.html"
    assert maskwright("doctor", files / "none.tsv", "-o", page)[0] == 2
    (files / "blank.tsv").write_text("text\tlabel\n\ta\n")
    assert maskwright("doctor", files / "blank.tsv", "-o", page)[0] == 2
    assert maskwright("doctor", files / "train.tsv", "-o", files / "page.txt")[0] == 2
    assert maskwright("doctor", files / "train.tsv", "--fix", files / "train.tsv")[0] == 2
    assert maskwright("doctor", files / "train.tsv", "--fix", files / "fixed.csv")[0] == 2
    assert maskwright("doctor", files / "train.tsv", "--model", "x")[0] == 2
    assert maskwright("doctor", files / "train.tsv", "--mislabeled")[0] == 2 and not page.exists()


def test_doubtful_labels_of_a_file(maskwright, tmp_path):
    tiny().save(tmp_path / "model")
    draw = np.random.Generator(np.random.PCG64(0))
    kinds = {"a": ["cat", "cats", "mat", "sat"], "b": ["rain", "milk", "gallon", "store"]}
    rows = [(" ".join(draw.choice(kinds["ab"[n % 2]], 6)), "ab"[n % 2]) for n in range(160)]
    flipped = (10, 31, 62, 93)
    for place in flipped:
        rows[place] = (rows[place][0], "b" if rows[place][1] == "a" else "a")
    lines = {place + 2 for place in flipped}
    words = ("doctor", table(tmp_path / "t.tsv", rows), "--mislabeled", "--model", tmp_path / "model")
    code, out, _ = maskwright(*words, "-o", tmp_path / "rows.tsv", "--json")
    assert code == 0 and len(lines & {row["line"] for row in lines_of(out)[0]["worst"][:4]}) >= 3  # chance: 0.1
    head, first, *_ = (tmp_path / "rows.tsv").read_text().splitlines()
    assert head.split("\t")[:4] == ["line", "label", "likely", "margin"] and int(first.split("\t")[0]) in lines


def test_the_machine_says_what_auto_picks_and_what_is_missing(as_json, maskwright):
    facts = as_json("doctor")
    assert facts["picked"]["device"] in ("cpu", "cuda", "mps") and facts["versions"]["torch"]
    products = ("packed", "plain", "int8", "none")
    assert all(one["products"] in products and one["why"] for one in facts["engine"].values())
    assert all(one["products"] in ("native", "products") and one["why"] for one in facts["layers"].values())
    kinds = {"attention", "attention, norms and dropout in C++", "layers", "batches", "small requests"}
    assert set(facts["training"]) == kinds
    assert all(one["picked"] and one["why"] for one in facts["training"].values())
    assert facts["processor"]["usable_cores"] >= 1 and all(isinstance(part, list) for part in facts["extras"].values())
    code, out, _ = maskwright("doctor")
    assert code == 0 and "--precision auto" in out


def test_a_pretrained_model_has_no_problem(maskwright):
    code, out, _ = maskwright("doctor", "english", "--json")
    assert code == 0 and lines_of(out)[0]["head"] == "mlm" and lines_of(out)[0]["problems"] == []


def test_a_model_folder_is_described_with_its_problems(as_json, maskwright, tmp_path):
    task = Classification(["no", "yes"])
    tiny("classification", labels=task.labels).save(tmp_path / "m", facts=task.to_json())
    facts = as_json("doctor", tmp_path / "m")
    assert facts["problems"] == [] and facts["labels"] == ["no", "yes"] and facts["task"] == "classification"
    assert facts["tokenizer"]["agreement"] == "matches the embedding matrix"
    code, out, _ = maskwright("doctor", tmp_path / "m")
    assert code == 0 and "No problem was found." in out
    path = tmp_path / "m" / "config.json"
    path.write_text(path.read_text().replace("32", "48"))
    code, out, _ = maskwright("doctor", tmp_path / "m", "--json")
    assert code == 0 and "config.json" in json.dumps(lines_of(out)[0]["problems"])
    assert maskwright("doctor", tmp_path / "nothing")[0] == 2


def test_a_folder_of_annotations_is_data(maskwright, tmp_path):
    for number in range(12):
        (tmp_path / f"{number}.txt").write_text("Ann lives in Rome .", encoding="utf-8")
        (tmp_path / f"{number}.ann").write_text("T1\tPERSON 0 3\tAnn\n", encoding="utf-8")
    code, out, _ = maskwright("doctor", tmp_path, "--json")
    assert code == 0 and "PERSON" in out


def test_data_are_checked_without_torch(tmp_path):
    """Which takes longer to import than most files to read."""
    (tmp_path / "rows.tsv").write_text("text\tlabel\na\tx\nb\ty\n", encoding="utf-8")
    words = ["maskwright", "doctor", str(tmp_path / "rows.tsv"), "--json"]
    code = f"import sys; sys.argv = {words}; from maskwright.cli import main; main(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


SPANS = {"Ann met Eva.": [[0, 3, "PER"], [0, 7, "PER"], [8, 11, "PER"]], "To Graz!": [[3, 7, "LOC"]]}


@pytest.fixture
def names(tmp_path):
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


def test_the_wrong_task_is_refused_before_anything_is_written(refused, names):
    words = ("--train", names, "-o", names.parent / "run")
    refused("finetune tagging", "finetune", "classification", *words)
    refused("overlaps PER", "finetune", "tagging", *words, "--overlap", "error")
    assert not (names.parent / "run").exists()
