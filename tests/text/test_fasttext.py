"""Training files of fastText."""

from __future__ import annotations

import pytest

from maskwright.core.errors import RowErrors
from maskwright.doctor.fix import relabel
from maskwright.tasks.classification import Classification
from maskwright.text.formats.records import is_fasttext
from maskwright.text.readers.tables import RowStream, find_reader, read_texts

LINES = "__label__sauce __label__cheese How much  cheese ?\n\n__label__bread Rise of dough\n"


@pytest.mark.parametrize("name", ["cooking.train", "train.txt", "a.ft"])
@pytest.mark.compatibility(
    "fastText 0.9",
    theirs="words that begin with __label__ are the labels of a line, wherever they stand",
    ours="such a file is read as labeled texts by its content, whatever its name",
)
def test_labels_of_fasttext_are_read(tmp_path, name):
    path = tmp_path / name
    path.write_text(LINES)
    assert is_fasttext(path) and find_reader(path).name == "texts"
    table = Classification.read(path)
    assert [(row.text, row.label, row.line) for row in table.rows] == [
        ("How much  cheese ?", "sauce|cheese", 1),
        ("Rise of dough", "bread", 3),
    ]
    assert [row.text for row in read_texts(path).rows] == [row.text for row in RowStream(path)]
    path.write_text("__label__a one\n__label__b two\n")
    assert not Classification.read(path).form.multi_label


def test_broken_lines_are_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(LINES * 10 + "no label here\n__label__a\n__label__ empty\n")
    with pytest.raises(RowErrors, match="a.txt:31: .*the label is missing") as caught:
        Classification.read(path)
    assert "a.txt:32: column 'text': the text is empty" in str(caught.value) and "a.txt:33" in str(caught.value)
    other = tmp_path / "b.txt"
    other.write_text("a text with __label__ in it\nand another\n")
    assert not is_fasttext(other) and len(read_texts(other)) == 2


def test_a_label_is_changed_in_place(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(LINES)
    assert relabel(path, {}, {(3, None): "dough|bread"}).decode() == LINES.replace(
        "__label__bread", "__label__dough __label__bread"
    )
    table = tmp_path / "b.csv"
    table.write_text('text;label\n"a; b";x\nc;y\n')
    assert relabel(table, {}, {(2, None): "z"}).decode() == 'text;label\n"a; b";z\nc;y\n'
