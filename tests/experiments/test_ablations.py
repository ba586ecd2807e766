"""`experiment ablations` at a size of seconds: runs that are kept, one table, one plot, a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maskwright.experiments.ablations import plan, read_settings
from train.runs import corpus

SETTINGS = """
corpus = ["corpus.txt"]
vocab_size = 80
score_at = [2, 4]
[pretraining]
preset = "bert-tiny"
objective = "mlm"
steps = 4
batch_tokens = 128
max_length = 16
lr = 1e-3
warmup = 2
schedule = "constant"
log_every = 1
checkpoint_every = 2
holdout = 0.15
precision = "fp32"
[pretraining.model]
num_hidden_layers = 1
hidden_size = 16
num_attention_heads = 2
intermediate_size = 16
pooling = "mean"
classifier_act = "tanh"
[task]
train = "train.conll"
dev = "train.conll"
columns = { token = "0", tag = "1" }
train_rows = 4
dev_rows = 2
epochs = 1
batch_size = 8
lr = 1e-3
[runs."mlm"]
[runs."left to right"]
objective = "clm"
[runs."left to right+BiLSTM"]
objective = "clm"
top = { top_layers = 1 }
[runs."mlm+nsp"]
objective = "mlm+nsp"
[comparisons]
objective = ["mlm", "left to right", "left to right+BiLSTM"]
"""


@pytest.fixture
def ablations(maskwright, monkeypatch: pytest.MonkeyPatch):
    """Runs the command on the texts of a folder; returns what it printed, on both streams."""

    def run(folder: Path, *words: str, code: int = 0, data: bool = True) -> str:
        monkeypatch.setenv("MASKWRIGHT_DATA", str(folder)) if data else monkeypatch.delenv("MASKWRIGHT_DATA", False)
        settings = ("-o", folder / "out", "--settings", folder / "settings.toml")
        found, out, err = maskwright("experiment", "ablations", *settings, *words)
        assert found == code, err
        return out + err

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ablations")
    corpus(path, documents=90)
    sentences = ["the\tDET\ncat\tNOUN\nsat\tVERB\n", "a\tDET\nship\tNOUN\n"] * 3
    (path / "train.conll").write_text("\n".join(sentences), encoding="utf-8")
    (path / "settings.toml").write_text(SETTINGS, encoding="utf-8")
    return path


@pytest.mark.slow
def test_it_goes_on_seed_by_seed_and_keeps_what_is_there(ablations, folder: Path):
    said = ablations(folder, "--seeds", "1")
    assert "Part 1 of 4: seed 0, mlm" in said and "report.html" in said
    first = folder / "out/seed-0/mlm/result.json"
    made = first.stat().st_mtime_ns
    ablations(folder, "--seeds", "2")
    assert first.stat().st_mtime_ns == made, "a finished part was done again"
    rows = (folder / "train.conll").read_text(encoding="utf-8")
    (folder / "train.conll").write_text(rows.replace("ship", "boat"), encoding="utf-8")
    said = " ".join(ablations(folder, "--seeds", "2", code=2).split())
    assert "train.conll has changed" in said and "another -o folder" in said and "--restart" not in said
    (folder / "train.conll").write_text(rows, encoding="utf-8")
    results = json.loads((folder / "out/results.json").read_text())
    assert {name: [one["seed"] for one in seeds] for name, seeds in results["runs"].items()} == {
        "mlm": [0, 1],
        "mlm+nsp": [0, 1],
        "left to right": [0, 1],
        "left to right+BiLSTM": [0, 1],
    }
    plain, lifted = (results["runs"][name][0] for name in ("left to right", "left to right+BiLSTM"))
    assert plain["guessed"] == lifted["guessed"], "both are pre-trained alike"
    assert list(results["runs"]["mlm"][0]["accuracy"]) == ["0", "2", "4"]
    table = (folder / "out/table.md").read_text()
    assert table.count("| objective |") == 3
    assert "no result" in table, "four steps cannot beat the most common token"
    assert "ross" in table
    assert "accuracy after fine-tuning" in (folder / "out/report.html").read_text()


@pytest.mark.slow
def test_the_plan_is_said_and_other_settings_are_refused(ablations, folder: Path):
    said = ablations(folder, "--dry-run", "--seeds", "2")
    assert len(said.splitlines()) == 8 and "seed 1, left to right: bert-tiny, clm, 4 steps, 512 tokens" in said
    (folder / "out").mkdir(exist_ok=True)
    (folder / "out/settings.json").write_text(json.dumps({"vocab_size": 5}))
    assert "other settings" in ablations(folder, code=2)


def test_your_own_files_replace_those_of_the_settings(ablations, folder: Path):
    said = " ".join(ablations(folder, "--dry-run", data=False, code=2).split())
    assert "No corpus file: pass --corpus, or --data (or MASKWRIGHT_DATA) as the folder with corpus.txt" in said
    own = ("--corpus", str(folder / "corpus.txt"), "--train", str(folder / "train.conll"))
    said = ablations(folder, *own, "--dev", str(folder / "nothing.conll"), "--dry-run", data=False, code=2)
    assert "nothing.conll does not exist: pass --dev" in " ".join(said.split())
    said = ablations(folder, *own, "--dev", str(folder / "train.conll"), "--dry-run", "--seeds", "1", data=False)
    assert len(said.splitlines()) == 4


def test_the_shipped_settings_are_part_of_the_package():
    settings = read_settings()
    assert set(settings["comparisons"]) == {"objective", "mask rate", "size"}
    assert all(name in settings["runs"] for names in settings["comparisons"].values() for name in names)
    assert len(plan(settings, Path("nowhere"), 3)) == 3 * len(settings["runs"])
