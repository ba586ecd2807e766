"""`maskwright inspect probe`: a table, only JSON on standard output, a page, and error messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference.samples import TEXTS, tiny
from maskwright.inspect import probe, read_labeled


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, tagged sentences and labeled texts."""
    where = tmp_path_factory.mktemp("probe")
    tiny().save(where / "model")
    words = [text.split() for text in TEXTS if text] * 3
    tagged = "\n\n".join("\n".join(f"{word} x {'LONG' if len(word) > 3 else 'SHORT'}" for word in row) for row in words)
    (where / "train.conll").write_text(tagged + "\n", encoding="utf-8")
    rows = [f"{text}\t{'pets' if 'cat' in text else 'other'}" for text in TEXTS if text]
    (where / "texts.tsv").write_text("\n".join(["text\tlabel", *rows * 3]) + "\n", encoding="utf-8")
    return where


def test_the_numbers_are_those_of_python(folder: Path, maskwright):
    columns = {"token": "0", "tag": "2"}
    given = ["--train", folder / "train.conll", "--columns", "token=0,tag=2", "--quiet"]
    code, out, _ = maskwright("probe", folder / "model", *given, "--json", "--seed", 3)
    expected = probe(tiny(), read_labeled(folder / "train.conll", columns=columns), seed=3).to_json()
    found = json.loads(out)
    assert code == 0 and found.keys() == expected.keys() and found["labels"] == ["LONG", "SHORT"]
    for own, other in zip(found["layers"], expected["layers"], strict=True):
        assert own == pytest.approx(other, abs=0.02)
    code, out, _ = maskwright("probe", folder / "model", *given)
    assert code == 0 and "selectivity" in out and "majority label" in out


def test_texts_are_probed_and_drawn(folder: Path, maskwright, tmp_path: Path):
    given = ["--train", folder / "texts.tsv", "--dev", folder / "texts.tsv", "--pooling", "cls", "--most", 20]
    code, out, _ = maskwright("probe", folder / "model", *given, "-o", tmp_path / "p.html", "--quiet")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert code == 0 and "page:" in out
    assert "Selectivity: accuracy minus control" in page and "layer-wise probing of model" in page
    assert page.count('data-chart="lines"') >= 2 and "20" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--train", "nothing.tsv"], "nothing.tsv"),
        (["--train", "{folder}/texts.tsv", "--pooling", "median"], "pooling"),
        (["--train", "{folder}/texts.tsv", "-o", "p.png"], ".html"),
        (["--train", "{folder}/texts.tsv", "--dev", "{folder}/train.conll"], "use one kind for both"),
        (["--train", "{folder}/texts.tsv", "--most", 1], "--most"),
    ],
)
def test_what_cannot_be_probed_is_refused(folder: Path, refused, words: list[object], said: str):
    refused(said, "probe", folder / "model", *(str(word).format(folder=folder) for word in words))
