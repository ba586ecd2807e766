"""Questions on the command line: fine-tune, score, answer, all from SQuAD files; bad ones refused with their ids."""

import json

import pytest

from inference.samples import tiny

NAMES = ["Anna", "Bob", "Carl", "Dora", "Eve"]
CITIES = ["Paris", "Rome", "Oslo", "Tokyo", "Berlin"]


def squad(count: int, shift: int) -> dict:
    paragraphs = []
    for n in range(count):
        first, second, other = (NAMES[(n * 2 + shift + k) % 5] for k in range(3))
        here, there = CITIES[(n + shift) % 5], CITIES[(n * 3 + shift + 1) % 5]
        context = f"{first} lives in {here} near sea {n + shift * 100}. {second} lives in {there}."
        asked = other if n % 3 == 0 else second
        golds = [] if n % 3 == 0 else [{"text": there, "answer_start": context.rindex(there)}]
        entry = {"id": f"{shift}-{n}", "question": f"Where does {asked} live?"}
        entry |= {"answers": golds, "is_impossible": not golds}
        paragraphs.append({"context": context, "qas": [entry]})
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("questions")
    (root / "test.json").write_text(json.dumps(squad(20, 2)), encoding="utf-8")
    tiny("qa").save(root / "run/model", facts={"task": "qa", "may_refuse": True})
    return root


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
    words = ["answer", folder / "run/model", "--question", "Where does Bob live?"]
    words += ["--context-file", tmp_path / "text.txt"]
    code, out, _ = maskwright(*words, "--trace")
    assert code == 0 and "(no answer)" in out and "(whitespace)" in out and "TK1 " in out
    assert out.startswith("Where does Bob live?   ")  # the title is one line, however narrow the table
    assert maskwright(*words, "--context", "both")[0] == 2


def test_files_of_questions_are_answered(folder, maskwright, tmp_path):
    code, out, _ = maskwright("predict", folder / "run/model", "--input", folder / "test.json", "--json")
    assert code == 0 and len(out.splitlines()) == 20 and "gold" in json.loads(out.splitlines()[0])
    assert [json.loads(line)["id"] for line in out.splitlines()] == [f"2-{n}" for n in range(20)]
    known = {"id": "q7", "question": "Where?", "context": "Bob lives in Oslo.", "answers": ["Oslo"]}
    (tmp_path / "known.jsonl").write_text(json.dumps(known) + "\n", encoding="utf-8")
    code, out, _ = maskwright("predict", folder / "run/model", "--input", tmp_path / "known.jsonl", "--json")
    assert code == 0 and (json.loads(out)["id"], json.loads(out)["gold"]) == ("q7", ["Oslo"])
    (tmp_path / "q.jsonl").write_text('{"question": "Where?", "context": "Bob lives in Oslo."}\n', encoding="utf-8")
    code, out, _ = maskwright("predict", folder / "run/model", "--input", tmp_path / "q.jsonl", "--json")
    assert code == 0 and json.loads(out)["text_pair"] == "Bob lives in Oslo."
