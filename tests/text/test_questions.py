"""Questions and multiple choice: the same rows from every layout, and every bad entry named."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, RowErrors
from maskwright.tasks.qa.task import QuestionAnswering
from maskwright.tasks.specs import check_content
from maskwright.text.formats.files import read_array
from maskwright.text.readers.choices import read_choices
from maskwright.text.readers.squad import ReferenceAnswer, find_answer, read_questions, scan_questions
from maskwright.text.readers.tables import find_reader

CONTEXT = "Shanghai is the fashion capital of China, and Beijing is its political capital."


def entry(name, question="Which city?", *answers, **more):
    golds = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": question, "answers": golds, **more}


GOOD = [
    entry("a", "What is the fashion capital of China?", ("Shanghai", 0)),
    entry("b", "Which is the political one?", ("Beijing", 46), ("and Beijing", 42)),
    entry("c", "What is the sports capital?", is_impossible=True, plausible_answers=[{"text": "China"}]),
]


def squad(*paragraphs):
    return {
        "version": "v2.0",
        "data": [
            {"title": "t", "paragraphs": [{"context": context, "qas": entries}]} for context, entries in paragraphs
        ],
    }


def write_json(path, value, indent=None):
    data = json.dumps(value, indent=indent).encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def content(rows):
    return [(row.id, row.question, row.context, row.answers) for row in rows]


def faults_of(path, **options):
    with pytest.raises(RowErrors) as caught:
        read_questions(path, **options)
    return caught.value.rows


# -- layouts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["q.json", "q.json.gz", "q.json.xz", "Q.JSON"])
@pytest.mark.parametrize("indent", [None, 2])
def test_squad_files_are_read_plain_and_packed(tmp_path, name, indent):
    path = write_json(tmp_path / name, squad((CONTEXT, GOOD[:2]), (CONTEXT + " ", GOOD[2:])), indent)
    rows = read_questions(path).rows
    assert content(rows) == [
        ("a", GOOD[0]["question"], CONTEXT, (ReferenceAnswer("Shanghai", 0),)),
        ("b", GOOD[1]["question"], CONTEXT, (ReferenceAnswer("Beijing", 46), ReferenceAnswer("and Beijing", 42))),
        ("c", GOOD[2]["question"], CONTEXT + " ", ()),
    ]
    assert [row.line for row in rows] == [1, 2, 3] and [row.is_impossible for row in rows] == [False, False, True]
    assert rows[0].context is rows[1].context  # one text in memory for a paragraph


def test_lines_and_parquet_hold_the_same_questions(tmp_path):
    expected = content(read_questions(write_json(tmp_path / "q.json", squad((CONTEXT, GOOD)))).rows)
    rows = [{"context": CONTEXT, **item} for item in GOOD]
    assert content(read_questions(write_lines(tmp_path / "q.jsonl", rows)).rows) == expected
    columns = [
        {
            "id": item["id"],
            "question": item["question"],
            "context": CONTEXT,
            "answers": {
                "text": [gold["text"] for gold in item["answers"]],
                "answer_start": [gold["answer_start"] for gold in item["answers"]],
            },
        }
        for item in GOOD
    ]
    pq.write_table(pa.Table.from_pylist(columns), tmp_path / "q.parquet")
    assert content(read_questions(tmp_path / "q.parquet").rows) == expected
    assert content(read_questions(write_lines(tmp_path / "c.jsonl", columns)).rows) == expected


@pytest.mark.parametrize(
    "answers", ["Beijing", ["Beijing"], [{"text": "Beijing"}], [{"text": "Beijing", "answer_start": 46}]]
)
def test_an_answer_without_a_place_is_looked_for(tmp_path, answers):
    path = write_lines(tmp_path / "q.jsonl", [{"question": "Which?", "context": CONTEXT, "answers": answers}])
    (row,) = read_questions(path).rows
    assert row.answers == (ReferenceAnswer("Beijing", 46),) and row.id == "1"


@pytest.mark.parametrize(
    ("answer", "context", "start"),
    [
        ("art", "The party shows art, and an artist.", 16),  # not inside of "party"
        ("Newton", "Newtonian physics is Newton's.", 21),
        ("tist", "An artist.", 5),  # the only place there is
        ("art ", "The part is art and art.", 12),
        ("京", "東京は首都", 1),
    ],
)
def test_whole_words_come_first_where_an_answer_is_looked_for(answer, context, start):
    assert find_answer(answer, context) == (start, None)
    assert context[start:].startswith(answer)


def test_questions_come_while_the_file_is_read(tmp_path):
    text = json.dumps(squad(*[(CONTEXT, [entry(str(n), "Which?", ("Beijing", 46))]) for n in range(3000)]))
    (tmp_path / "q.json").write_text(text[: len(text) // 2], encoding="utf-8")
    rows = scan_questions(tmp_path / "q.json", [])
    assert next(rows).id == "0"
    with pytest.raises(InputError, match=r"line 1, column \d+"):
        list(rows)


def test_real_files_are_read_as_json_reads_them(data_folder):
    for name in ("squad1/dev", "squad2/dev", "squadshifts_wiki/dev"):
        path = data_folder / f"{name}.json.xz"
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            value = json.load(stream)
        expected = [
            (item["id"], item["question"], paragraph["context"], [gold["text"] for gold in item["answers"]])
            for article in value["data"]
            for paragraph in article["paragraphs"]
            for item in paragraph["qas"]
        ]
        rows = read_questions(path).rows
        assert [(r.id, r.question, r.context, [g.text for g in r.answers or ()]) for r in rows] == expected
        assert all(row.context[gold.start : gold.end] == gold.text for row in rows for gold in row.answers or ())


# -- bad entries -------------------------------------------------------------------------------------------


def placed(**places):
    return entry("x", answers=[{"text": "China", **places}])


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "wrong place": (entry("x", "Q?", ("Beijing", 3)), "answers", "not in its context at .* 'Beijing' at character 46"),
    "wrong text": (entry("x", "Q?", ("Bejing", 46)), "answers", "nearest match is 'Beijing' at character 46"),
    "wrong case": (entry("x", "Q?", ("shanghai", 0)), "answers", "nearest match is 'Shanghai' at character 0"),
    "not there": (entry("x", "Q?", ("42", 0)), "answers", "no similar text"),
    "beyond the end": (entry("x", "Q?", ("Beijing", 900)), "answers", "beyond the end .*79 characters.*character 46"),
    "before the start": (entry("x", "Q?", ("China", -5)), "answers", "before .*'China' at character 35"),
    "start beyond end": (placed(answer_start=35, answer_end=30), "answers", "beyond its end at 30"),
    "wrong end": (placed(answer_start=35, answer_end=60), "answers", "5 characters, but spans character 35 to 60"),
    "empty answer": (entry("x", "Q?", (" ", 8)), "answers", "empty"),
    "number": (entry("x", answers=[5]), "answers", "an answer is a number"),
    "text as place": (placed(answer_start="35"), "answers", "answer_start is text"),
    "no list": (entry("x", answers=3), "answers", "not a list"),
    "uneven lists": (entry("x", answers={"text": ["a"], "answer_start": []}), "answers", "equal length"),
    "impossible with answers": (entry("x", "Q?", ("China", 35), is_impossible=True), "answers", "is true, but"),
    "possible without": (entry("x", is_impossible=False), "answers", "is false, but"),
    "impossible as text": (entry("x", is_impossible="no"), "answers", "not true or false"),
    "no answers": ({"id": "x", "question": "Q?"}, "answers", "missing"),
    "empty question": (entry("x", " ", ("China", 35)), "question", "empty"),
    "no question": ({"id": "x", "answers": []}, "question", "missing"),
    "odd question": (entry("x", "half \ud800", ("China", 35)), "question", "surrogate"),
    "used id": (entry("a", "Q?", ("China", 35)), "id", "duplicate of line 1"),
}


@pytest.mark.parametrize("layout", ["json", "jsonl"])
@pytest.mark.parametrize("kind", list(BAD))
def test_a_bad_entry_is_named_with_file_id_and_reason(tmp_path, layout, kind):
    bad, column, reason = BAD[kind]
    entries = [*GOOD, bad, entry("z", "Q?", ("China", 35))]
    path = tmp_path / f"q.{layout}"
    if layout == "json":
        write_json(path, squad((CONTEXT, entries)))
    else:
        write_lines(path, [{"context": CONTEXT, **item} for item in entries])
    (fault,) = faults_of(path)
    assert (fault.file, fault.line, fault.column) == (str(path), 4, column)
    assert re.search(reason, fault.reason) and f"id {bad['id']}" in fault.reason
    read = read_questions(path, skip_bad_rows=True)
    assert [row.id for row in read.rows] == ["a", "b", "c", "z"] and read.num_skipped == 1


def test_all_bad_entries_are_reported_at_once(tmp_path):
    path = write_json(
        tmp_path / "q.json",
        {
            "data": [
                "no article",
                {"title": "no paragraphs"},
                {
                    "paragraphs": [
                        {"context": "", "qas": [entry("e", "Q?", ("x", 0)), entry("f", "Q?")]},
                        {"context": CONTEXT},
                    ]
                },
                {"paragraphs": [{"context": CONTEXT, "qas": ["no question", entry("ok", "Q?", ("China", 35))]}]},
            ]
        },
    )
    shown = [(fault.line, fault.column, fault.reason) for fault in faults_of(path)]
    assert shown == [
        (1, None, "data[0] is text, not an object"),
        (2, None, "data[1] has no paragraphs"),
        (3, "context", "id e: the context is empty"),
        (4, "context", "id f: the context is empty"),
        (5, None, "data[2].paragraphs[1] has no qas"),
        (6, None, "data[3].paragraphs[0].qas[0] is text, not an object"),
    ]
    read = read_questions(path, skip_bad_rows=True)
    assert [row.id for row in read.rows] == ["ok"] and read.num_skipped == 6


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unexpected end of file"),
        ("[1, 2]", "no valid one"),
        ('{"version": 1}', "has no 'data'"),
        ('{"data": 5}', "'data' is not a list"),
        ('{"data": []', "unexpected end of file"),
        ('{"data": [}', "column 11: expecting value"),
        ('{"data": [1 2]}', "column 13: expected a comma or ']'"),
        ('{"data": [] "x": 1}', "a comma or '}'"),
        ('{"data" []}', "a colon"),
        ("{data: []}", "double quotes"),
        ('{"data": []} x', "after the end"),
        ('{"data": [], "data": []}', "duplicate key"),
        ('{"data": [{"a": 1, "a": 2}]}', "duplicate key 'a'"),
        ('{"data":\n [\n  {"a": tru}]}', "line 3, column 9"),
        ('{"data": [' + "[" * 100_000, "nested too deeply"),
        ('{"data": []}', "contains no question"),
    ],
)
def test_a_file_of_another_layout_is_refused_in_words(tmp_path, text, reason):
    (tmp_path / "q.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=reason.replace("[", r"\[")) as caught:
        read_questions(tmp_path / "q.json", skip_bad_rows=True)
    assert "q.json" in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(
    values=st.lists(json_values, max_size=6),
    others=st.dictionaries(st.text(max_size=4).filter(lambda key: key != "data"), json_values, max_size=3),
    indent=st.sampled_from([None, 1]),
    ascii=st.booleans(),
)
def test_entries_of_any_array_come_as_json_reads_them(tmp_path_factory, values, others, indent, ascii):
    path = tmp_path_factory.mktemp("json") / "any.json"
    text = json.dumps({**others, "data": values, "\u00e9": 12}, indent=indent, ensure_ascii=ascii)
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    assert list(read_array(path, "data")) == values


def test_entries_longer_than_a_chunk_are_whole(tmp_path):
    values = [["x" * 200_000, 1234567], 98765, {"a": "é" * 150_000}]
    (tmp_path / "long.json").write_text(json.dumps({"data": values}, ensure_ascii=False), encoding="utf-8")
    assert list(read_array(tmp_path / "long.json", "data")) == values


# -- Questions of tables and flat JSON lines, with the answer as text, as a list, or as pandas -----------------------

MOVED = "Mara Lindt, who is a pilot, moved to Lisbon."
ANSWER = {"text": ["Lisbon"], "answer_start": [37]}


def write(folder, name, rows):
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
    path = write(tmp_path, name, [{"id": "q1", "question": "Where to?", "context": MOVED, **answer}])
    assert find_reader(path).name == "questions"
    row = QuestionAnswering.read(path).rows[0]
    assert (row.id, row.question, row.context) == ("q1", "Where to?", MOVED)
    assert [(one.text, one.start) for one in row.answers] == [("Lisbon", 37)]


def test_records_may_be_in_the_data_of_an_object(tmp_path):
    rows = [{"id": "q1", "question": "Where to?", "context": MOVED, "answers": ANSWER}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": "1", "data": rows}, indent=1))
    assert find_reader(path).name == "questions"
    assert read_questions(path).rows[0].answers[0].start == 37
    path.write_text(json.dumps({"data": [{"q": "Where to?", "context": MOVED, "answer": "Lisbon"}]}))
    assert read_questions(path, columns={"question": "q"}).rows[0].question == "Where to?"
    path.write_text(json.dumps({name: [value] for name, value in rows[0].items()}))
    with pytest.raises(InputError, match='object of columns.*orient="records"'):
        check_content(path, "qa")


def test_columns_are_mapped(tmp_path):
    path = write(tmp_path, "a.csv", [{"q": "Where to?", "passage": MOVED, "gold": "Lisbon", "at": "37"}])
    columns = {"question": "q", "context": "passage", "answer": "gold", "answer_start": "at"}
    assert find_reader(path, columns).name == "questions"
    assert read_questions(path, columns=columns).rows[0].answers[0].start == 37
    with pytest.raises(InputError, match="no column 'question'.*'q', 'passage'.*--columns question=NAME"):
        read_questions(path)
    with pytest.raises(InputError, match="Unknown column role 'label'"):
        read_questions(path, columns={"label": "gold"})


def test_labeled_pairs_are_no_questions(tmp_path):
    path = write(tmp_path, "a.csv", [{"question": "Who?", "context": MOVED, "answer": "x", "label": "1"}] * 3)
    assert find_reader(path).name == "texts"
    check_content(path, "classification")
    path = write(tmp_path, "b.csv", [{"question": "Who?", "context": MOVED, "answer": "Mara"}])
    with pytest.raises(InputError, match="contains questions.*finetune qa"):
        check_content(path, "classification")


# -- Multiple choice from SWAG's csv and from JSON lines -------------------------------------------------------------

SWAG_HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
SWAG_ROW = (
    '0,anetv_1,3416,"A girl, left, stands. She","A girl, left, stands.",She,gold,'
    'walks.,"runs, ""fast"".",sits.,eats.,2\n'
)


def put(folder, name, content):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def jsonl(folder, *rows, name="a.jsonl"):
    return put(folder, name, "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


def plain(**changes):
    return {"context": "c", "question": "q", "choices": ["a", "b"], "label": 0} | changes


def test_swag_is_read_as_its_csv_lies(tmp_path):
    table = read_choices(put(tmp_path, "train.csv", SWAG_HEADER + SWAG_ROW))
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
    path = put(tmp_path, "test.csv", header + row)
    assert read_choices(path, with_labels=False).rows[0].label is None
    with pytest.raises(InputError, match="no column 'label'"):
        read_choices(path)


def test_the_csv_of_cosmosqa_is_read(tmp_path):
    text = "id,context,question,answer0,answer1,answer2,answer3,label\nk1,Rain.,Why?,a,b,c,d,3\n"
    (row,) = read_choices(put(tmp_path, "valid.csv", text)).rows
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
        read_choices(put(tmp_path, "a.csv", SWAG_HEADER + SWAG_ROW + SWAG_ROW + short))


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
        read_choices(put(tmp_path, name, content), skip_bad_rows=True)
