"""The short bench: contenders as processes, what they are asked, and one whole contest on a tiny model."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from inference.samples import tokenizer
from maskwright.core.progress import set_quiet
from maskwright.inference.engine.choice import choose
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.speed.backend import BackendError, BackendProcess
from maskwright.speed.bench import BenchSettings, available_precisions, bench, text_of_length
from maskwright.speed.workload import forward_flops

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


FLAGS = "--device cpu --precision fp32 --sizes tiny --minutes 30 --limit 900 --seconds 0.05 --count 60 --tokens 256"


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks" / "on_gpu"))
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    return importlib.import_module("gpu")


@pytest.mark.slow
def test_every_part_is_measured_from_end_to_end(rooms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ours alone, in one process; the network's operations are counted again."""
    flags = ["--output", str(tmp_path), "--threads", "1", "--quiet", "--only", "maskwright", *FLAGS.split()]
    monkeypatch.setattr(sys, "argv", ["gpu.py", *flags])
    try:
        rooms.main()
    finally:
        set_quiet(False)
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert not found["cut"] and not [one for one in found["failed"] if one["name"] != "transformers"]
    parts = {(one["part"], one["length"]) for one in found["measured"]}
    assert parts == {("pretrain", 128), ("pretrain", 512), ("finetune", 0), ("embed", 0)}
    config = preset("bert-tiny", vocab_size=2000)
    for one in found["measured"]:
        assert one["tokens_per_second"] > 0
        assert one["flops_per_second"] == pytest.approx(one["tokens_per_second"] * one["flops_per_token"])
        if one["part"] == "pretrain":  # three passes over at most `length` tokens, a fifth of them scored at most
            least, most = (3 * forward_flops(config, [length]) / length for length in (8, one["length"]))
            head = 3 * 2 * (128 * 128 + 128 * 2000)
            assert least < one["flops_per_token"] < most + head / 5
        if one["part"] == "embed":
            assert forward_flops(config, [3]) / 3 < one["flops_per_token"] < forward_flops(config, [512]) / 512
    page = (tmp_path / "gpu.md").read_text()
    assert "## pretrain" in page and "## embed" in page
