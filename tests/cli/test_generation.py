"""Generation commands: a trained model continues, suggests, is scored, and rejects invalid options."""

import json
from pathlib import Path

import pytest

from train.runs import corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run_once) -> Path:
    where = tmp_path_factory.mktemp("generation")
    text, tok = corpus(where), where / "tok"
    run_once("tokenizer", "train", "--kind", "byte-bpe", "--vocab-size", 300, "-o", tok, text, "--quiet")
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    network = [word for name, value in sizes.items() for word in ("--set", f"{name}={value}")]
    network += ["--set", "max_position_embeddings=32", "--objective", "clm", "--tokenizer", tok]
    speed = ["--steps", 30, "--batch-tokens", 256, "--max-length", 32, "--lr", 3e-3, "--precision", "fp32"]
    run_once("pretrain", "--preset", "gpt2", *network, *speed, "-o", where / "run", text, "--quiet")
    return where


def test_generate_shows_the_prompt_and_what_follows_and_repeats_with_a_seed(folder: Path, maskwright):
    words = ["generate", folder / "run/model", "the old", "--top-k", 20, "--max-new-tokens", 40, "--seed", 3, "--quiet"]
    one, again = maskwright(*words), maskwright(*words)
    assert one == again and one[0] == 0 and one[1].startswith("the old")
    _, out, _ = maskwright(*words, "--json")
    found = json.loads(out)["continuations"]
    assert one[1] == f"the old{found[0]['text']}\n"
    assert set(found[0]) == {"prompt", "text", "num_tokens", "score", "ended_by"}
    _, out, _ = maskwright(*words, "--json", "--results", 3)
    assert len(json.loads(out)["continuations"]) == 3


def test_generate_suggests_and_evaluate_gives_perplexity_with_a_stride(folder: Path, as_json, maskwright):
    _, out, _ = maskwright("generate", folder / "run/model", "the old", "--suggest", "-k", 4, "--json")
    assert len({one["text"] for one in json.loads(out)["suggestions"]}) == 4
    code, out, _ = maskwright("generate", folder / "run/model", "the old", "--suggest")
    assert code == 0 and "the old" in out
    found = as_json("evaluate", folder / "run/model", folder / "corpus.txt", "--stride", 16)
    metrics = found["metrics"]
    assert {"perplexity", "word_perplexity", "bits_per_byte", "clm_accuracy"} == metrics.keys()
    assert 1 < metrics["perplexity"] < 300
    _, out, _ = maskwright("evaluate", folder / "run/model", folder / "corpus.txt", "--stride", 16)
    parts = f"{found['tokens']:,} tokens of {folder / 'corpus.txt'} predicted, in {found['examples']:,} sequences"
    assert out.startswith(parts)


@pytest.mark.parametrize(
    "words, said",
    [
        (["generate", "MODEL"], "Pass either prompts"),
        (["generate", "MODEL", "the", "--temperature", 0], "--greedy"),
        (["evaluate", "MODEL", "CORPUS", "--stride", 99], "1 to 32"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence_with_exit_code_2(folder: Path, words, said: str, refused):
    paths = {"MODEL": folder / "run/model", "CORPUS": folder / "corpus.txt"}
    refused(said, *[paths.get(word, word) for word in words])
