"""Questions of tables and flat JSON lines, with the answer as text, as a list, or as pandas prints it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maskwright.core.errors import InputError
from maskwright.tasks.qa.task import QuestionAnswering
from maskwright.tasks.specs import check_content
from maskwright.text.readers.squad import read_questions
from maskwright.text.readers.tables import find_reader

CONTEXT = "Mara Lindt, who is a pilot, moved to Lisbon."
ANSWER = {"text": ["Lisbon"], "answer_start": [37]}


def write(folder: Path, name: str, rows: list[dict]) -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        written = io.StringIO()
        writer = csv.DictWriter(written, list(rows[0]), delimiter="\t" if name.endswith(".tsv") else ",")
        writer.writeheader()
        writer.writerows(rows)
        path.write_text(written.getvalue())
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize(
    "answer",
    [
        {"answer": "Lisbon", "answer_start": 37},
        {"answer": "Lisbon"},
        {"answer_text": "Lisbon", "answer_start": 37},
        {"text": "Lisbon", "answer_start": 37},
        {"answers": "['Lisbon']"},
        {"answers": '{"text": ["Lisbon"], "answer_start": [37]}'},
        {"answers": "{'text': ['Lisbon'], 'answer_start': [37]}"},
        {"answers": "{'text': array(['Lisbon'], dtype=object), 'answer_start': array([37], dtype=int32)}"},
        {"answers.text": "['Lisbon']", "answers.answer_start": "[37]"},
        {"Answer": "Lisbon", "answer_start": "37.0"},
    ],
)
@pytest.mark.compatibility(
    "pandas 3.1.1",
    theirs="to_csv of SQuAD's answers prints a Python dict of numpy arrays, which is no JSON",
    ours="answers are read from such a cell, from JSON, or from a plain text with or without its place",
)
def test_an_answer_may_be_written_in_several_ways(tmp_path, name, answer):
    path = write(tmp_path, name, [{"id": "q1", "question": "Where to?", "context": CONTEXT, **answer}])
    assert find_reader(path).name == "questions"
    row = QuestionAnswering.read(path).rows[0]
    assert (row.id, row.question, row.context) == ("q1", "Where to?", CONTEXT)
    assert [(one.text, one.start) for one in row.answers] == [("Lisbon", 37)]


def test_records_may_be_in_the_data_of_an_object(tmp_path):
    rows = [{"id": "q1", "question": "Where to?", "context": CONTEXT, "answers": ANSWER}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": "1", "data": rows}, indent=1))
    assert find_reader(path).name == "questions"
    assert read_questions(path).rows[0].answers[0].start == 37
    path.write_text(json.dumps({"data": [{"q": "Where to?", "context": CONTEXT, "answer": "Lisbon"}]}))
    assert read_questions(path, columns={"question": "q"}).rows[0].question == "Where to?"
    path.write_text(json.dumps({name: [value] for name, value in rows[0].items()}))
    with pytest.raises(InputError, match='object of columns.*orient="records"'):
        check_content(path, "qa")


def test_columns_are_mapped(tmp_path):
    path = write(tmp_path, "a.csv", [{"q": "Where to?", "passage": CONTEXT, "gold": "Lisbon", "at": "37"}])
    columns = {"question": "q", "context": "passage", "answer": "gold", "answer_start": "at"}
    assert find_reader(path, columns).name == "questions"
    assert read_questions(path, columns=columns).rows[0].answers[0].start == 37
    with pytest.raises(InputError, match="no column 'question'.*'q', 'passage'.*--columns question=NAME"):
        read_questions(path)
    with pytest.raises(InputError, match="Unknown column role 'label'"):
        read_questions(path, columns={"label": "gold"})


def test_labeled_pairs_are_no_questions(tmp_path):
    path = write(tmp_path, "a.csv", [{"question": "Who?", "context": CONTEXT, "answer": "x", "label": "1"}] * 3)
    assert find_reader(path).name == "texts"
    check_content(path, "classification")
    path = write(tmp_path, "b.csv", [{"question": "Who?", "context": CONTEXT, "answer": "Mara"}])
    with pytest.raises(InputError, match="contains questions.*finetune qa"):
        check_content(path, "classification")
