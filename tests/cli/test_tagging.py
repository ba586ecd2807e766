"""`predict` and `evaluate` of a tagger."""

from __future__ import annotations

import csv
import json

import pytest

from cli.test_use import lines_of
from inference.samples import tiny
from maskwright.tasks.tagging.task import Tagging

TEXT = "Albert is going to United States of America."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("taggers")
    for name, task in (
        ("ner", Tagging(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])),
        ("crf", Tagging(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], crf=True)),
        ("pos", Tagging(["NOUN", "VERB", "X"])),
    ):
        tiny(task.head, labels=task.labels).save(root / name, facts=task.to_json())
    (root / "rows.conll").write_text("cat\tB-PER\nsat\tI-PER\n\n# note\n" + "on\tO\n" * 60 + "\nmat\tI-LOC\n")
    return root


@pytest.mark.parametrize("name", ["ner", "crf"])
def test_entities_have_places_in_the_text(maskwright, folder, name):
    code, out, _ = maskwright("predict", folder / name, TEXT, "  ", "--json")
    answers = lines_of(out)
    assert code == 0
    assert answers[0]["tokens"] == ["Albert", "is", "going", "to", "United", "States", "of", "America", "."]
    assert answers[0]["entities"]
    for entity in answers[0]["entities"]:
        assert TEXT[entity["start"] : entity["end"]] == entity["text"]
        assert 0 < entity["score"] <= 1
    assert (answers[1]["tokens"], answers[1]["entities"]) == ([], [])


def test_words_of_a_file_keep_their_gold_tags_and_long_sentences_are_whole(maskwright, folder):
    code, out, err = maskwright("predict", folder / "ner", "--input", folder / "rows.conll", "--json")
    answers = lines_of(out)
    assert (code, [len(answer["tags"]) for answer in answers]) == (0, [2, 60, 1])
    assert answers[0]["gold"] == ["B-PER", "I-PER"]
    assert "cut" not in err


def test_one_sentence_is_tagged_alike_from_a_file_and_from_a_text(maskwright, folder, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"tokens": ["the", "cat", "sat", "."]}) + "\n")
    _, of_file, _ = maskwright("predict", folder / "ner", "--input", tmp_path / "a.jsonl", "--json")
    _, of_text, _ = maskwright("predict", folder / "ner", "the cat sat.", "--json")
    assert lines_of(of_file)[0]["tags"] == lines_of(of_text)[0]["tags"]


def test_tables_and_other_files(maskwright, folder, tmp_path):
    for name in ("ner", "pos"):
        code, out, _ = maskwright("predict", folder / name, TEXT)
        assert code == 0
        assert "Albert" in out
    output = tmp_path / "out.csv"
    code, _, _ = maskwright("predict", folder / "ner", TEXT, "-o", output)
    with output.open(encoding="utf-8", newline="") as handle:
        row = next(csv.DictReader(handle))
    assert code == 0
    assert all(entity["text"] in TEXT for entity in json.loads(row["entities"]))


def test_evaluate_prints_the_metrics_of_entities(maskwright, folder):
    code, out, err = maskwright("evaluate", folder / "ner", folder / "rows.conll", "--json", "--errors", "1")
    result = json.loads(out)
    assert (code, result["task"], result["examples"]) == (0, "tagging", 3)
    assert {"entity_f1", "entity_precision", "entity_recall", "accuracy"} <= set(result["metrics"])
    assert len(result["errors"]) == 1
    assert "1 of 63 rows.conll tags is invalid in BIO" in err
    code, out, _ = maskwright("evaluate", folder / "ner", folder / "rows.conll", "--errors", "1")
    assert (code, "entity_f1" in out, "['" in out) == (0, True, False)


def test_unknown_tags_stop_an_evaluation_or_are_skipped_on_request(maskwright, folder, tmp_path):
    path = tmp_path / "bad.conll"
    path.write_text("a\tB-ORG\n\nb\tO\n\nc\n")
    code, _, err = maskwright("evaluate", folder / "ner", path)
    assert (code, "bad.conll:5" in err) == (2, True)
    code, out, err = maskwright("evaluate", folder / "ner", path, "--skip-bad-rows", "--json")
    assert code == 0, err
    assert (code, json.loads(out)["examples"], json.loads(out)["skipped"]) == (0, 1, 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--trace", TEXT), "one prediction per text"),
        ((TEXT, "--pair", TEXT), "a text pair cannot be tagged"),
    ],
)
def test_what_a_tagger_does_not_do_is_one_sentence(maskwright, folder, words, sentence):
    code, _, err = maskwright("predict", folder / "ner", *words)
    assert (code, sentence in err) == (2, True)
