"""Small models for the studio and `inspect`, trained on sentences of our own in a few minutes.

    python recipes/studio_models.py -o runs                  all of them
    python recipes/studio_models.py -o runs names writer     some; `names` begins with the weights of `reader`

    reader       masked language model    predicts masked words; constant facts about trades
    topics       classifier               the topic of a sentence
    names        tagger                   people, places and dates, from their context
    answers      question answering       who, where and when, or that the text does not say
    writer       GPT-2                    continues texts
    translator   encoder-decoder          translation from English to German, with the verb at the end

They are accurate on new sentences of the kinds in their training data, and on no others. Rerun the same command to
resume. A finished model is kept until its text or its settings change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from common import run_main
from english_german import pairs
from small_texts import questions, split, stories, tagged, topics

import maskwright as mw
from maskwright.core import storage
from maskwright.core.config import to_dict
from maskwright.core.errors import InputError
from maskwright.core.progress import note

# So narrow a network learns soon where its first weights are not small and positions are relative to each other.
NETWORK = {"hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 256, "initializer_range": 0.08}
HERE: dict[str, Any] = {"device": "cpu", "precision": "fp32"}
READER = "reader"  # the model that others begin with


@dataclass(frozen=True)
class Recipe:
    """texts: file name -> content; config: of the run, from the folder of the texts and that of the models;
    tokenizer: its kind and size, where the run needs one made before it.
    """

    texts: Callable[[random.Random], dict[str, str]]
    config: Callable[[Path, Path], mw.PretrainConfig | mw.FinetuneConfig]
    tokenizer: tuple[str, int] | None = None


def main() -> None:
    """Train the requested models and print the studio command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="MODEL", help="which models; all without")
    options.add_argument("-o", "--output", type=Path, required=True, help="folder of the runs")
    chosen = options.parse_args()
    if unknown := sorted(set(chosen.names) - set(RECIPES)):
        options.error(f"no model is called {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    models = [train(chosen.output, name) for name in chosen.names or RECIPES]
    print(*models, sep="\n")
    print(f"\nOpen them in the browser:\n  maskwright studio {' '.join(map(str, models))} --runs {chosen.output}")


@cache
def train(folder: Path, name: str) -> Path:
    """The model folder of a run: finished now, or before with these texts and settings."""
    torch.set_num_threads(1)  # the networks are too small for more
    folder = folder.resolve()
    recipe, texts, run = RECIPES[name], folder / "texts" / name, folder / name
    config, files = recipe.config(texts, folder), recipe.texts(random.Random(name))
    is_tuned = isinstance(config, mw.FinetuneConfig) and config.model is not None
    begins_with = storage.sha256(train(folder, READER) / "model.safetensors") if is_tuned else None
    made_of = [files, to_dict(config), recipe.tokenizer, begins_with]
    key = hashlib.sha256(json.dumps(made_of, default=str).encode()).hexdigest()
    known = folder / "texts" / f"{name}.key"
    if run.exists() and not known.exists():
        raise InputError(f"{run} exists and is not one of these models: pass another folder with -o.")
    if not known.exists() or known.read_text() != key:
        for outdated in (run, texts):
            if outdated.exists():
                storage.remove_folder(outdated)
        for file, content in files.items():
            storage.write_text(texts / file, content)
        if recipe.tokenizer:
            kind, size = recipe.tokenizer
            sources = [texts / file for file in files]
            mw.Tokenizer.train(sources, kind=kind, vocab_size=size, lowercase=False).save(texts / "tokenizer")
        storage.write_text(known, key)
    note(f"{name}: {run}")
    return (mw.pretrain if isinstance(config, mw.PretrainConfig) else mw.finetune)(config).model


# -- pre-training -----------------------------------------------------------------------------------------------------


def reader(texts: Path, folder: Path) -> mw.PretrainConfig:
    """Three layers of four heads."""
    return mw.PretrainConfig(
        corpus=(str(texts / "corpus.txt"),),
        output=folder / READER,
        preset="bert-tiny",
        model={**NETWORK, "num_hidden_layers": 3, "positions": "rotary", "max_position_embeddings": 128},
        objective="mlm",
        vocab_size=1000,
        lowercase=False,
        steps=1000,
        batch_tokens=512,
        max_length=64,
        lr=1e-3,
        dropout=0.0,
        log_every=20,
        **HERE,
    )


def writer(texts: Path, folder: Path) -> mw.PretrainConfig:
    """A GPT-2 of three layers."""
    return mw.PretrainConfig(
        corpus=(str(texts / "corpus.txt"),),
        output=folder / "writer",
        preset="gpt2",
        model={**NETWORK, "num_hidden_layers": 3, "max_position_embeddings": 128},
        objective="clm",
        tokenizer=texts / "tokenizer",
        steps=500,
        batch_tokens=512,
        max_length=64,
        lr=1e-3,
        dropout=0.0,
        log_every=20,
        **HERE,
    )


# -- fine-tuning ------------------------------------------------------------------------------------------------------


def tuned(task: str, name: str, ending: str, **settings: Any) -> Callable[[Path, Path], mw.FinetuneConfig]:
    """The recipe of a run that begins with the reader; its files are train.ENDING and dev.ENDING."""

    def config(texts: Path, folder: Path) -> mw.FinetuneConfig:
        return mw.FinetuneConfig(
            task=task,
            model=str(folder / READER / "model"),
            train=texts / f"train.{ending}",
            dev=texts / f"dev.{ending}",
            output=folder / name,
            **{"lr": 5e-4, "batch_size": 32, "max_length": 96, **settings, **HERE},
        )

    return config


def translator(texts: Path, folder: Path) -> mw.FinetuneConfig:
    """The original Transformer, two layers a side."""
    return mw.FinetuneConfig(
        task="translation",
        preset="transformer-mini",
        network={**NETWORK, "num_hidden_layers": 2, "num_decoder_layers": 2, "max_position_embeddings": 64},
        tokenizer=texts / "tokenizer",
        train=texts / "train.en.txt",
        train_target=texts / "train.de.txt",
        dev=texts / "dev.en.txt",
        dev_target=texts / "dev.de.txt",
        output=folder / "translator",
        epochs=3,
        batch_tokens=1024,
        max_length=48,
        lr=2e-3,
        warmup=100,
        **HERE,
    )


RECIPES = {
    READER: Recipe(stories, reader),
    "topics": Recipe(split("jsonl", topics, 600), tuned("classification", "topics", "jsonl", epochs=3)),
    "names": Recipe(split("conll", tagged, 1400), tuned("tagging", "names", "conll", epochs=3, crf=True)),
    "answers": Recipe(
        split("jsonl", questions, 3000), tuned("qa", "answers", "jsonl", epochs=4, lr=1e-3, batch_size=16)
    ),
    "writer": Recipe(stories, writer, ("byte-bpe", 1000)),
    "translator": Recipe(pairs, translator, ("wordpiece", 1000)),
}

if __name__ == "__main__":
    run_main(main)
