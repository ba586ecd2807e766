"""The real MiniLM: its vectors are those of transformers with the pooling that its folder declares."""

import numpy as np
import pytest
import torch

from maskwright.api import open_embedder
from minilm import minilm_folder

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "",
    "Two men pushed carts through the woods, past the café, and then — much later — back again.",
]


@pytest.fixture(scope="module")
def reference() -> np.ndarray:
    from transformers import AutoModel, AutoTokenizer

    folder = minilm_folder()
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    inputs = tokenizer(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None].float()
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1).numpy()


def test_vectors_equal_those_of_transformers(reference):
    encoder = open_embedder(minilm_folder(), precision="fp32", device="cpu")
    assert (encoder.pooling, encoder.normalize, encoder.max_length) == ("mean", True, 256)
    assert np.abs(encoder.vectors(TEXTS) - reference).max() < 1e-5


def test_bfloat16_vectors_point_the_same_way(reference):
    vectors = open_embedder(minilm_folder(), precision="bf16", device="cpu").vectors(TEXTS)
    assert ((vectors * reference).sum(axis=1) > 0.999).all()
