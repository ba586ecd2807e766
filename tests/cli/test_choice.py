"""Multiple choice on the command line: fine-tune, score, predict, from SWAG's csv and JSON lines."""

import csv
import json
import random
from pathlib import Path

import pytest

from inference.samples import tiny

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
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("choices")
    write_swag(root / "dev.csv", rows(16, 2))
    write(root / "test.jsonl", rows(12, 3))
    tiny("choice").save(root / "model", facts={"task": "choice"})
    return root


def test_evaluate_gives_accuracy_alone(folder, as_json, maskwright):
    result = as_json("evaluate", folder / "model", folder / "dev.csv", "--errors", 3)
    assert result["task"] == "choice" and result["examples"] == 16
    assert set(result["metrics"]) == {"accuracy", "ece"} and result["truncated"] == 0
    assert all(error["gold"] != error["label"] for error in result["errors"])
    code, out, _ = maskwright("evaluate", folder / "model", folder / "dev.csv", "--errors", 3)
    assert code == 0 and "accuracy" in out
    code, out, err = maskwright("evaluate", folder / "model", folder / "dev.csv", "--json", "--max-length", 12)
    assert code == 0 and json.loads(out)["truncated"] == 16 and "truncated" in err


def test_files_are_answered_row_by_row(folder, maskwright, tmp_path):
    given = rows(12, 3)
    code, out, _ = maskwright("predict", folder / "model", "--input", folder / "test.jsonl", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and len(lines) == 12
    for row, line in zip(given, lines, strict=True):
        assert (line["text"], line["text_pair"], line["gold"]) == (row["context"], row["question"], row["label"])
        assert line["choices"] == row["choices"] and line["choice"] == row["choices"][line["label"]]
        assert sum(line["probabilities"]) == pytest.approx(1) and line["score"] == max(line["probabilities"])
    words = ("--input", folder / "dev.csv", "--output", tmp_path / "answers.csv")
    code, _, _ = maskwright("predict", folder / "model", *words)
    assert code == 0 and len(list(csv.DictReader((tmp_path / "answers.csv").open(encoding="utf-8")))) == 16
    for row in given:
        row.pop("label")
    code, out, _ = maskwright("predict", folder / "model", "--input", write(tmp_path / "t.jsonl", given), "--json")
    again = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [line["label"] for line in again] == [line["label"] for line in lines]
    assert "gold" not in again[0]


def test_one_row_is_answered_on_the_command_line(folder, as_json, maskwright, refused):
    words = ["predict", folder / "model", "the cat was here .", "--choice", "cat left .", "--choice", "dog left ."]
    answer = as_json(*words, "--pair", "then the")
    assert answer["choice"] in ("cat left .", "dog left .") and len(answer["probabilities"]) == 2
    code, out, _ = maskwright(*words)
    assert code == 0 and "left ." in out
    for bad, said in (
        (words[:5], "--choice is given once"),
        ([*words, "another"], "one text"),
        ([*words[:3], "--input", folder / "test.jsonl", "--choice", "a"], "either texts or --input"),
        (words[:3], "needs choices"),
        ([*words, "--choice", " "], "choice 2"),
    ):
        refused(said, *bad, "--json")
