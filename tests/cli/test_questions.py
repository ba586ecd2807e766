"""Questions on the command line: fine-tune, score, answer, all from SQuAD files; bad ones refused with their ids."""

from __future__ import annotations

import json

import pytest

from maskwright.text.readers.squad import read_questions

NAMES = ["Anna", "Bob", "Carl", "Dora", "Eve"]
CITIES = ["Paris", "Rome", "Oslo", "Tokyo", "Berlin"]


def squad(count: int, shift: int) -> dict:
    """Who lives where; every third question is on somebody whom the context does not name."""
    paragraphs = []
    for n in range(count):
        first, second, other = (NAMES[(n * 2 + shift + k) % 5] for k in range(3))
        here, there = CITIES[(n + shift) % 5], CITIES[(n * 3 + shift + 1) % 5]
        context = f"{first} lives in {here} near sea {n + shift * 100}. {second} lives in {there}."
        asked = other if n % 3 == 0 else second
        golds = [] if n % 3 == 0 else [{"text": there, "answer_start": context.rindex(there)}]
        entry = {
            "id": f"{shift}-{n}",
            "question": f"Where does {asked} live?",
            "answers": golds,
            "is_impossible": not golds,
        }
        paragraphs.append({"context": context, "qas": [entry]})
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_once):
    """Files and a trained model."""
    root = tmp_path_factory.mktemp("questions")
    for name, count, shift in (("train", 60, 0), ("dev", 20, 1), ("test", 20, 2)):
        (root / f"{name}.json").write_text(json.dumps(squad(count, shift)), encoding="utf-8")
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    texts = [text for row in read_questions(root / "train.json").rows for text in (row.question, row.context)]
    Tokenizer.train_from_iterator(texts, "wordpiece", 150).save(root / "tok")
    words = ["finetune", "qa", "--preset", "bert-tiny", "--tokenizer", root / "tok", "--train", root / "train.json"]
    words += [
        "--dev",
        root / "dev.json",
        "-o",
        root / "run",
        "--max-length",
        "40",
        "--epochs",
        "2",
        "--lr",
        "1e-3",
        "--quiet",
    ]
    run_once(*words)
    return root


def test_a_run_ends_with_a_model_a_page_and_a_threshold(folder):
    facts = json.loads((folder / "run/model/maskwright.json").read_text(encoding="utf-8"))
    assert facts["task"] == "qa" and facts["may_refuse"] is True
    assert len(facts["threshold"]["tuned_on"]) == 20
    page = (folder / "run/report.html").read_text(encoding="utf-8")
    assert "dev questions without an answer" in page and "each half of the dev examples" in page
    config = json.loads((folder / "run/model/config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["BertForQuestionAnswering"]


def test_dev_rows_score_as_in_training_and_others_by_the_threshold(folder, maskwright):
    code, out, _ = maskwright("evaluate", folder / "run/model", folder / "dev.json", "--json")
    result = json.loads(out)
    assert code == 0 and result["task"] == "qa" and result["examples"] == 20
    trained = json.loads((folder / "run/model/maskwright.json").read_text(encoding="utf-8"))["training"]["mean"]
    for name in ("exact_match", "f1", "has_answer_f1", "no_answer_f1"):
        assert result["metrics"][name] == pytest.approx(trained[name])
    same = folder / "run/model"  # the threshold that dev chose has no part in a comparison on dev either
    _, out, _ = maskwright("evaluate", same, folder / "dev.json", "--against", same, "--json")
    assert json.loads(out)["against"]["comparison"]["first"] == pytest.approx(trained["f1"])
    code, out, _ = maskwright("evaluate", folder / "run/model", folder / "test.json", "--json", "--errors", 3)
    assert code == 0 and set(json.loads(out)["metrics"]) >= {"exact_match", "f1", "has_answer_f1", "no_answer_f1"}


def test_answers_are_json_with_places_in_the_context(folder, maskwright):
    context = "Anna lives in Rome. Bob lives in Oslo. " * 20
    words = ["answer", folder / "run/model", "--question", "Where does Anna live?", "--question", "Where?"]
    code, out, _ = maskwright(*words, "--context", context, "--threshold", "1000", "--top-k", 4, "--json", "--trace")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [line["question"] for line in lines] == ["Where does Anna live?", "Where?"]
    for line in lines:
        assert context[line["start"] : line["end"]] == line["answer"] and len(line["candidates"]) == 4
        assert 0 <= line["no_answer_score"] <= 1 and 0 <= line["score"] <= 1
        assert line["trace"]["splitter"] == "whitespace" and line["trace"]["answer"] == line["answer"]
    code, out, _ = maskwright(*words, "--context", context, "--threshold", "-1000", "--json")
    assert code == 0 and json.loads(out.splitlines()[0])["answer"] == ""


def test_a_context_comes_from_a_file_too_and_people_see_a_table(folder, maskwright, tmp_path):
    (tmp_path / "text.txt").write_text("Anna lives in Rome.\nBob lives in Oslo.\n", encoding="utf-8")
    words = [
        "answer",
        folder / "run/model",
        "--question",
        "Where does Bob live?",
        "--context-file",
        tmp_path / "text.txt",
    ]
    code, out, _ = maskwright(*words, "--trace")
    assert code == 0 and "(no answer)" in out and "(whitespace)" in out and "TK1 " in out
    assert out.startswith("Where does Bob live?   ")  # the title is one line, however narrow the table
    assert maskwright(*words, "--context", "both")[0] == 2


def test_files_of_questions_are_answered(folder, maskwright, tmp_path):
    code, out, _ = maskwright("predict", folder / "run/model", "--input", folder / "test.json", "--json")
    assert code == 0 and len(out.splitlines()) == 20 and "gold" in json.loads(out.splitlines()[0])
    asked = [
        entry["id"]
        for part in json.loads((folder / "test.json").read_text())["data"]
        for paragraph in part["paragraphs"]
        for entry in paragraph["qas"]
    ]
    assert [json.loads(line)["id"] for line in out.splitlines()] == asked
    known = {"id": "q7", "question": "Where?", "context": "Bob lives in Oslo.", "answers": ["Oslo"]}
    (tmp_path / "known.jsonl").write_text(json.dumps(known) + "\n", encoding="utf-8")
    code, out, _ = maskwright("predict", folder / "run/model", "--input", tmp_path / "known.jsonl", "--json")
    assert code == 0 and (json.loads(out)["id"], json.loads(out)["gold"]) == ("q7", ["Oslo"])
    (tmp_path / "q.jsonl").write_text('{"question": "Where?", "context": "Bob lives in Oslo."}\n', encoding="utf-8")
    code, out, _ = maskwright("predict", folder / "run/model", "--input", tmp_path / "q.jsonl", "--json")
    assert code == 0 and json.loads(out)["text_pair"] == "Bob lives in Oslo."
