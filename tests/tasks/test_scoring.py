"""Which files a model can be scored on: every task on every form of rows; no label is scored that it never predicts."""

from __future__ import annotations

import json

import pytest

from maskwright.core.errors import InputError
from maskwright.tasks.anomaly import Anomaly
from maskwright.tasks.choice import Choice
from maskwright.tasks.classification import Classification
from maskwright.tasks.evaluation.scoring import check_text, read_to_score
from maskwright.tasks.generation import Generation
from maskwright.tasks.qa.task import QuestionAnswering
from maskwright.tasks.regression import Regression
from maskwright.tasks.similarity import Similarity
from maskwright.tasks.tagging.task import Tagging
from maskwright.tasks.translation import Translation

TEXTS = ("the cat sat", "dogs chase cats", "rain fell", "a gallon of milk")


def table(header, *columns):
    rows = zip(*(column * 4 for column in columns), strict=False)
    return "\n".join(["\t".join(header), *("\t".join(row) for _, row in zip(TEXTS, rows, strict=False))]) + "\n"


def texts(labels, name="label"):
    return table(("text", name), TEXTS, labels)


def pairs(*labels):
    names = ("sentence1", "sentence2", *(("label",) if labels else ()))
    return table(names, TEXTS, TEXTS[::-1], *((labels,) if labels else ()))


FILES = {
    "spam.tsv": texts(("ham", "spam")),
    "sentiment.tsv": texts(("negative", "positive")),
    "scores.tsv": texts(("0.5", "1.25", "3")),
    "unlabeled.tsv": table(("text", "other"), TEXTS, ("x",)),
    "scored-pairs.tsv": pairs("0.5", "1.25", "3"),
    "entailment.tsv": pairs("entailment", "neutral"),
    "named-pairs.tsv": pairs("x", "y"),
    "pairs.tsv": pairs(),
    "names.conll": "John\tB-PER\nsat\tO\n\nrain\tO\n",
    "places.conll": "Paris\tB-LOC\nis\tO\n",
    "words.conll": "rain\tNOUN\nfell\tVERB\n",
    "words.jsonl": json.dumps({"tokens": ["rain", "fell"], "tags": ["NOUN", "VERB"]}) + "\n",
    "questions.jsonl": json.dumps({"question": "who", "context": "a b", "answers": [{"text": "a", "answer_start": 0}]}),
    "choices.jsonl": json.dumps({"context": "rain", "choices": ["fell", "sat"], "label": 0}) + "\n",
    "text.txt": "\n".join(TEXTS) + "\n",
}

TASKS = {
    "similarity": Similarity(),
    "sentiment": Classification(["negative", "positive"]),
    "several": Classification(["negative", "positive"], multi_label=True),
    "regression": Regression(),
    "names": Tagging(["O", "B-PER", "I-PER"]),
    "words": Tagging(["NOUN", "VERB"]),
    "qa": QuestionAnswering(),
    "choice": Choice(),
    "anomaly": Anomaly("ham"),
    "generation": Generation(),
    "translation": Translation(),
}

# What each task reads; all other files are errors.
READS = {
    "similarity": {"scored-pairs.tsv", "entailment.tsv", "pairs.tsv"},
    "sentiment": {"sentiment.tsv"},
    "several": {"sentiment.tsv"},
    "regression": {"scores.tsv", "scored-pairs.tsv"},
    "names": {"names.conll"},
    "words": {"words.conll", "words.jsonl"},
    "qa": {"questions.jsonl"},
    "choice": {"choices.jsonl"},
    "anomaly": {"spam.tsv", "unlabeled.tsv", "pairs.tsv", "text.txt"},
}
READS["translation"] = {name for name in FILES if name.endswith(".tsv") and name != "unlabeled.tsv"}
READS["generation"] = READS["translation"] | {"text.txt"}  # a label is a text to generate; of .txt the first line

# The task that the message names, where the file alone decides it.
FITTING = {
    "names.conll": "tagging",
    "places.conll": "tagging",
    "words.conll": "tagging",
    "words.jsonl": "tagging",
    "questions.jsonl": "qa",
    "choices.jsonl": "choice",
    "spam.tsv": "classification",
    "sentiment.tsv": "classification",
    "entailment.tsv": "classification",
    "named-pairs.tsv": "classification",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("model", TASKS)
def test_a_file_is_read_or_the_message_names_the_command_that_fits(folder, model, name):
    if name in READS[model]:
        assert read_to_score(TASKS[model], folder / name, model).rows
        return
    with pytest.raises(InputError) as error:
        read_to_score(TASKS[model], folder / name, model)
    if name in FITTING:
        assert f"maskwright finetune {FITTING[name]} --model {model} " in str(error.value)
        assert name in str(error.value)


def test_labels_of_the_file_and_of_the_model_are_both_named(folder):
    with pytest.raises(InputError, match=r"spam.tsv contains the labels ham, spam, but m predicts negative, p"):
        read_to_score(TASKS["sentiment"], folder / "spam.tsv", "m")
    with pytest.raises(InputError, match=r"contains the tags NOUN, VERB, but m predicts O, B-PER, I-PER\."):
        read_to_score(TASKS["names"], folder / "words.conll", "m")


def test_skipping_bad_rows_does_not_hide_that_all_labels_are_foreign(folder):
    with pytest.raises(InputError, match="finetune classification"):
        read_to_score(TASKS["regression"], folder / "spam.tsv", "m", skip_bad_rows=True)


def test_one_pair_without_a_score_says_nothing(tmp_path):
    (tmp_path / "one.tsv").write_text("sentence1\tsentence2\na\tb\n")
    with pytest.raises(InputError, match="one pair"):
        read_to_score(TASKS["similarity"], tmp_path / "one.tsv", "m")


def test_anomalies_of_other_classes_only_are_not_scored(folder):
    with pytest.raises(InputError, match="negative, positive, but m predicts which texts are not of the class ham"):
        read_to_score(TASKS["anomaly"], folder / "sentiment.tsv", "m")


@pytest.mark.parametrize("name", [name for name in FILES if name != "text.txt"])
def test_a_pre_trained_model_is_scored_on_text_only(folder, name):
    with pytest.raises(InputError, match="maskwright finetune "):
        check_text(folder / name, "m")


def test_labels_beside_the_text_of_a_corpus_are_reported_as_not_scored(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("text,label\nrain fell,spam\n")
    check_text(tmp_path / "rows.csv", "m")
    assert "column 'label' of" in capsys.readouterr().err
