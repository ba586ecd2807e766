"""Leaderboard files of GLUE, and published tables."""

import math
import zipfile

import pytest

from maskwright.core.errors import ConfigError, InputError
from maskwright.tasks.evaluation.published import (
    benchmarks,
    glue_average,
    published,
    published_table,
    relative_error_reduction,
)
from maskwright.text.readers.glue import GLUE_PARTS, TASKS, submission_table, write_submission

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


# -- Published tables ------------------------------------------------------------------------------------------------

ALL = [table for name in benchmarks() for table in published(name)]
OUR_UNITS = {"per cent", "points", "BLEU", "FLOPs"}


def test_every_benchmark_of_the_lectures_is_there():
    expected = {"conll2003", "conll2003-layers", "elmo", "glue", "parsing", "squad1", "squad2", "swag", "translation"}
    assert set(benchmarks()) == expected


@pytest.mark.parametrize("table", ALL, ids=lambda table: f"{table.benchmark} {table.label}")
def test_tables_are_whole(table):
    assert table.source and table.lectures and table.title and table.rows
    assert {column.unit for column in table.columns} <= OUR_UNITS
    assert {column.split for column in table.columns} <= {"train", "dev", "test"}
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    assert len({row.name for row in table.rows}) == len(table.rows)
    for row in table.rows:
        assert row.scores, row.name
        for name, score in row.scores.items():
            assert isinstance(score.value, (int, float)) and math.isfinite(score.value)
            if table.column(name).unit == "per cent":
                assert 0 < score.value <= 100
    for name in names:
        assert any(name in row.scores for row in table.rows), f"nothing in {name}"


# -- GLUE ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", published("glue"), ids=lambda table: table.label)
def test_the_averages_of_glue_are_means_of_nine_numbers(table):
    """Rounded to the table's one decimal. One row was averaged before its numbers were rounded, and notes it."""
    for row in table.rows:
        mean, printed = glue_average(row.values), row.values["Average"]
        if row.note is None:
            assert round(mean, 1) == printed, row.name
        else:
            assert f"{mean:.2f}" in row.note and abs(mean - printed) < 0.1


def test_an_average_of_fewer_than_nine_is_refused():
    scores = published("glue")[0].rows[0].values
    del scores["RTE"], scores["QQP"]
    with pytest.raises(InputError, match="missing: QQP, RTE"):
        glue_average(scores)


# -- ELMo ----------------------------------------------------------------------------------------------------------


def test_every_row_of_elmo_is_whole_and_its_gains_come_out():
    """Printed from unrounded scores, so a gain may differ by one unit of its last digit."""
    rows = published("elmo")[0].rows
    assert len(rows) == 6 and all(len(row.values) == 5 for row in rows)
    for row in rows:
        baseline, better = row.values["Baseline"], row.values["ELMo + baseline"]
        assert better - baseline == pytest.approx(row.values["Increase"], abs=0.011), row.name
        assert 100 * relative_error_reduction(baseline, better) == pytest.approx(row.values["Relative"], abs=0.06)


def test_relative_error_reduction_has_its_fixed_points():
    assert relative_error_reduction(80, 80) == 0
    assert relative_error_reduction(80, 100) == 1
    assert relative_error_reduction(0.8, 0.7, perfect=1.0) == pytest.approx(-0.5)
    with pytest.raises(InputError, match="no error"):
        relative_error_reduction(100, 100)


def test_names_that_are_not_known_are_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'glue'"):
        published("gleu")
    with pytest.raises(ConfigError, match="Did you mean 'BERT-Large'"):
        published("glue")[0].row("BERT-large")
    with pytest.raises(ConfigError, match="Did you mean 'second version'"):
        published_table("glue", "second")
    with pytest.raises(ConfigError, match="Unknown column"):
        published("glue")[0].column("WNLI")
