"""Every route gives the numbers of the library."""

import base64
import gc
import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright import api
from maskwright.inference.generate import Generation
from maskwright.inspect.attention import attention
from maskwright.models.decoding.rules import Rules

pytest.importorskip("orjson", reason="the extra 'serve' is not installed")

from fastapi.routing import APIRoute

from maskwright.serve.dialects import routing

TEXTS = ["the cat sat on the mat .", "dogs chase cats", "Ünïcödé — naïve café 🙂", "a"]
HERE = {"device": "cpu", "precision": "fp32"}
CLOSE = 1e-5
WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "dogs", "ran", "far", "away"]


def vectors(models, **options):
    return api.open_embedder(models["vectors"], **HERE, **options).vectors(TEXTS)


@pytest.mark.parametrize("normalize", [True, False])
def test_embed(served, models, normalize):
    found = served.post("/embed", {"inputs": TEXTS, "normalize": normalize})
    assert found.status == 200 and found.headers["x-truncated-texts"] == "0"
    assert np.abs(np.array(found.json()) - vectors(models, normalize=normalize)).max() < CLOSE
    alone = [served.post("/embed", {"inputs": text, "normalize": normalize}).json()[0] for text in TEXTS]
    assert np.abs(np.array(alone) - found.json()).max() < CLOSE


def test_embed_cuts_dimensions_and_scales_again(served, models):
    found = np.array(served.post("/embed", {"inputs": TEXTS, "dimensions": 5}).json())
    expected = vectors(models, normalize=True)[:, :5]
    assert np.abs(found - expected / np.linalg.norm(expected, axis=1, keepdims=True)).max() < CLOSE


def test_answers_do_not_depend_on_the_other_requests(served, models):
    """300 requests of random texts, 8 at a time, so that packs differ; each as if it were alone."""
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.choice([1, 3, 12, 60]))) for _ in range(300)]
    alone = api.open_embedder(models["vectors"], normalize=False, **HERE)
    expected = np.concatenate([alone.vectors([text]) for text in texts])
    with ThreadPoolExecutor(8) as pool:
        asked = pool.map(lambda text: served.post("/embed", {"inputs": text, "normalize": False}).json()[0], texts)
        found = np.array(list(asked))
    assert np.abs(found - expected).max() < CLOSE


@pytest.mark.compatibility(
    "fastapi 0.165.0",
    theirs="For each request, the routes of an included router are searched twice",
    ours="A path without a parameter is looked up in a dict",
)
def test_a_path_is_found_without_a_search(served, monkeypatch):
    searched, matches = [], APIRoute.matches
    monkeypatch.setattr(APIRoute, "matches", lambda self, scope: searched.append(self.path) or matches(self, scope))
    assert served.post("/embed", {"inputs": TEXTS}).status == 200 and not searched
    assert served.post("/models/vectors/embed", {"inputs": TEXTS}).status == 200 and searched


@pytest.mark.compatibility(
    "CPython 3.11 to 3.13, starlette 1.10.0",
    theirs="The youngest generation of garbage holds the objects of all open requests, whatever its threshold, so each "
    "look through it stops a busy server for up to 50 ms",
    ours="Requests leave no reference cycle, and garbage is collected every 10 seconds, under load once a minute",
)
def test_requests_leave_no_garbage(served):
    """Each of these opens a connection, of which asyncio leaves seven objects."""
    texts, labels = {"inputs": TEXTS}, {"inputs": TEXTS[0], "labels": ["a", "b"]}
    asked = [
        ("/embed", texts),
        ("/embed", {"inputs": []}),
        ("/predict", texts),
        ("/predict", labels),
        ("/nowhere", texts),
    ]
    asked += [("/tokenize", texts), ("/rerank", {"query": TEXTS[0], "texts": TEXTS}), ("/embed_all", texts)]
    for path, body in asked:
        served.post(path, body)
    gc.collect()
    gc.disable()
    try:
        for path, body in asked * 10:
            served.post(path, body)
        assert gc.collect() <= len(asked) * 10 * 12
    finally:
        gc.enable()


