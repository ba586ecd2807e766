"""Which class of a classifier of pairs a ranking is by: by name, or as the model folder says."""

from __future__ import annotations

import pytest

from maskwright.core.errors import ModelFolderError
from maskwright.tasks.classification import Classification
from maskwright.tasks.sequence import class_named, relevant_class
from maskwright.text.readers.tables import Row


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["entailment", "not_entailment"], 0),
        (["not_entailment", "entailment"], 1),
        (["Not Entailment", "ENTAILMENT"], 1),
        (["irrelevant", "relevant"], 1),
        (["Relevant", "Not-Relevant"], 0),
        (["match", "mismatch"], 0),
        (["match", "no_match"], 0),
        (["duplicate", "not_duplicate"], 0),
        (["not_equivalent", "equivalent"], 1),
        (["positive", "negative"], 0),
        (["0", "1"], 1),
        (["1.0", "0.0"], 0),
        (["-1", "1"], 1),
        (["no", "Yes"], 1),
        (["false", "TRUE"], 1),
        (["contradiction", "entailment", "neutral"], 1),
        (["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], 0),
        (["score"], 0),
    ],
)
def test_the_class_is_found_by_its_name(labels, expected):
    assert relevant_class(labels) == expected


@pytest.mark.parametrize(
    "labels",
    [
        ["LABEL_0", "LABEL_1"],
        ["good", "bad"],
        ["1", "2"],
        ["not_entailment", "irrelevant"],
        ["yes", "true"],
        ["1", "2", "3", "4", "5"],
        ["negative", "neutral", "positive"],
        ["entailment", "Entailment", "neutral"],
    ],
)
def test_other_names_are_not_guessed(labels):
    assert relevant_class(labels) is None
    assert relevant_class(labels, labels[-1]) == len(labels) - 1


def test_zero_shot_uses_the_same_names():
    assert class_named(["not_entailment", "Entailment"], "entailment") == 1
    assert class_named(["not_entailment", "neutral"], "entailment") is None


def rows(labels, second="b"):
    return [Row("a", second, label, line, "t") for line, label in enumerate(labels, 1)]


def test_training_on_pairs_writes_the_class():
    task = Classification.from_rows(rows(["relevant", "irrelevant"]))
    assert task.labels == ["irrelevant", "relevant"] and task.to_json()["relevant"] == "relevant"
    assert Classification.from_json(task.to_json()).relevant == "relevant"
    assert "relevant" not in Classification.from_rows(rows(["yes", "no"], None)).to_json()
    assert "relevant" not in Classification.from_rows(rows(["good", "bad"])).to_json()


@pytest.mark.parametrize("declared", ["great", 1])
def test_a_wrong_declaration_is_refused(declared):
    facts = {"task": "classification", "labels": ["bad", "good"], "relevant": declared}
    with pytest.raises(ModelFolderError, match="relevant"):
        Classification.from_json(facts)
