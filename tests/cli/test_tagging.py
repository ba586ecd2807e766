"""`predict` and `evaluate` of a tagger."""

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
    tiny("mlm").save(root / "base")
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
        assert TEXT[entity["start"] : entity["end"]] == entity["text"] and 0 < entity["score"] <= 1
    assert (answers[1]["tokens"], answers[1]["entities"]) == ([], [])


def test_words_of_a_file_keep_their_gold_tags_and_long_sentences_are_whole(maskwright, folder):
    code, out, err = maskwright("predict", folder / "ner", "--input", folder / "rows.conll", "--json")
    answers = lines_of(out)
    assert (code, [len(answer["tags"]) for answer in answers]) == (0, [2, 60, 1])
    assert answers[0]["gold"] == ["B-PER", "I-PER"] and "cut" not in err


def test_evaluate_prints_the_metrics_of_entities(maskwright, folder):
    code, out, err = maskwright("evaluate", folder / "ner", folder / "rows.conll", "--json", "--errors", "1")
    result = json.loads(out)
    assert (code, result["task"], result["examples"]) == (0, "tagging", 3)
    assert {"entity_f1", "entity_precision", "entity_recall", "accuracy"} <= set(result["metrics"])
    assert len(result["errors"]) == 1 and "1 of 63 rows.conll tags invalid in BIO" in err
    code, out, _ = maskwright("evaluate", folder / "ner", folder / "rows.conll", "--errors", "1")
    assert (code, "entity_f1" in out, "['" in out) == (0, True, False)


SPELLINGS = {
    "suffix.conll": lambda prefix, type: f"{type}_{prefix}",
    "lower.conll": lambda prefix, type: f"{prefix}-{type}".lower(),
    "untyped.conll": lambda prefix, type: prefix,
    "types.conll": lambda prefix, type: type,
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_file_in_any_spelling_is_learned_and_scored_by_entities(maskwright, folder, tmp_path, name):
    write, outside = SPELLINGS[name], "o" if "lower" in name else "O"
    pairs = [("the", "cat"), ("a", "dog"), ("the", "dog"), ("a", "cat")] * 3
    text = "".join(
        f"{one} {write('B', 'PER')}\n{other} {write('I', 'PER')}\nsat {outside}\non {outside}\n\n"
        for one, other in pairs
    )
    (tmp_path / name).write_text(text)
    code, out, err = maskwright(
        "finetune", "tagging", "--model", folder / "base", "--train", tmp_path / name, "--dev", tmp_path / name,
        "-o", tmp_path / "run", "--epochs", "1", "--max-length", "16",
    )  # fmt: skip
    assert code == 0, err
    assert "train tags are " in err
    code, out, err = maskwright("evaluate", tmp_path / "run" / "model", tmp_path / name, "--json")
    assert (code, "entity_f1" in json.loads(out)["metrics"]) == (0, True)
    code, out, _ = maskwright("predict", tmp_path / "run" / "model", "the cat sat", "--json")
    assert (code, "entities" in lines_of(out)[0]) == (0, True)
    facts = json.loads((tmp_path / "run" / "model" / "maskwright.json").read_text())
    assert set(facts["labels"]) == {outside, write("B", "PER"), write("I", "PER")}
    assert facts["segmenter"] == "rules"


def test_words_of_conllu_keep_the_id_of_their_sentence(maskwright, folder, tmp_path):
    row = "{}\t{}\t_\t{}\t_\t_\t0\troot\t_\t{}\n"
    text = "# sent_id = s7\n" + row.format("1-2", "cannot", "_", "_") + row.format(1, "can", "NOUN", "_")
    text += (
        row.format(2, "not", "VERB", "_") + row.format(3, "sat", "X", "SpaceAfter=No") + row.format(4, ".", "X", "_")
    )
    (tmp_path / "a.conllu").write_text(text)
    code, out, err = maskwright("predict", folder / "pos", "--input", tmp_path / "a.conllu", "--json")
    answer = lines_of(out)[0]
    assert (code, answer["id"], answer["text"], answer["gold"]) == (0, "s7", "cannot sat.", ["NOUN", "VERB", "X", "X"])
    assert answer["spans"] == [[0, 3], [3, 6], [7, 10], [10, 11]]
    code, out, _ = maskwright("evaluate", folder / "pos", tmp_path / "a.conllu", "--json")
    assert (code, json.loads(out)["examples"]) == (0, 1)
    code, _, err = maskwright("evaluate", folder / "pos", tmp_path / "a.conllu", "--columns", "tag=NER")
    assert (code, "its columns are ID, FORM" in err) == (2, True)