def test_embed_all(served, models):
    found = served.post("/embed_all", {"inputs": TEXTS}).json()
    expected = list(api.open_embedder(models["vectors"], pooling="none", **HERE).token_vectors(TEXTS))
    for one, other in zip(found, expected, strict=True):
        assert np.abs(np.array(one) - other.vectors).max() < CLOSE


def test_embed_sparse(served, models):
    found = served.post("/embed_sparse", {"inputs": TEXTS}).json()
    expected = api.open_sparse_encoder(models["sparse"], **HERE).vectors(TEXTS)
    assert [len(row) for row in found] == np.diff(expected.indptr).tolist()
    for row, wanted in zip(found, expected.toarray(), strict=True):
        assert all(abs(wanted[one["index"]] - one["value"]) < CLOSE for one in row)
    assert served.post("/models/sparse/embed", {"inputs": TEXTS}).status == 424  # its vectors are not dense
    assert served.post("/models/vectors/embed_sparse", {"inputs": TEXTS}).status == 424


def test_openai_embeddings_in_both_encodings(served, models):
    asked = {"model": "vectors", "input": TEXTS}
    floats = served.post("/v1/embeddings", asked).json()
    packed = served.post("/v1/embeddings", {**asked, "encoding_format": "base64"}).json()
    found = np.array([one["embedding"] for one in floats["data"]])
    decoded = [np.frombuffer(base64.b64decode(one["embedding"]), dtype="<f4") for one in packed["data"]]
    assert np.abs(found - vectors(models, normalize=True)).max() < CLOSE
    assert np.array_equal(np.array(decoded), found.astype(np.float32))  # equal as float32, not as Python floats
    assert not np.array_equal(np.array(decoded, dtype=np.float64), found)
    assert floats["usage"]["total_tokens"] > 4


def test_similarity_and_rerank(served, models):
    own = vectors(models, normalize=True)
    expected = own[1:] @ own[0]
    found = served.post("/similarity", {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}}).json()
    assert found == pytest.approx(expected.tolist(), abs=CLOSE)
    ranked = served.post("/rerank", {"query": TEXTS[0], "texts": TEXTS[1:], "return_text": True}).json()
    assert [one["index"] for one in ranked] == np.argsort(-expected).tolist()
    assert all(one["text"] == TEXTS[1:][one["index"]] for one in ranked)
    asked = {"model": "vectors", "query": TEXTS[0], "documents": TEXTS[1:], "top_n": 2}
    results = served.post("/v1/rerank", asked).json()["results"]
    assert [one["index"] for one in results] == [one["index"] for one in ranked[:2]]


def test_predict(served, models):
    expected = api.open_predictor(models["topics"], **HERE).predict([*TEXTS, ("a", "b")])
    asked = [[text] for text in TEXTS] + [["a", "b"]]
    found = served.post("/predict", {"inputs": asked}).json()
    for one, other in zip(found, expected, strict=True):
        assert {row["label"]: row["score"] for row in one} == pytest.approx(other["probabilities"], abs=CLOSE)
        assert one[0]["label"] == other["label"]
    assert served.post("/predict", {"inputs": TEXTS[0]}).json()[0]["label"] == found[0][0]["label"]
    of_task = served.post("/models/topics", {"inputs": TEXTS[0], "parameters": {"top_k": 1}}).json()
    assert of_task[0][0]["label"] == found[0][0]["label"] and len(of_task[0]) == 1


@pytest.mark.parametrize("name", ["entails", "vectors"])
def test_labels_without_training(served, models, name):
    labels = ["animals", "rivers", "films"]
    asked = {"inputs": [[text] for text in TEXTS], "labels": labels}
    found = served.post(f"/models/{name}/predict", asked).json()
    for one, other in zip(found, api.zero_shot(models[name], TEXTS, labels, **HERE), strict=True):
        scores = other.get("probabilities", other.get("similarities"))
        assert {row["label"]: row["score"] for row in one} == pytest.approx(scores, abs=CLOSE)


