"""Translation of image captions: a small version of the original Transformer on Multi30k (Elliott et al. 2016).

    MASKWRIGHT_DATA=path python recipes/multi30k.py -o runs/multi30k                   German to English
    MASKWRIGHT_DATA=path python recipes/multi30k.py --source fr --epochs 40 -o runs/fr

Trains a joint byte-level BPE, runs `maskwright finetune translation`, and scores it with beam search on the official
dev split. Epoch, learning rate and all other choices use 1,000 held-out pairs of train. Rerun the same command to
resume.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from common import captions, made_once, options_of, read_options, run, run_main

from maskwright.core import storage
from maskwright.text.tokenizers.tokenizer import Tokenizer

HELD_BACK = 1000  # pairs of train on which choices are made


def main() -> None:
    """Train and score."""
    options = options_of(__doc__)
    options.add_argument("--source", choices=["de", "fr"], default="de")
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument("--vocab-size", type=int, default=8000)
    options.add_argument("--batch-tokens", type=int, default=4096)
    options.add_argument("--preset", default="transformer-mini")
    options.add_argument("--seed", type=int, default=0, help="another one needs another -o")
    chosen = read_options(options)
    sizes = {"vocab_size": chosen.vocab_size}
    make = partial(write_data, source=chosen.source, vocab_size=chosen.vocab_size)
    data = made_once(chosen.output / f"data-{chosen.source}", sizes, make)
    epochs, source = chosen.epochs, chosen.source
    run(
        "finetune", "translation", "--preset", chosen.preset, "--tokenizer", str(data / "tokenizer"),
        "--set", "hidden_dropout=0.2", "--set", "attention_dropout=0.1", "--set", "max_position_embeddings=256",
        "--train", str(data / f"train.{source}.txt"), str(data / "train.en.txt"),
        "--dev", str(data / f"held.{source}.txt"), str(data / "held.en.txt"),
        "--epochs", str(epochs), "--set", f"batch_tokens={chosen.batch_tokens}", "--max-length", "96", "--lr", "2e-3",
        "--warmup", "1000" if epochs >= 10 else "0.3", "--set", f"average_checkpoints={min(5, max(epochs // 2, 1))}",
        "--seed", str(chosen.seed), "-o", str(chosen.output / "run"),
    )  # fmt: skip
    dev, target = data / f"dev.{source}.txt", data / "dev.en.txt"
    found = run("evaluate", str(chosen.output / "run" / "model"), str(dev), str(target))
    print(f"{source}-en, official dev split of Multi30k: {found['metrics']}")


def write_data(new: Path, *, source: str, vocab_size: int) -> None:
    """Line-aligned files and the tokenizer."""
    train, official = captions("train"), captions("dev")
    rows = list(range(len(train["en"])))
    random.Random(0).shuffle(rows)
    for language in (source, "en"):
        texts = {"held": [train[language][row] for row in rows[:HELD_BACK]], "dev": official[language]}
        texts["train"] = [train[language][row] for row in rows[HELD_BACK:]]
        for name, own in texts.items():
            storage.write_text(new / f"{name}.{language}.txt", "".join(text + "\n" for text in own))
    files = [str(new / f"train.{language}.txt") for language in (source, "en")]
    Tokenizer.train(files, kind="byte-bpe", vocab_size=vocab_size).save(new / "tokenizer")


if __name__ == "__main__":
    run_main(main)
