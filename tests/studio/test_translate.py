"""Responses for the page Translate: the numbers of Python, and errors in one sentence."""

import numpy as np
import pytest

from maskwright.api import open_translator
from maskwright.studio.views.answers import MOST_WORDS
from maskwright.tasks.translation import alignments
from studio.models import write_autoencoder, write_classifier, write_recurrent_translator, write_translator
from studio.serving import Served, serving

REQUEST = {"text": "the cat sat .", "translation": "dogs chase the unbelievably long cat ."}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    models = [
        write_translator(folder / "transformer", num_decoder_layers=3),
        write_recurrent_translator(folder / "recurrent"),
        write_autoencoder(folder / "vector"),
        write_classifier(folder / "classes"),
    ]
    with serving(tmp_path_factory.mktemp("runs"), *models) as found:
        yield found


def source(served: Served, name: str) -> str:
    return served.studio.models[name].source


@pytest.mark.parametrize("name", ["transformer", "recurrent"])
def test_weights_are_those_of_python(served, name):
    found = served.post("/api/translate/alignment", {"model": name, **REQUEST}).json()
    translator = open_translator(source(served, name), device="cpu", precision="fp32")
    pair = REQUEST["text"], REQUEST["translation"]
    (own,) = alignments(translator.model, translator.task, [pair], translator.max_length)
    assert found["read"] == list(own.source) and found["written"] == list(own.target)
    np.testing.assert_array_equal(np.array(found["weights"]), own.weights)
    assert own.weights.std() > 1e-3, "all weights are equal: the test would show nothing"
    assert found["most"] is None


def test_a_long_text_is_cut_for_the_picture_alone(served):
    long = {"text": "the cat " * 30, "translation": "rain . " * (MOST_WORDS // 2 + 10)}
    found = served.post("/api/translate/alignment", {"model": "recurrent", **long}).json()
    assert len(found["written"]) == len(found["weights"]) == found["most"] == MOST_WORDS
    np.testing.assert_allclose(np.sum(found["weights"], axis=1), 1, rtol=1e-6)


def test_a_model_without_attention_is_reported(served):
    answers = {
        name: served.post("/api/translate", {"model": name, "texts": ["the cat"]}).json()["unaligned"]
        for name in ("transformer", "recurrent", "vector")
    }
    assert answers["transformer"] is None and answers["recurrent"] is None
    assert "no attention" in answers["vector"]
    refused = served.post("/api/translate/alignment", {"model": "vector", **REQUEST})
    assert refused.status == 422 and refused.json()["error"] == answers["vector"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "classes"}, "does not do this"),
        ({"to": "fr"}, "without language tags"),
        ({"translation": 3}, "valid string"),
        ({"more": "x"}, "not permitted"),
    ],
)
def test_what_cannot_be_aligned_is_refused_in_a_sentence(served, changes, words):
    answer = served.post("/api/translate/alignment", {"model": "transformer", **REQUEST, **changes})
    assert answer.status == 422 and words in answer.json()["error"]
