"""Multiple choice on the command line: fine-tune, score, predict, from SWAG's csv and JSON lines."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

ANIMALS, PLACES = ["cat", "dog", "bird"], ["house", "tree", "river"]


def rows(count: int, seed: int) -> list[dict]:
    """The right ending is the one that names the first word again."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        words = rng.sample(ANIMALS + PLACES, 3)
        label = rng.randrange(3)
        entry = {"id": f"r{number}", "context": f"the {words[label]} was here .", "question": "then the"}
        found.append({**entry, "choices": [f"{word} left ." for word in words], "label": label})
    return found


def write(path: Path, entries: list) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def write_swag(path: Path, entries: list) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["video-id", "sent1", "sent2", "ending0", "ending1", "ending2", "label"])
        for entry in entries:
            writer.writerow([entry["id"], entry["context"], entry["question"], *entry["choices"], entry["label"]])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_once):
    """Files and a trained model."""

    from maskwright.text.tokenizers.tokenizer import Tokenizer

    root = tmp_path_factory.mktemp("choices")
    write(root / "train.jsonl", rows(48, 1))
    write_swag(root / "dev.csv", rows(16, 2))
    write(root / "test.jsonl", rows(12, 3))
    texts = [text for row in rows(48, 1) for text in (row["context"], row["question"], *row["choices"])]
    Tokenizer.train_from_iterator(texts, "wordpiece", 100).save(root / "tok")
    words = ["finetune", "choice", "--preset", "bert-tiny", "--tokenizer", root / "tok", "-o", root / "run", "--quiet"]
    words += ["--train", root / "train.jsonl", "--dev", root / "dev.csv", "--max-length", 24, "--epochs", 2]
    words += ["--lr", "1e-3"]
    run_once(*words)
    return root


def test_a_run_ends_with_a_model_and_a_page_with_right_and_wrong_rows(folder):
    facts = json.loads((folder / "run/model/maskwright.json").read_text(encoding="utf-8"))
    assert facts["task"] == "choice" and set(facts["training"]["mean"]) == {"loss", "accuracy", "ece"}
    config = json.loads((folder / "run/model/config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["BertForMultipleChoice"]
    page = (folder / "run/report.html").read_text(encoding="utf-8")
    for words in ("Worst errors", "Correct predictions", "guessing", "choices of a training row", "--choice"):
        assert words in page, words
    card = (folder / "run/model/README.md").read_text(encoding="utf-8")
    assert "BertForMultipleChoice" in card and "--choice" in card


def test_evaluate_gives_accuracy_alone(folder, maskwright):
    code, out, _ = maskwright("evaluate", folder / "run/model", folder / "dev.csv", "--json", "--errors", 3)
    result = json.loads(out)
    assert code == 0 and result["task"] == "choice" and result["examples"] == 16
    assert set(result["metrics"]) == {"accuracy", "ece"} and result["truncated"] == 0
    facts = json.loads((folder / "run/model/maskwright.json").read_text(encoding="utf-8"))
    assert result["metrics"]["accuracy"] == pytest.approx(facts["training"]["mean"]["accuracy"])
    assert all(error["gold"] != error["label"] for error in result["errors"])
    code, out, _ = maskwright("evaluate", folder / "run/model", folder / "dev.csv", "--errors", 3)
    assert code == 0 and "accuracy" in out
    code, out, err = maskwright("evaluate", folder / "run/model", folder / "dev.csv", "--json", "--max-length", 12)
    assert code == 0 and json.loads(out)["truncated"] == 16 and "truncated" in err


def test_files_are_answered_row_by_row(folder, maskwright, tmp_path):
    given = rows(12, 3)
    code, out, _ = maskwright("predict", folder / "run/model", "--input", folder / "test.jsonl", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and len(lines) == 12
    for row, line in zip(given, lines, strict=True):
        assert (line["text"], line["text_pair"], line["gold"]) == (row["context"], row["question"], row["label"])
        assert line["choices"] == row["choices"] and line["choice"] == row["choices"][line["label"]]
        assert sum(line["probabilities"]) == pytest.approx(1) and line["score"] == max(line["probabilities"])
    code, _, _ = maskwright(
        "predict", folder / "run/model", "--input", folder / "dev.csv", "--output", tmp_path / "answers.csv"
    )
    assert code == 0 and len(list(csv.DictReader((tmp_path / "answers.csv").open(encoding="utf-8")))) == 16
    for row in given:
        row.pop("label")
    code, out, _ = maskwright("predict", folder / "run/model", "--input", write(tmp_path / "t.jsonl", given), "--json")
    again = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [line["label"] for line in again] == [line["label"] for line in lines]
    assert "gold" not in again[0]


def test_one_row_is_answered_on_the_command_line(folder, maskwright):
    words = ["predict", folder / "run/model", "the cat was here .", "--choice", "cat left .", "--choice", "dog left ."]
    code, out, _ = maskwright(*words, "--pair", "then the", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["choice"] in ("cat left .", "dog left .") and len(answer["probabilities"]) == 2
    code, out, _ = maskwright(*words)
    assert code == 0 and "left ." in out
    for bad, said in (
        (words[:5], "--choice is given once"),
        ([*words, "another"], "one text"),
        ([*words[:3], "--input", folder / "test.jsonl", "--choice", "a"], "either texts or --input"),
        (words[:3], "needs choices"),
        ([*words, "--choice", " "], "choice 2"),
    ):
        code, out, err = maskwright(*bad, "--json")
        assert code == 2 and said in err and out == "" and "Traceback" not in err, said
