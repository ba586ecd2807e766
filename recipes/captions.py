"""The captions of Multi30k (Elliott et al. 2016) by language, for the recipes that translate them."""

from __future__ import annotations

from data_sets import data_file

from maskwright.text.formats.files import open_bytes


def captions(part: str) -> dict[str, list[str]]:
    """language -> its captions, a row of all languages being one place in the lists. part: "train" or "dev".

    Raises InputError where $MASKWRIGHT_DATA does not hold them.
    """
    name = {"train": "train.tsv.xz", "dev": "dev.tsv"}[part]
    with open_bytes(data_file(f"multi30k/{name}")) as handle:
        header, *rows = [line.split("\t") for line in handle.read().decode("utf-8").strip("\n").split("\n")]
    return {language: [row[place].strip() for row in rows] for place, language in enumerate(header)}
