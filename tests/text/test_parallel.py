"""Line-aligned files: which lines belong together, and which do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from maskwright.core.errors import InputError, RowErrors
from maskwright.text.readers.parallel import read_parallel


def files(folder: Path, source: str, target: str) -> tuple[Path, Path]:
    """Both as files."""
    for name, text in (("a.de", source), ("a.en", target)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "a.de", folder / "a.en"


def test_line_n_belongs_to_line_n(tmp_path: Path):
    table = read_parallel(*files(tmp_path, "eins\nzwei \n", "one\ntwo\n"))
    assert [(row.text, row.label, row.line) for row in table.rows] == [("eins", "one", 1), ("zwei", "two", 2)]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("1\n2\n3\n", "1\n2\n", ("a.en ends after line 2", "line 3")),
        ("1\n", "1\n2\n", ("a.de ends after line 1",)),
        ("", "1\n", ("a.de is empty",)),
    ],
)
@pytest.mark.parametrize("skips", [False, True])
def test_unequal_counts_name_the_line_and_are_never_skipped(
    tmp_path: Path, source: str, target: str, words: tuple[str, ...], skips: bool
):
    with pytest.raises(InputError) as error:
        read_parallel(*files(tmp_path, source, target), skip_bad_rows=skips)
    assert all(word in str(error.value) for word in words)


def test_empty_sides_are_all_listed_or_counted(tmp_path: Path):
    both = files(tmp_path, "eins\n\ndrei\nvier\n\nsechs\n\n", "one\ntwo\n \nfour\n\nsix\n\n")
    with pytest.raises(RowErrors) as error:
        read_parallel(*both)
    assert [(Path(row.file).name, row.line) for row in error.value.rows] == [
        ("a.de", 2),
        ("a.en", 3),
        ("a.de", 5),
        ("a.en", 5),
    ]
    table = read_parallel(*both, skip_bad_rows=True)
    assert ([row.line for row in table.rows], table.num_skipped) == ([1, 4, 6], 3)


def test_one_file_on_both_sides_pairs_each_line_with_itself_and_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, _ = files(tmp_path, "ein Hund\nzwei Hunde\n", "\n")
    rows = read_parallel(source, source).rows
    assert [(row.text, row.label) for row in rows] == [("ein Hund", "ein Hund"), ("zwei Hunde", "zwei Hunde")]
    assert "is both source and target" in capsys.readouterr().err
