"""LangChain and LlamaIndex against the server (the extra `clients`)."""

import numpy as np
import pytest

import maskwright as mw

pytestmark = pytest.mark.slow
TEXTS = ["the cat sat on the mat .", "dogs chase cats", "rain"]


@pytest.fixture(scope="module")
def expected(folder):
    vectors = mw.Embedder(str(folder / "vectors"), device="cpu", precision="fp32").fit(TEXTS).transform(TEXTS)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def assert_equal(found, expected):
    vectors = np.array(found)
    assert np.abs(vectors / np.linalg.norm(vectors, axis=1, keepdims=True) - expected).max() < 1e-5


def test_langchain(server, expected):
    module = pytest.importorskip("langchain_openai", reason="the extra 'clients' is not installed")
    embeddings = module.OpenAIEmbeddings(
        model="vectors", base_url=f"{server.url}/v1", api_key="unused", check_embedding_ctx_length=False
    )
    assert_equal(embeddings.embed_documents(TEXTS), expected)
    assert_equal([embeddings.embed_query(TEXTS[0])], expected[:1])


def test_llama_index(server, expected):
    module = pytest.importorskip(
        "llama_index.embeddings.text_embeddings_inference", reason="the extra 'clients' is not installed"
    )
    embeddings = module.TextEmbeddingsInference(model_name="vectors", base_url=server.url)
    assert_equal(embeddings.get_text_embedding_batch(TEXTS), expected)
    assert_equal([embeddings.get_query_embedding(TEXTS[0])], expected[:1])


@pytest.mark.compatibility(
    "llama-index-embeddings-text-embeddings-inference 0.6.0",
    theirs="the status of a reply is not read: a refused text raises KeyError, a batch an error of validation",
    ours="the status and the sentence are in the reply; the page on clients reports where to look",
)
def test_llama_index_hides_a_refusal(server):
    module = pytest.importorskip(
        "llama_index.embeddings.text_embeddings_inference", reason="the extra 'clients' is not installed"
    )
    embeddings = module.TextEmbeddingsInference(model_name="absent", base_url=f"{server.url}/models/absent")
    with pytest.raises(KeyError):
        embeddings.get_query_embedding("a")
    with pytest.raises(ValueError, match="EmbeddingEndEvent"):
        embeddings.get_text_embedding_batch(["a", "b"])
