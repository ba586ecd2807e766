"""Truncation messages of the studio, on every page that truncates."""

import pytest

from maskwright.api import open_model
from studio.models import write_chooser, write_classifier, write_masked, write_tagger, write_translator, write_writer
from studio.serving import serving

MAKERS = {
    "classes": write_classifier,
    "names": write_tagger,
    "choices": write_chooser,
    "writer": write_writer,
    "translator": write_translator,
    "masked": write_masked,
}
LONG, ROOM = "the cat " * 100, 64
REQUEST = {
    "/api/classify": ("classes", lambda text: {"text": text}),
    "/api/choose": ("choices", lambda text: {"text": text, "choices": ["sat", "rose"]}),
    "/api/complete": ("writer", lambda text: {"text": text}),
    "/api/generate": ("writer", lambda text: {"text": text, "max_new_tokens": 2}),
    "/api/meaning": ("masked", lambda text: {"texts": [text]}),
    "/api/translate": ("translator", lambda text: {"texts": [text]}),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    models = [make(folder / name) for name, make in MAKERS.items()]
    with serving(tmp_path_factory.mktemp("runs"), *models) as found:
        yield found


@pytest.mark.parametrize("path", REQUEST)
def test_truncation_is_always_reported(served, path):
    name, asking = REQUEST[path]
    asked = [served.post(path, {"model": name, **asking(text)}).json()["note"] for text in ("the cat", LONG, LONG)]
    shelved = served.studio.models[name]
    assert asked[0] == "" and asked[1] == asked[2], "a second question is not answered with the sum of both"
    assert asked[1].endswith(f"truncated: the maximum length is {ROOM}.")
    if path == "/api/complete":
        tokenizer = open_model(shelved.source, (), "cpu", "fp32").tokenizer
        truncated = len(tokenizer.encode_plain([LONG])[0]) + len(tokenizer.opening_ids) - ROOM
        assert asked[1].startswith(f"{truncated} tokens were truncated")
    if path == "/api/classify":
        assert asked[1].startswith(f"{len(shelved.tokenizer(LONG)) - ROOM} tokens were truncated")


def test_a_tagger_reads_all_of_a_long_text(served):
    found = served.post("/api/tag", {"model": "names", "text": LONG}).json()
    assert len(found["answer"]["tags"]) == len(found["spans"]) == 200 > ROOM and found["note"] == ""


def test_a_word_that_is_not_everywhere_compares_whole_sentences(served):
    texts = ["the cat sat", "a dog ran", "the cat ran"]
    by_word = served.post("/api/meaning", {"model": "masked", "texts": texts, "word": "cat"}).json()
    whole = served.post("/api/meaning", {"model": "masked", "texts": texts}).json()
    assert by_word["note"] == "1 sentence does not contain the word “cat”: whole sentences are compared."
    assert by_word["matrix"] == whole["matrix"] and len(whole["places"]) == 3
    everywhere = served.post("/api/meaning", {"model": "masked", "texts": texts[::2], "word": "cat"}).json()
    assert everywhere["note"] == "" and [place["start"] for place in everywhere["places"]] == [4, 4]
