"""The client `openai` against the server."""

import numpy as np
import pytest

import maskwright as mw
from serve.server_process import running
from serve.small_models import write_models

openai = pytest.importorskip("openai", reason="the test extra installs openai")

pytestmark = pytest.mark.slow
TEXTS = ["the cat sat on the mat .", "dogs chase cats", "Ünïcödé — naïve café 🙂"]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def expected(folder):
    return mw.Embedder(str(folder / "vectors"), device="cpu", precision="fp32").fit(TEXTS).transform(TEXTS)


def vectors(response) -> np.ndarray:
    assert [one.index for one in response.data] == list(range(len(response.data)))
    return np.array([one.embedding for one in response.data], dtype=np.float32)


def test_embeddings_are_those_of_the_library_in_both_encodings(client, expected):
    by_default = client.embeddings.create(model="vectors", input=TEXTS)  # asks for base64
    as_floats = client.embeddings.create(model="vectors", input=TEXTS, encoding_format="float")
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    for found in (vectors(by_default), vectors(as_floats)):
        assert np.abs(found - unit).max() < 1e-5 or np.abs(found - expected).max() < 1e-5
    assert np.array_equal(vectors(by_default), vectors(as_floats))
    assert {"vectors", "writer"} <= {one.id for one in client.models.list()}
    assert by_default.model == "vectors" and by_default.usage.prompt_tokens == by_default.usage.total_tokens > 0


def test_completions_equal_those_of_the_library(client, folder):
    asked = {"model": "writer", "prompt": "the cat", "max_tokens": 6, "temperature": 0}
    found = client.completions.create(**asked)
    generated = mw.Generator(str(folder / "writer"), device="cpu", precision="fp32", max_new_tokens=6, greedy=True)
    assert found.choices[0].text == generated.fit(["the cat"]).predict(["the cat"])[0].removeprefix("the cat")
    assert found.choices[0].finish_reason in ("length", "stop") and found.usage.completion_tokens <= 6
    parts = list(client.completions.create(**asked, stream=True))
    assert "".join(part.choices[0].text for part in parts if part.choices) == found.choices[0].text
    assert parts[-1].choices[0].finish_reason == found.choices[0].finish_reason


@pytest.mark.parametrize(
    ("asked", "error", "word"),
    [
        ({"model": "absent", "input": "a"}, openai.NotFoundError, "absent"),
        ({"model": "vectors", "input": []}, openai.BadRequestError, "input"),
        ({"model": "vectors", "input": [101, 102]}, openai.BadRequestError, "check_embedding_ctx_length"),
        ({"model": "vectors", "input": "a", "dimensions": 4096}, openai.BadRequestError, "dimensions"),
        ({"model": "vectors", "input": ["a"] * 2000}, openai.APIStatusError, "1,024"),
    ],
)
def test_errors_are_the_exceptions_of_the_client(client, asked, error, word):
    with pytest.raises(error) as found:
        client.embeddings.create(**asked, encoding_format="float")
    assert word in found.value.message
    assert found.value.body["message"]  # type: ignore[index]


def test_keys(tmp_path):
    with running(*write_models(tmp_path, "vectors"), MASKWRIGHT_API_KEY="right") as server:
        url = f"{server.url}/v1"
        found = openai.OpenAI(base_url=url, api_key="right", max_retries=0).embeddings.create(
            model="vectors", input="a"
        )
        assert len(found.data) == 1
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).embeddings.create(model="vectors", input="a")
        assert "right" not in server.text() and "wrong" not in server.text()
