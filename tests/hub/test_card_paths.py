"""A saved folder, which may be published, says nothing of where its files were."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.folder_tools import make
from maskwright.hub.card import without_folders


@pytest.mark.parametrize(
    ("value", "published"),
    [
        ("/srv/jo/secret-project/train.tsv", "train.tsv"),
        ("C:\\Users\\jo\\train.tsv", "train.tsv"),
        ("\\\\server\\share\\train.tsv", "train.tsv"),
        ("~/data/train.tsv", "train.tsv"),
        ("spam:/srv/jo/train.tsv", "spam:train.tsv"),
        (["/srv/jo/a.txt", "b/c.txt"], ["a.txt", "b/c.txt"]),
        ({"train": Path("/srv/jo/a.txt")}, {"train": "a.txt"}),
        ("data/train.tsv", "data/train.tsv"),
        ("hub:owner/name", "hub:owner/name"),
        ("text=body,label=y", "text=body,label=y"),
        ("/", "/"),
        (0.5, 0.5),
        (None, None),
    ],
)
def test_of_an_absolute_path_only_the_name_is_published(value: object, published: object):
    assert without_folders(value) == published


def test_no_file_of_a_saved_model_names_a_folder_of_this_machine(tmp_path: Path):
    data = tmp_path / "secret-project" / "train.tsv"
    training = {"train": str(data), "corpus": [str(data)], "multi_task": [f"spam:{data}"], "output": str(tmp_path)}
    make("classification").save(tmp_path / "m", facts={"task": "classification", "training": training})
    for path in (tmp_path / "m").iterdir():
        assert b"secret-project" not in path.read_bytes(), path.name
    assert "train.tsv" in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
