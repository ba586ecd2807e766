"""Leaderboard files of GLUE: names, columns, labels, and what is missing for a submission."""

from __future__ import annotations

import math
import zipfile

import pytest

from maskwright.core.errors import InputError
from maskwright.text.readers.glue import GLUE_PARTS, TASKS, read_glue, submission_table, write_submission

ANSWERS = {part: list(TASKS[facts.task].labels) or [2.5, 0] for part, facts in GLUE_PARTS.items()}


def numbered(answers):
    return [str(number) for number in range(len(answers))], answers


@pytest.mark.parametrize(
    "score, written", [(2.6, "2.600"), (5.4, "5.000"), (-0.2, "0.000"), ("1.23456", "1.235"), (0, "0.000")]
)
def test_similarities_are_cut_to_their_range(score, written):
    assert submission_table("STS-B", ["0"], [score]).splitlines()[1] == f"0\t{written}"


@pytest.mark.parametrize("part", GLUE_PARTS)
def test_labels_of_another_task_are_refused(part):
    if TASKS[GLUE_PARTS[part].task].labels:
        with pytest.raises(InputError, match=f"{part}, row 1: Unknown label 'maybe'"):
            submission_table(part, ["0", "1"], [ANSWERS[part][0], "maybe"])


@pytest.mark.parametrize(
    "part, ids, answers, message",
    [
        ("RTE", ["0", "1"], ["entailment"], "2 rows and 1 predictions"),
        ("RTE", ["0", "0"], ["entailment", "entailment"], "duplicate indices"),
        ("STS-B", ["0"], [math.nan], "not a finite number"),
        ("STS-B", ["0"], ["high"], "'high' is not a finite number"),
        ("MNLI", ["0"], ["neutral"], "Did you mean 'MNLI-m"),
    ],
)
def test_what_the_leaderboard_would_refuse_is_refused_here(part, ids, answers, message):
    with pytest.raises(InputError, match=message):
        submission_table(part, ids, answers)


def test_the_archive_holds_the_files_and_nothing_else(tmp_path):
    done = write_submission(tmp_path, {part: numbered(answers) for part, answers in ANSWERS.items()})
    assert done.missing == [] and len(done.files) == 11
    with zipfile.ZipFile(done.archive) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == {
            path.name: path.read_bytes() for path in done.files
        }


def test_the_same_predictions_give_the_same_bytes(tmp_path):
    parts = {part: numbered(answers) for part, answers in ANSWERS.items()}
    one = write_submission(tmp_path / "a", parts).archive.read_bytes()
    other = write_submission(tmp_path / "b", dict(reversed(parts.items()))).archive
    assert other.read_bytes() == one
    with zipfile.ZipFile(other) as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}


def test_what_is_missing_and_what_is_short_is_said(tmp_path):
    whole = numbered(["1"] * GLUE_PARTS["WNLI"].num_rows)
    done = write_submission(tmp_path, {"WNLI": whole, "RTE": numbered(["entailment"])})
    assert done.short == {"RTE": (1, 3000)} and not done.is_complete
    assert set(done.missing) == set(GLUE_PARTS) - {"WNLI", "RTE"}


def test_nothing_is_written_when_one_part_is_bad(tmp_path):
    with pytest.raises(InputError):
        write_submission(tmp_path / "out", {"CoLA": numbered(["1"]), "RTE": numbered(["yes"])})
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="nothing to submit"):
        write_submission(tmp_path, {})


def test_from_a_test_file_to_its_submission(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("index\tquestion\tsentence\n5\ta\tb\n2\tc\td\n")
    part = read_glue(path, "QNLI", with_labels=False)
    done = write_submission(tmp_path / "out", {"QNLI": (part.ids, ["entailment", "not_entailment"])})
    assert done.files[0].read_text() == "index\tprediction\n5\tentailment\n2\tnot_entailment\n"
