"""Published tables: every number is typed, sourced and labeled, and what the sources compute comes out again."""

from __future__ import annotations

import math

import pytest

from maskwright.core.errors import ConfigError, InputError
from maskwright.tasks.evaluation import metrics
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


def test_metrics_have_our_names_where_we_have_them():
    used = {column.metric for table in published("glue") for column in table.columns[:-1]}
    assert all(callable(getattr(metrics, name)) for name in used)
    assert {column.metric for column in published("conll2003")[0].columns} == {"entity_f1"}


# -- GLUE ----------------------------------------------------------------------------------------------------------


def test_both_versions_of_glue_are_kept_apart():
    first, second = published("glue")
    assert (first.label, second.label) == ("first version", "second version")
    assert [row.name for row in first.rows] == [row.name for row in second.rows]
    differing = {
        name
        for one, two in zip(first.rows, second.rows, strict=True)
        for name in one.values
        if one.values[name] != two.values[name]
    }
    assert differing == {"QNLI", "Average"}
    assert [row.values["QNLI"] for row in first.rows] == [82.3, 79.9, 88.1, 90.1, 91.1]
    assert [row.values["QNLI"] for row in second.rows] == [82.3, 79.8, 87.4, 90.5, 92.7]


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


def test_two_values_of_the_layer_table_are_marked_as_doubtful_and_no_others():
    (table,) = published("conll2003-layers")
    doubtful = {row.name: row.values["Dev F1"] for row in table.rows if row.scores["Dev F1"].doubt}
    assert doubtful == {"embeddings": 91.0, "last": 94.9}
    assert not any(score.doubt for one in ALL if one != table for row in one.rows for score in row.scores.values())
    order = sorted(table.rows, key=lambda row: row.values["Dev F1"])
    names = ["embeddings", "last", "sum-all", "second-to-last", "sum-last-4", "concat-last-4"]
    assert [row.name for row in order] == names


def test_rounding_the_squad_board_gives_the_paper():
    paper, board = published("squad1")
    for ours, theirs in [
        ("Human", "Human"),
        ("BERT (ensemble)", "BERT-Large (ensemble+TriviaQA)"),
        ("BERT (single)", "BERT-Large (single+TriviaQA)"),
        ("nlnet (ensemble)", "nlnet (ensemble)"),
        ("nlnet (single)", "nlnet (single)"),
        ("QANet (ensemble)", "QANet (ensemble)"),
    ]:
        exact, rounded = board.row(ours).values, paper.row(theirs).values
        assert exact["EM"] == pytest.approx(rounded["Test EM"], abs=0.0501)
        assert exact["F1"] == pytest.approx(rounded["Test F1"], abs=0.0501)


def test_names_that_are_not_known_are_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'glue'"):
        published("gleu")
    with pytest.raises(ConfigError, match="Did you mean 'BERT-Large'"):
        published("glue")[0].row("BERT-large")
    with pytest.raises(ConfigError, match="Did you mean 'second version'"):
        published_table("glue", "second")
    with pytest.raises(ConfigError, match="Unknown column"):
        published("glue")[0].column("WNLI")
