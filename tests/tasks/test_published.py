"""Published tables: every number is typed, sourced and labeled, and what the sources compute comes out again."""

from __future__ import annotations

import math

import pytest

from maskwright.core.errors import ConfigError, InputError
from maskwright.tasks.evaluation.published import (
    PublishedTable,
    benchmarks,
    glue_average,
    published,
    published_table,
    relative_error_reduction,
)

ALL = [table for name in benchmarks() for table in published(name)]
OUR_UNITS = {"per cent", "points", "BLEU", "FLOPs"}


def test_every_benchmark_of_the_lectures_is_there():
    expected = {"conll2003", "conll2003-layers", "elmo", "glue", "parsing", "squad1", "squad2", "swag", "translation"}
    assert set(benchmarks()) == expected


@pytest.mark.parametrize("table", ALL, ids=lambda table: f"{table.benchmark} {table.label}")
def test_tables_are_whole(table: PublishedTable):
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
def test_the_averages_of_glue_are_means_of_nine_numbers(table: PublishedTable):
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


# -- the others ----------------------------------------------------------------------------------------------------


def test_names_that_are_not_known_are_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'glue'"):
        published("gleu")
    with pytest.raises(ConfigError, match="Did you mean 'BERT-Large'"):
        published("glue")[0].row("BERT-large")
    with pytest.raises(ConfigError, match="Did you mean 'second version'"):
        published_table("glue", "second")
    with pytest.raises(ConfigError, match="Unknown column"):
        published("glue")[0].column("WNLI")
