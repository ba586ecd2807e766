"""Multiple choice from SWAG's csv and from JSON lines: the same rows, every bad one named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from maskwright.core.errors import InputError, RowErrors
from maskwright.text.readers.choices import read_choices

SWAG_HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
SWAG_ROW = (
    '0,anetv_1,3416,"A girl, left, stands. She","A girl, left, stands.",She,gold,'
    'walks.,"runs, ""fast"".",sits.,eats.,2\n'
)


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def jsonl(folder: Path, *rows: Any, name: str = "a.jsonl") -> Path:
    return write(folder, name, "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


def plain(**changes: Any) -> dict[str, Any]:
    return {"context": "c", "question": "q", "choices": ["a", "b"], "label": 0} | changes


def test_swag_is_read_as_its_csv_lies(tmp_path):
    table = read_choices(write(tmp_path, "train.csv", SWAG_HEADER + SWAG_ROW))
    (row,) = table.rows
    assert {len(row.choices) for row in table.rows} == {4} and not table.skipped
    assert (row.context, row.question, row.label, row.key, row.line) == (
        "A girl, left, stands.",
        "She",
        2,
        "anetv_1",
        2,
    )
    assert row.choices == ("walks.", 'runs, "fast".', "sits.", "eats.")


def test_a_test_file_of_swag_has_no_labels(tmp_path):
    header, row = SWAG_HEADER.replace(",label", ""), SWAG_ROW.rsplit(",", 1)[0] + "\n"
    path = write(tmp_path, "test.csv", header + row)
    assert read_choices(path, with_labels=False).rows[0].label is None
    with pytest.raises(InputError, match="no column 'label'"):
        read_choices(path)


def test_the_csv_of_cosmosqa_is_read(tmp_path):
    text = "id,context,question,answer0,answer1,answer2,answer3,label\nk1,Rain.,Why?,a,b,c,d,3\n"
    (row,) = read_choices(write(tmp_path, "valid.csv", text)).rows
    assert (row.key, row.context, row.question, row.choices, row.label) == ("k1", "Rain.", "Why?", tuple("abcd"), 3)


def test_question_or_context_may_be_missing_and_not_both(tmp_path):
    rows = [{"context": "c", "choices": ["a", "b"], "label": 0}, {"question": "q", "choices": ["a", "b"], "label": 0}]
    assert [(row.context, row.question) for row in read_choices(jsonl(tmp_path, *rows)).rows] == [("c", ""), ("", "q")]
    with pytest.raises(RowErrors, match="neither context nor question"):
        read_choices(jsonl(tmp_path, plain(context=" ", question=None)))


@pytest.mark.parametrize(
    "change, column, reason",
    [
        ({"label": 2}, "label", "2 is out of range for 2 choices"),
        ({"label": -1}, "label", "'-1' is not the index of a choice"),
        ({"label": "B"}, "label", "'B' is not the index"),
        ({"label": True}, "label", "is true or false"),
        ({"label": 1.0}, "label", "is a number, not the index of a choice"),
        ({"label": None}, "label", "is missing"),
        ({"label": "9" * 5000}, "label", "is out of range for 2"),
        ({"choices": ["a"]}, "choices", "has 1 choices"),
        ({"choices": []}, "choices", "has 0 choices"),
        ({"choices": "ab"}, "choices", "is text, not a list"),
        ({"choices": None}, "choices", "is missing"),
        ({"choices": ["a", " "]}, "choices", "choice 1: the text is empty"),
        ({"choices": ["a", 5]}, "choices", "choice 1: is a number"),
        ({"context": ["c"]}, "context", "is a list, not text"),
        ({"question": "\ud800"}, "question", "surrogate"),
    ],
)
def test_every_bad_row_is_named(tmp_path, change, column, reason):
    path = jsonl(tmp_path, plain(), plain(**change), plain())
    with pytest.raises(RowErrors) as caught:
        read_choices(path)
    first = caught.value.rows[0]
    assert (first.line, first.column) == (2, column) and reason in first.reason
    table = read_choices(path, skip_bad_rows=True)
    assert [row.line for row in table.rows] == [1, 3] and table.skipped


def test_unequal_numbers_of_choices_are_reported_by_line(tmp_path):
    path = jsonl(tmp_path, plain(choices=["a", "b", "c"]), plain(), plain(), plain(choices=list("abcd")))
    with pytest.raises(RowErrors) as caught:
        read_choices(path)
    assert [(fault.line, fault.column) for fault in caught.value.rows] == [(1, "choices"), (4, "choices")]
    assert "there are 3 choices, and 2 is what most rows have" in str(caught.value)
    assert [row.line for row in read_choices(path, skip_bad_rows=True).rows] == [2, 3]


def test_a_csv_row_with_fewer_endings_is_reported(tmp_path):
    short = '1,v,1,"s",A girl.,She,gold,walks.,runs.,,,1\n'
    with pytest.raises(RowErrors, match=r"a.csv:4: column 'choices': there are 2 choices, and 4"):
        read_choices(write(tmp_path, "a.csv", SWAG_HEADER + SWAG_ROW + SWAG_ROW + short))


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", "text,label\na,b\n", "does not have the SWAG columns"),
        ("a.csv", "", "is empty"),
        ("a.jsonl", "\n", "contains no rows"),
        ("a.jsonl", "{}\n", "no valid one"),
        ("a.tsv", "x", "multiple-choice examples are read from"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read_choices(write(tmp_path, name, content), skip_bad_rows=True)


@pytest.mark.parametrize("name, has_context", [("codah", True), ("cosmosqa", True), ("arc_easy", False)])
def test_the_real_sets_are_read_without_a_bad_row(data_folder, name, has_context):
    for part in ("train", "dev"):
        table = read_choices(data_folder / name / f"{part}.jsonl")
        assert {len(row.choices) for row in table.rows} == {4} and len(table) >= 250 and not table.skipped
        assert all(bool(row.context) == has_context and row.key for row in table.rows)
        assert {row.label for row in table.rows} == {0, 1, 2, 3}
        assert all(first and second for row in table.rows for first, second in row.pairs())
