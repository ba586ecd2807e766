"""`huggingface_hub.InferenceClient` against the server."""

from __future__ import annotations

import numpy as np
import pytest

import maskwright as mw

hub = pytest.importorskip("huggingface_hub", reason="the test extra installs huggingface_hub")

pytestmark = pytest.mark.slow
HERE = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def ask(server):
    """A client of one model."""
    return lambda name: hub.InferenceClient(model=f"{server.url}/models/{name}")


def test_text_classification(ask, folder):
    text = "the river rose after the rain ."
    found = ask("topics").text_classification(text, top_k=3)
    classifier = mw.TextClassifier.load(str(folder / "topics"), **HERE)
    expected = dict(zip(classifier.classes_, classifier.predict_proba([text])[0], strict=True))
    assert [one.label for one in found] == sorted(expected, key=expected.__getitem__, reverse=True)
    assert {one.label: one.score for one in found} == pytest.approx(expected, abs=1e-5)
    assert len(ask("topics").text_classification(text, top_k=1)) == 1


def test_feature_extraction(ask, folder):
    text = "the cat sat on the mat ."
    found = np.array(ask("vectors").feature_extraction(text))
    expected = mw.Embedder(str(folder / "vectors"), **HERE).fit([text]).transform([text])
    assert np.abs(found.reshape(expected.shape) - expected).max() < 1e-5
    normalized = np.array(ask("vectors").feature_extraction(text, normalize=True))
    assert np.linalg.norm(normalized) == pytest.approx(1, abs=1e-5)


def test_sentence_similarity(ask, folder):
    first, others = "the cat sat", ["the cat sat", "dogs chase cats"]
    found = ask("vectors").sentence_similarity(first, others)
    vectors = mw.Embedder(str(folder / "vectors"), **HERE).fit(others).transform([first, *others])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert found == pytest.approx((vectors[1:] @ vectors[0]).tolist(), abs=1e-5)


def test_token_classification(ask):
    text = "ada lovelace met charles babbage in london ."
    found = ask("names").token_classification(text, aggregation_strategy="simple")
    for one in found:
        assert text[one.start : one.end] == one.word and 0 <= one.score <= 1 and one.entity_group in ("PER", "LOC")


def test_fill_mask(ask, folder):
    text = "the cat sat on the [MASK] ."
    found = ask("reader").fill_mask(text, top_k=4)
    expected = mw.FillMask(str(folder / "reader"), top_k=4, **HERE).fit([text]).predict([text])[0]
    assert len(found) == 4 and found[0].score >= found[-1].score
    assert found[0].sequence == expected
    assert "[MASK]" not in found[0].sequence
    chosen = ask("reader").fill_mask(text, targets=["cat", "mat"])
    assert {one.token_str.strip() for one in chosen} == {"cat", "mat"}


def test_question_answering(ask):
    context = "where does the river rise ? it rises in the mountains of france ."
    found = ask("answers").question_answering(question="where ?", context=context)
    one = found[0] if isinstance(found, list) else found
    assert context[one.start : one.end] == one.answer and 0 <= one.score <= 1


def test_translation(ask, folder):
    text = "the cat sat ."
    found = ask("translator").translation(text)
    expected = mw.Translator(str(folder / "translator"), **HERE).fit([text]).predict([text])[0]
    assert found.translation_text == expected


def test_text_generation(ask):
    assert isinstance(ask("writer").text_generation("the cat", max_new_tokens=4), str)


def test_text_generation_as_it_is_written(ask):
    whole = ask("writer").text_generation("the cat", max_new_tokens=12)
    assert "".join(ask("writer").text_generation("the cat", max_new_tokens=12, stream=True)) == whole


def test_errors_say_what_is_wrong(ask):
    from huggingface_hub.errors import HfHubHTTPError

    with pytest.raises(HfHubHTTPError) as found:
        ask("absent").feature_extraction("a")
    assert found.value.response.status_code == 404
    with pytest.raises(HfHubHTTPError) as found:
        ask("reader").fill_mask("no mask")
    assert found.value.response.status_code in (400, 422) and "[MASK]" in found.value.response.json()["error"]
