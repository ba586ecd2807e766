"""JoeyNMT on the data of recipes/seq2seq.py: the same tokens, width and number of steps (Kreutzer et al. 2019).

    MASKWRIGHT_DATA=path python recipes/seq2seq.py -o runs/seq2seq
    python recipes/seq2seq_joeynmt.py runs/seq2seq --python joey/bin/python

--python: the Python of an environment with JoeyNMT 2.3 (`pip install joeynmt`), which needs older versions of packages
than Maskwright. It trains a bidirectional LSTM with MLP attention and input feeding in float32 for as many steps as the
runs of the folder, with the same number of tokens in each step, keeps the weights with the best perplexity on the same
held-out captions, and translates the official dev split with beam size five. Its learning rate is the same, with its
own schedule. Prints its BLEU and that of the folder; joeynmt.json has the numbers. Hours on a CPU.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

from figures import spread
from running import run_main

from maskwright.core import storage
from maskwright.core.config import read_toml
from maskwright.core.errors import InputError
from maskwright.tasks.translation import corpus_scores
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.run import RunFolder

OURS = "attention-0"  # the run that gives language, steps, sizes and rates
COUNT = """import sys, torch
state = torch.load(sys.argv[1], map_location="cpu")["model_state"]
print(sum({one.data_ptr(): one.numel() for one in state.values()}.values()))  # tied weights once
"""


def main() -> None:
    """Train JoeyNMT, score it, and print both."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, help="finished runs of recipes/seq2seq.py")
    options.add_argument("--python", required=True, help="Python of an environment with JoeyNMT")
    options.add_argument("--seeds", type=int, default=3)
    chosen = options.parse_args()
    folder: Path = chosen.folder.absolute()
    if not (folder / "table.json").is_file():
        raise InputError(f"{folder} has no table.json: run recipes/seq2seq.py -o {folder} first.")
    facts = facts_of(folder)
    tokenizer = Tokenizer.load(folder / "data/tokenizer")
    write_tokens(folder, facts, tokenizer)
    runs = []
    for seed in range(chosen.seeds):
        output = folder / f"joeynmt-{seed}"
        config = folder / f"joeynmt-{seed}.yaml"
        storage.write_json(config, settings(folder, facts, output, seed))  # JSON is YAML
        if not (folder / f"joeynmt-{seed}.test").is_file():
            for words in (["train", str(config), "--skip-test"], ["test", str(config), "-o", str(output)]):
                run_theirs(chosen.python, "-m", "joeynmt", *words)
        written = (folder / f"joeynmt-{seed}.test").read_text(encoding="utf-8").splitlines()
        wanted = (folder / "data/dev.en.txt").read_text(encoding="utf-8").splitlines()
        scores, _ = corpus_scores([text_of(line, tokenizer) for line in written], wanted)
        count = int(run_theirs(chosen.python, "-c", COUNT, str(output / "best.ckpt")))
        runs.append({"seed": seed, "parameters": count, **scores})
    storage.write_json(folder / "joeynmt.json", {"runs": runs})
    for name, found in {**storage.read_json(folder / "table.json")["runs"], "JoeyNMT": runs}.items():
        print(f"{name:<20}{found[0]['parameters']:>12,} parameters   BLEU {spread([run['bleu'] for run in found])}")


def run_theirs(*command: str) -> str:
    """Run a program of JoeyNMT's environment; returns what it prints. Raises InputError where it fails."""
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(f"'{' '.join(command[:3])}' failed: does {command[0]} have JoeyNMT 2.3? ({error})") from error


def facts_of(folder: Path) -> dict[str, Any]:
    """Language, steps, sizes and rates of the run with attention."""
    recipe = read_toml(folder / OURS / "config.toml")
    steps = [int(record["step"]) for record in RunFolder(folder / OURS / "seed-0", {}).records()]
    return {
        "source": Path(recipe["train"]).name.split(".")[1],
        "steps": max(steps),
        "log_every": max(max(steps) // recipe["epochs"] // 2, 1),  # a validation per epoch
        "hidden": recipe["network"]["hidden_size"],
        "layers": recipe["network"]["num_hidden_layers"],
        **{name: recipe[name] for name in ("batch_tokens", "lr", "max_length", "epochs")},
    }


def write_tokens(folder: Path, facts: dict[str, Any], tokenizer: Tokenizer) -> None:
    """The same subword tokens as words that are separated by spaces, and the vocabulary."""
    special = set(tokenizer.special_ids)
    words = [str(tokenizer.id_to_token(number)) for number in range(tokenizer.vocab_size) if number not in special]
    storage.write_text(folder / "joeynmt-data/vocabulary.txt", "".join(f"{word}\n" for word in words))
    for part in ("train", "held", "dev"):
        for language in (facts["source"], "en"):
            lines = (folder / f"data/{part}.{language}.txt").read_text(encoding="utf-8").splitlines()
            ids = tokenizer.encode_plain(lines)
            texts = (" ".join(str(tokenizer.id_to_token(one)) for one in row) for row in ids)
            storage.write_text(folder / f"joeynmt-data/{part}.{language}", "".join(f"{text}\n" for text in texts))


def text_of(line: str, tokenizer: Tokenizer) -> str:
    """The text of a line of tokens."""
    found = (tokenizer.token_to_id(word) for word in line.split())
    return tokenizer.decode([number for number in found if number is not None]).strip()


def settings(folder: Path, facts: dict[str, Any], output: Path, seed: int) -> dict[str, Any]:
    """The configuration of JoeyNMT."""
    data = folder / "joeynmt-data"
    language = {"level": "word", "max_length": facts["max_length"], "voc_file": str(data / "vocabulary.txt")}
    side = {
        "rnn_type": "lstm",
        "embeddings": {"embedding_dim": facts["hidden"]},
        "num_layers": facts["layers"],
        "dropout": 0.3,
    }
    return {
        "name": f"joeynmt-{seed}",
        "joeynmt_version": "2.3.0",
        "model_dir": str(output),
        "use_cuda": False,
        "random_seed": seed + 1,
        "data": {
            "train": str(data / "train"),
            "dev": str(data / "held"),
            "test": str(data / "dev"),
            "dataset_type": "plain",
            "src": {"lang": facts["source"], **language},
            "trg": {"lang": "en", **language},
        },
        "testing": {
            "beam_size": 5,
            "beam_alpha": 1.0,
            "batch_size": 64,
            "max_output_length": 200,
            "eval_metrics": ["bleu"],
        },
        "training": {
            "optimizer": "adam",
            "learning_rate": facts["lr"],
            "learning_rate_min": 0.0001,  # YAML reads 1e-05 as a text
            "scheduling": "warmupinversesquareroot",  # its plateau schedule fails with torch from 2.7 on
            "learning_rate_warmup": max(facts["steps"] // 20, 1),
            "clip_grad_norm": 1.0,
            "batch_size": facts["batch_tokens"],
            "batch_type": "token",
            "epochs": 10 * facts["epochs"],  # the updates end it
            "updates": facts["steps"],
            "validation_freq": 2 * facts["log_every"],
            "logging_freq": facts["log_every"],
            "early_stopping_metric": "ppl",
            "keep_best_ckpts": 1,
            "overwrite": True,
        },
        "model": {
            "initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": {"type": "recurrent", "bidirectional": True, "hidden_size": facts["hidden"] // 2, **side},
            "decoder": {
                "type": "recurrent",
                "hidden_size": facts["hidden"],
                "attention": "bahdanau",
                "input_feeding": True,
                "init_hidden": "bridge",
                **side,
            },
        },
    }


if __name__ == "__main__":
    run_main(main)
