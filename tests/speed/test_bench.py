"""The short bench: contenders as processes, what they are asked, and one whole contest on a tiny model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from inference.samples import tokenizer
from maskwright.inference.engine.choice import choose
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.speed.backend import (
    BackendError,
    BackendProcess,
    centered_cosines,
)
from maskwright.speed.bench import (
    BenchSettings,
    available_precisions,
    bench,
    text_of_length,
)

CHILD = """
from maskwright.speed.backend import answer
print("a library greets")
def fail():
    raise ValueError("no such model")
answer({"add": lambda a, b: a + b, "fail": fail})
"""


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory) -> Path:
    own = tokenizer()
    config = preset("bert-tiny", vocab_size=own.vocab_size, hidden_size=32, num_attention_heads=2,
                    intermediate_size=48, max_position_embeddings=64)  # fmt: skip
    model = build(config)
    model.tokenizer = own
    folder = tmp_path_factory.mktemp("bench") / "model"
    model.save(folder)
    return folder


def test_a_child_answers_and_what_libraries_print_is_no_answer():
    child = BackendProcess("one", [sys.executable, "-c", CHILD])
    try:
        assert child.ask("add", a=2, b=3) == 5
        with pytest.raises(BackendError, match="no such model"):
            child.ask("fail")
        assert child.ask("add", a="x", b="y") == "xy"  # a failed request ends nothing
    finally:
        child.close()


def test_a_child_that_dies_is_named_with_its_last_words():
    child = BackendProcess("two", [sys.executable, "-c", "import sys; sys.exit('no runtime here')"])
    with pytest.raises(BackendError, match="two ended: exit code 1; no runtime here"):
        child.ask("load")
    child.close()


def test_centered_cosine_similarities_detect_mixed_up_rows():
    rng = np.random.default_rng(0)
    assert centered_cosines(np.ones((3, 4)), np.ones((3, 4))) == pytest.approx(1)  # equal texts
    vectors = 10 + rng.normal(size=(20, 8))  # a large common part
    assert centered_cosines(vectors, vectors) == pytest.approx(1)
    assert centered_cosines(vectors[::-1], vectors).mean() < 0.5
    lengths = np.linalg.norm(vectors, axis=1)
    assert (
        (vectors[::-1] * vectors).sum(1) / lengths / lengths[::-1]
    ).min() > 0.9  # cosine similarities without centering do not detect this


@pytest.mark.parametrize("length", [3, 8, 32])
def test_a_text_has_exactly_the_requested_tokens(length: int):
    own, texts = tokenizer(), ["the cat sat on the mat and looked at a dog"] * 20
    assert len(own(text_of_length(own, texts, length)).ids) == length


def test_a_processor_offers_no_fp16():
    import torch

    found = available_precisions(torch.device("cpu"))
    assert found[0] == "fp32" and "fp16" not in found
    assert ("int8" in found) == (choose("int8", torch.device("cpu")).products == "int8")


@pytest.mark.slow
def test_a_contest_of_number_formats(model_folder: Path):
    result = bench(
        BenchSettings(str(model_folder), ["the cat sat on the mat"] * 40, ("fp32", "bf16"), seconds=1.0, peer=False)
    )
    first, second = result.rows
    assert (first.name, first.precision, second.precision) == ("maskwright", "fp32", "bf16")
    assert first.cosine == pytest.approx(1) and second.tokens_per_second > 0 and first.ratio_to_first == 1
    assert first.latency[32][0] <= first.latency[32][1] and 128 not in first.latency  # longer than the model takes
    assert first.memory > 1e7 and first.share_of_ceiling > 0
    assert result.missing == {"transformers": "disabled"}
    json.dumps(result.to_json())
    assert result.mean_tokens * first.texts_per_second == pytest.approx(first.tokens_per_second, rel=0.01)


@pytest.mark.slow
def test_transformers_stands_beside_it_with_the_same_vectors(model_folder: Path):
    pytest.importorskip("transformers")
    texts = ["the cat sat on the mat", "a dog", "dogs and cats looked at the mat"] * 15
    result = bench(BenchSettings(str(model_folder), texts, ("fp32",), seconds=1.0))
    assert [row.name for row in result.rows] == ["maskwright", "transformers"]
    assert result.rows[1].cosine == pytest.approx(1, abs=1e-4)
