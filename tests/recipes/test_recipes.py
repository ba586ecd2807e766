"""The recipes at a tiny size: each runs, and resumes, and its numbers are those that it says."""

from __future__ import annotations

import json
import lzma
import random
from argparse import Namespace
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch

from conventions.sources import REPOSITORY
from maskwright.core.config import to_dict
from maskwright.core.errors import InputError
from maskwright.hub.folders import load_model
from maskwright.train.run import open_run
from recipe_runs import run


def speech_text(speeches: int, seed: int) -> str:
    """Speeches of two speakers."""
    draws = random.Random(seed)
    names, words = ("KING", "Fool"), ("the", "crown", "is", "a", "heavy", "HAT", "sir")
    said = (
        f"{draws.choice(names)}:\n" + "\n".join(" ".join(draws.choices(words, k=5)) for _ in range(draws.randint(1, 3)))
        for _ in range(speeches)
    )
    return "\n\n".join(said) + "\n"


@pytest.mark.slow
def test_cells_are_searched_in_a_trained_and_an_untrained_network(tmp_path: Path):
    data = tmp_path / "shared/char_lm"
    data.mkdir(parents=True)
    (data / "tinyshakespeare_train.txt").write_text(speech_text(300, 1), encoding="utf-8")
    (data / "tinyshakespeare_dev.txt").write_text(speech_text(40, 2), encoding="utf-8")
    how = [
        "--minutes",
        0.01,
        "--hidden",
        16,
        "--streams",
        4,
        "--stretch",
        20,
        "-o",
        tmp_path / "out",
        "--device",
        "cpu",
    ]
    tables = []
    for _ in range(2):  # the second time it is all there
        found = run("char_lm.py", *how, MASKWRIGHT_DATA=str(tmp_path / "shared"))
        assert found.returncode == 0, found.stderr
        assert "temperature 0.8\nKING" in found.stdout and "untrained" in found.stdout
        tables.append(json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8")))
    assert tables[0] == tables[1]
    (only,) = tables[0]["runs"]
    assert {one["rule"] for one in only["cells"]} == {"line", "capitals", "heading"}  # nobody quotes
    assert only["cells"] != only["untrained"] and 1 < only["perplexity"] < 261
    assert "Units by rule" in (tmp_path / "out/cells.html").read_text(encoding="utf-8")


def test_code_for_the_search_is_not_trained_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    recipe = import_module("char_lm")
    library = tmp_path / "library"
    (library / "json").mkdir(parents=True)
    for number in range(60):
        text = f"# module {number}\nif ready({number}):\n    pass\n"
        (library / ("json" if number % 2 else "") / f"m{number}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(recipe.sysconfig, "get_path", lambda name: str(library))
    (tmp_path / "code").mkdir()
    recipe.write_code(tmp_path / "code")
    parts = [(tmp_path / f"code/{name}.txt").read_text(encoding="utf-8") for name in ("train", "dev")]
    train, dev = ({line for line in text.splitlines() if line.startswith("#")} for text in parts)
    assert len(train) + len(dev) == 60 and len(dev) == 3 and not train & dev


@pytest.mark.slow
def test_both_sides_learn_from_the_same_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    monkeypatch.setenv("MASKWRIGHT_DATA", str(tmp_path))
    recipe = import_module("gpt2")
    (tmp_path / "char_lm").mkdir()
    for part, speeches in (("train", 200), ("dev", 20)):
        text = speech_text(speeches, speeches)
        (tmp_path / f"char_lm/tinyshakespeare_{part}.txt").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    sizes = ["--steps", "6", "--hidden", "24", "--layers", "1", "--max-length", "32", "--batch-tokens", "256"]
    monkeypatch.setattr("sys.argv", ["", "characters", *sizes, "-o", str(out)])
    for _ in range(2):  # the second time everything is there
        recipe.main()
    table = json.loads((out / "table.json").read_text(encoding="utf-8"))
    (ours,), (theirs,) = table["maskwright"], table["transformers"]
    assert ours["parameters"] == theirs["parameters"] and 1 < theirs["plays perplexity"] < 300
    assert ours["plays loss"] != theirs["plays loss"]

    small = recipe.replace(recipe.RECIPES["characters"], dropout=0.0, hidden=24, layers=1, max_length=32)
    small = recipe.replace(small, batch_tokens=256, steps=2)
    chosen = Namespace(device="cpu", precision="fp32")
    config = recipe.config_of(small, out / "data", out / "again", 0, chosen).resolved("cpu", "fp32")
    with open_run(config.output, to_dict(config)) as run:
        setup = recipe.TheirSetup(config, run, torch.device("cpu"))
        job = setup.job()
        (batch,) = job.micro_batches(0)
        same, _ = load_model(out / "transformers-0/theirs")  # the weights of one in both networks
        job.model = type(job.model).from_pretrained(out / "transformers-0/theirs").eval()
        with torch.no_grad():
            found = job.outcome(batch)
            wanted = setup.objective.outcome(same.eval(), batch)
    assert found.counts == wanted.counts and found.counts["clm"] > 200
    assert float(found.losses["clm"]) == pytest.approx(float(wanted.losses["clm"]), rel=1e-5)


WORDS = {"ein": "a", "hund": "dog", "mann": "man", "frau": "woman", "sieht": "sees", "kennt": "knows", "den": "the"}


def captions(folder: Path, rows: int, seed: int) -> str:
    """Rows of the two languages as the data set has them."""
    draws = random.Random(seed)
    lines = ["de\ten"]
    for _ in range(rows):
        words = [draws.choice(list(WORDS)) for _ in range(draws.randint(2, 6))]
        lines.append(f"{' '.join(words)}\t{' '.join(WORDS[word] for word in words)}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_with_and_without_attention_are_compared_at_equal_size(tmp_path: Path):
    data = tmp_path / "shared/multi30k"
    data.mkdir(parents=True)
    (data / "train.tsv.xz").write_bytes(lzma.compress(captions(data, 1300, 1).encode()))
    (data / "dev.tsv").write_text(captions(data, 60, 2), encoding="utf-8")
    sizes = ["--epochs", 1, "--rows", 200, "--hidden", 32, "--vocab-size", 300, "--seeds", 1, "--batch-tokens", 600]
    how = [*sizes, "--score", "mlp,dot", "--device", "cpu", "-o", tmp_path / "out"]
    for _ in range(2):  # the second time everything is there
        found = run("seq2seq.py", *how, MASKWRIGHT_DATA=str(tmp_path / "shared"))
        assert found.returncode == 0, found.stderr
    assert "mlp attention" in found.stdout and "no attention" in found.stdout
    table = json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8"))
    assert list(table["runs"]) == ["mlp attention", "dot attention", "no attention"]
    one, _, other = (runs[0]["parameters"] for runs in table["runs"].values())
    assert abs(one - other) / one < 0.06  # a width of two more is much in a network so small
    logs = [tmp_path / f"out/{name}-0/seed-0/metrics.jsonl" for name in ("attention", "attention-dot", "plain")]
    assert len({log.read_text(encoding="utf-8").count("\n") for log in logs}) == 1
    for name in ("lengths.html", "alignments.html", "alignments.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 1000


@pytest.mark.slow
def test_each_is_compared_with_the_unigram_model_on_the_tokens_that_it_is_scored_on(tmp_path: Path):
    draws = random.Random(0)
    words = {"red": "fox", "old": "dog", "big": "cat", "shy": "owl"}  # the second word follows from the first
    lines = (" ".join(f"{first} {words[first]}" for first in draws.choices(list(words), k=8)) for _ in range(600))
    (tmp_path / "text.txt").write_text("\n\n".join(lines), encoding="utf-8")
    sizes = ["--steps", 60, "--batch-tokens", 256, "--max-length", 24, "--hidden", 32, "--vocab-size", 60, "--lr", 5e-3]
    how = [tmp_path / "text.txt", *sizes, "--text", "red fox old dog shy owl", "-o", tmp_path / "out"]
    found = run("three_families.py", *how)
    assert found.returncode == 0, found.stderr
    table = json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8"))
    for name, objective in (("encoder", "mlm"), ("decoder", "clm"), ("encoder-decoder", "denoise")):
        (one,) = table[name]
        scores = json.loads((tmp_path / f"out/{name}-0/result.json").read_text(encoding="utf-8"))["scores"]
        assert one["scored_loss"] == scores[f"{objective}_scored_loss"]  # not the loss that also counts special tokens
        assert abs(one["gain"] - (one["baseline_loss"] - one["scored_loss"])) < 1e-9
    # Only the sentinels and the end of the text are easy for the encoder-decoder, and they are not scored.
    assert scores["denoise_loss"] < one["scored_loss"]
    assert table["decoder"][0]["gain"] > 0.2  # every second word follows from the one before
    assert found.stdout.count("->") == 3 and "| most common token |" in found.stdout


@pytest.fixture(autouse=True)
def recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipes can be imported."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))


@pytest.mark.slow
def test_a_finished_model_is_kept_until_its_settings_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import studio_models

    wanted = studio_models.RECIPES["translator"]

    def few(draw: random.Random) -> dict[str, str]:
        return {file: "".join(text.splitlines(True)[:40]) for file, text in wanted.texts(draw).items()}

    def train(epochs: int) -> int:
        config = lambda texts, folder: replace(wanted.config(texts, folder), epochs=epochs)  # noqa: E731
        monkeypatch.setitem(studio_models.RECIPES, "translator", replace(wanted, texts=few, config=config))
        studio_models.train.cache_clear()
        model = studio_models.train(tmp_path, "translator")
        assert (model / "config.json").exists()
        return (model.parent / "result.json").stat().st_mtime_ns

    first = train(1)
    assert train(1) == first
    assert train(2) != first


def fill(folder: Path) -> None:
    """Write one file."""
    (folder / "rows.txt").write_text("a\n", encoding="utf-8")


def test_other_options_are_named(tmp_path: Path):
    from common import made_once

    made_once(tmp_path / "data", {"rows": 3, "vocab_size": 80, "source": "de"}, fill)
    with pytest.raises(InputError, match="another --rows and another --vocab-size: pass another -o"):
        made_once(tmp_path / "data", {"rows": 4, "vocab_size": 90, "source": "de"}, fill)


def test_what_fails_half_way_leaves_nothing(tmp_path: Path):
    from common import made_once

    def fail(folder: Path) -> None:
        fill(folder)
        raise InputError("no data")

    with pytest.raises(InputError, match="no data"):
        made_once(tmp_path / "data", {"rows": 3}, fail)
    assert not (tmp_path / "data").exists()
