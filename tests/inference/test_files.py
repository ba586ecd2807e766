"""Files of answers and vectors: complete or absent, readable by everyone, safe to open in a spreadsheet."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.samples import TEXTS, tiny
from maskwright.core.errors import InputError
from maskwright.inference.embed import TextEncoder
from maskwright.inference.output_files import safe_cell, write_answers, write_npy, write_token_vectors
from maskwright.inference.prepared import as_texts

ANSWERS = [
    {"text": "plain", "label": "a", "score": -0.5, "probabilities": {"a": 0.5}},
    {"text": '=HYPERLINK("x"),\n"quoted"', "label": "+b", "score": 0.25, "probabilities": {"a": 0.5}},
    {"text": "tab\there", "label": "@c", "score": 1.0, "probabilities": {"a": 0.5}},
]


def test_json_lines_hold_everything_as_it_is(tmp_path):
    assert write_answers(tmp_path / "a.jsonl", iter(ANSWERS)) == 3
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == ANSWERS


def test_csv_reads_back_with_formulas_made_harmless(tmp_path):
    write_answers(tmp_path / "a.csv", ANSWERS)
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.reader(handle))
    assert rows[0] == ["text", "label", "score"] and rows[1] == ["plain", "a", "-0.5"]
    assert rows[2] == ["'" + ANSWERS[1]["text"], "'+b", "0.25"]
    write_answers(tmp_path / "a.tsv", ANSWERS)
    lines = (tmp_path / "a.tsv").read_text(encoding="utf-8").split("\n")
    assert [line.count("\t") for line in lines] == [2, 2, 2, 2, 0] and lines[3].startswith("tab here\t'@c")
    write_answers(tmp_path / "b.csv", [{"text": "x", "labels": ["a", "b"]}, {"text": "y", "labels": []}])
    assert (tmp_path / "b.csv").read_text().split("\n")[1:3] == ["x,a|b", "y,"]


@given(st.text(max_size=20))
def test_no_cell_can_start_a_formula(text):
    assert safe_cell(text)[:1] not in set("=+-@\t\r")
    assert safe_cell(text).removeprefix("'") == text.removeprefix("'")


def test_nothing_is_left_when_an_answer_fails(tmp_path):
    def failing():
        yield ANSWERS[0]
        raise InputError("bad row")

    with pytest.raises(InputError):
        write_answers(tmp_path / "a.jsonl", failing())
    with pytest.raises(InputError, match="extension"):
        write_answers(tmp_path / "a.xlsx", ANSWERS)
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(1, 4))
def test_a_matrix_written_in_blocks_is_the_matrix(tmp_path_factory, counts, size):
    path = tmp_path_factory.mktemp("npy") / "v.npy"
    blocks = [np.full((count, size), number, dtype=np.float32) for number, count in enumerate(counts)]
    assert write_npy(path, iter(blocks), size) == sum(counts)
    found = np.load(path, allow_pickle=False)
    assert found.dtype == np.float32
    assert np.array_equal(found, np.concatenate([np.zeros((0, size), dtype=np.float32), *blocks]))


def test_every_row_of_a_token_matrix_is_named(tmp_path):
    encoder = TextEncoder(tiny(), pooling="none")
    found = list(encoder.token_vectors(TEXTS))
    count = write_token_vectors(tmp_path / "v.npy", tmp_path / "v.tokens.jsonl", iter(found), encoder.size)
    lines = [json.loads(line) for line in (tmp_path / "v.tokens.jsonl").read_text(encoding="utf-8").splitlines()]
    assert np.load(tmp_path / "v.npy").shape == (count, 32)
    assert len(lines) == count == sum(len(entry.tokens) for entry in found)
    assert all(TEXTS[line["text"]][line["start"] : line["end"]] == line["word"] for line in lines)


# -- what people hold texts in -------------------------------------------------------------------------------------


def test_lists_arrays_columns_and_frames_are_texts():
    import pandas

    texts = ["a", "b"]
    pairs = [("a", "c"), ("b", "d")]
    frame = pandas.DataFrame({"x": texts, "y": ["c", "d"]})
    for given_texts in (texts, tuple(texts), iter(texts), np.array(texts), np.array(texts, dtype=object)[:, None]):
        assert as_texts(given_texts) == texts
    assert as_texts(frame["x"]) == as_texts(frame[["x"]]) == texts
    for given_pairs in (pairs, [list(pair) for pair in pairs], frame.set_axis(["text", "text_pair"], axis=1)):
        assert as_texts(given_pairs) == pairs
    assert as_texts(np.array(pairs), (0, 1)) == as_texts(frame, ("x", "y")) == pairs
    assert all(type(text) is str for text in as_texts(np.array(texts)))


@pytest.mark.parametrize(
    "wrong",
    ["one text", b"bytes", 3, None, {"a": 1}, ["a", None], ["a", 2], [("a", "b", "c")], [("a", None)], [("a", 1)],
     np.zeros((2, 3)), ["a", float("nan")]],
)  # fmt: skip
def test_what_is_no_text_is_refused_in_words(wrong):
    with pytest.raises(InputError):
        as_texts(wrong)