def test_tag(served, models):
    expected = api.open_predictor(models["names"], **HERE).predict(TEXTS)
    for text, one, other in zip(TEXTS, served.post("/tag", {"inputs": TEXTS}).json(), expected, strict=True):
        assert [(row["entity_group"], row["start"], row["end"]) for row in one] == [
            (row["type"], row["start"], row["end"]) for row in other["entities"]
        ]
        assert all(text[row["start"] : row["end"]] == row["word"] for row in one)


def test_tags_without_entities(served, models):
    (one,) = served.post("/models/words/tag", {"inputs": ["the  Cat sat."]}).json()
    (expected,) = api.open_predictor(models["words"], **HERE).predict(["the  Cat sat."])
    assert [row["word"] for row in one] == ["the", "Cat", "sat", "."]
    assert [row["start"] for row in one] == [0, 5, 9, 12]
    assert [row["entity_group"] for row in one] == expected["tags"]
    assert [row["score"] for row in one] == pytest.approx(expected["scores"], abs=CLOSE)


def test_answer(served, models):
    question, context = "who ?", "ada lovelace met charles babbage in london ."
    expected = api.open_answerer(models["answers"], **HERE).answer([(question, context)], 3)[0]
    asked = {"inputs": {"question": question, "context": context}}
    found = served.post("/answer", asked).json()
    assert found["answer"] == expected.answer["answer"]
    assert found["score"] == pytest.approx(expected.answer["score"], abs=CLOSE)
    several = served.post("/models/answers", {**asked, "parameters": {"top_k": 3}}).json()
    assert [one["start"] for one in several] == [one["start"] for one in expected.candidates]


def test_fill_mask(served, models):
    text = "the [MASK] sat on the [MASK] ."
    expected = api.open_mask_filler(models["reader"], **HERE).fill([text], 4)[0]
    found = served.post("/fill-mask", {"inputs": text, "parameters": {"top_k": 4}}).json()
    for rows, mask in zip(found, expected.masks, strict=True):
        assert [row["token"] for row in rows] == [one.token for one in mask.candidates]
        assert [row["score"] for row in rows] == pytest.approx([one.score for one in mask.candidates], abs=CLOSE)
    few = served.post("/fill-mask", {"inputs": "the [MASK]", "parameters": {"targets": ["cat", "mat"]}}).json()
    assert {row["token_str"] for row in few} == {"cat", "mat"}


@pytest.mark.parametrize("sampled", [False, True])
def test_generate(served, models, sampled):
    parameters = {"max_new_tokens": 8} | ({"do_sample": True, "top_k": 20, "seed": 4} if sampled else {})
    rules = Rules(False, 1.0, 20) if sampled else Rules(greedy=True)
    settings = Generation(max_new_tokens=8, rules=rules, seed=4 if sampled else 0)
    expected = api.open_generator(models["writer"], **HERE).generate(["the cat"], settings)[0][0]
    found = served.post("/generate", {"inputs": "the cat", "parameters": parameters}).json()
    assert found == [{"generated_text": expected.text}]


def test_completions_whole_and_as_events(served, models):
    settings = Generation(max_new_tokens=8, rules=Rules(greedy=True))
    expected = api.open_generator(models["writer"], **HERE).generate(["the cat"], settings)[0][0]
    asked = {"model": "writer", "prompt": "the cat", "max_tokens": 8, "temperature": 0}
    whole = served.post("/v1/completions", asked).json()
    assert whole["choices"][0]["text"] == expected.text and whole["usage"]["completion_tokens"] == expected.num_tokens
    events = served.post("/v1/completions", {**asked, "stream": True})
    assert events.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in events.body.decode().split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    parts = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:-1]]
    assert "".join(part["text"] for part in parts) == expected.text and parts[-1]["finish_reason"] == "length"


