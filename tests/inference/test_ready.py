"""A model of another kind is rejected with one short error, which names the commands that fit."""

from __future__ import annotations

import re

import pytest

from inference.samples import tiny
from maskwright.api import ANSWERING, MASKED, WORDY
from maskwright.core.errors import ModelFolderError
from maskwright.inference.ready import HEADS, require_head


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            ("seq2seq",),
            "m contains a token classification model, but this requires a translation model.",
        ),
        (
            ("clm", "generation", *MASKED),
            "m contains a token classification model, which is not supported. Supported commands: maskwright predict,",
        ),
    ],
)
def test_what_it_is_and_what_fits_it_stand_in_one_short_message(wanted: tuple[str, ...], said: str):
    with pytest.raises(ModelFolderError, match=f"^{re.escape(said)}") as refused:
        require_head(tiny("tagging", labels=["O", "B"]), wanted, "m")
    assert len(str(refused.value)) < 160


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_evaluate_is_recommended_for_what_it_takes(head: str | None):
    assert ("evaluate" in HEADS[head][1]) == (head in (*ANSWERING, *WORDY))