def test_generate_as_events(served):
    asked = {"inputs": "the cat", "parameters": {"max_new_tokens": 8, "return_full_text": True}}
    whole = served.post("/models/writer", asked).json()[0]["generated_text"]
    events = served.post("/models/writer", {**asked, "stream": True})
    assert events.headers["content-type"].startswith("text/event-stream")
    found = [json.loads(line.removeprefix("data:")) for line in events.body.decode().split("\n\n") if line]
    assert [one["index"] for one in found] == list(range(1, len(found) + 1))
    assert "the cat" + "".join(one["token"]["text"] for one in found) == whole == found[-1]["generated_text"]
    assert found[-1]["details"] == {"finish_reason": "length", "generated_tokens": 8}
    assert served.post("/generate", {"inputs": "", "stream": True}).status == 400


def test_prompts_are_counted_before_they_are_generated(served, monkeypatch):
    """A queue that is full at the end must not reject what is computed."""
    found = served.post("/v1/completions", {"model": "writer", "prompt": ["the cat", "a"], "max_tokens": 2})
    assert found.json()["usage"]["prompt_tokens"] == int(found.headers["x-compute-tokens"]) > 2
    assert found.headers["x-truncated-texts"] == "0"
    long = served.post("/generate", {"inputs": "the cat " * 100, "parameters": {"max_new_tokens": 1}})
    assert long.status == 200 and long.headers["x-truncated-texts"] == "1"


def test_translate(served, models):
    expected = [one[0].text for one in api.open_translator(models["translator"], **HERE).translate(TEXTS[:2])]
    found = served.post("/translate", {"inputs": TEXTS[:2]}).json()
    assert [one["translation_text"] for one in found] == expected


def test_attention(served, models):
    found = served.post("/attention", {"inputs": TEXTS[0], "layers": [2], "heads": [1, 3]}).json()
    expected = attention(api.open_model(models["vectors"], (), "cpu", "fp32"), TEXTS[0]).select([2], [1, 3])
    weights = np.array(found["maps"][0]["weights"])
    assert np.abs(weights - expected.main.weights).max() < CLOSE


@pytest.mark.compatibility(
    "text-embeddings-inference 1.9.3",
    theirs="/tokenize gives the slice of the input as text of a token, with start and stop in bytes (its source)",
    ours="the same text; start and stop are characters",
)
def test_tokenize_and_decode(served):
    texts = [*TEXTS, "The  CAT, Ünïcödé"]
    rows = served.post("/tokenize", {"inputs": texts}).json()
    for text, row in zip(texts, rows, strict=True):
        assert all(one["special"] or 0 <= one["start"] < one["stop"] <= len(text) for one in row)
        assert all(one["text"] == text[one["start"] : one["stop"]] for one in row if not one["special"])
        assert [one["text"] for one in row if one["special"]] == ["[CLS]", "[SEP]"]
    assert {one["text"] for one in rows[-1]} & {"CAT", "C", "CA"}  # as it was written, not as it is normalized
    ids = [one["id"] for one in rows[1]]
    assert served.post("/decode", {"ids": ids}).json() == ["dogs chase cats"]


def test_info_models_health_docs(served, models):
    info = served.get("/info").json()
    assert info["model_id"] == "vectors" and len(info["models"]) == len(models) and len(info["model_sha"]) == 64
    assert {one["id"] for one in served.get("/v1/models").json()["data"]} >= {"vectors", "writer"}
    assert served.get("/v1/models/writer").json()["id"] == "writer"
    assert served.get("/health").status == served.get("/ping").status == served.get("/ready").status == 200
    page = served.get("/docs")
    assert b"/fill-mask" in page.body and b"http-equiv" not in page.body and b"<script" not in page.body
    assert "/models/{name}/embed" in served.get("/openapi.json").json()["paths"]


def test_truncation_is_never_silent(served):
    long = "the cat " * 100
    found = served.post("/embed", {"inputs": [long, "a"]})
    assert found.status == 200 and found.headers["x-truncated-texts"] == "1"
    assert served.post("/embed", {"inputs": long, "truncate": False}).status == 413


# -- long results are written in parts -----------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.just(np.arange(12, dtype=np.float32).reshape(4, 3)),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=40,
)


def plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


@given(VALUES, st.integers(1, 20))
def test_parts_are_the_whole(value, most):
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(routing, "PART_VALUES", most)
        assert json.loads(b"".join(routing.json_parts(value))) == plain(value)
