"""A translator of image captions: the original Transformer, small, on Multi30k (Elliott et al. 2016).

    MASKWRIGHT_DATA=path python recipes/multi30k.py -o runs/multi30k                German to English
    MASKWRIGHT_DATA=path python recipes/multi30k.py --source fr --epochs 40 -o runs/fr
    MASKWRIGHT_DATA=path python recipes/multi30k.py --compare -o runs/multi30k      beside torch.nn.Transformer

A joint byte-level BPE of both languages, then `maskwright finetune translation`, then BLEU and chrF with beams on the
official dev part. The epochs to average and all other choices are made on 1,000 pairs of train that are held back.
Interrupted, the same command goes on where it was. --compare instead trains nothing to the end: it takes turns of some
steps on the same batches with a torch.nn.Transformer of the same size, and prints tokens a second of both.
"""

from __future__ import annotations

import argparse
import lzma
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from maskwright.core import storage
from maskwright.core.errors import InputError, MaskwrightError
from maskwright.core.progress import console, note
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.inference.ready import place
from maskwright.models.config import ModelConfig
from maskwright.nn.positions import sinusoidal_positions
from maskwright.tasks.base import Evaluation
from maskwright.tasks.translation import Translation
from maskwright.text.tokenizer import Tokenizer
from maskwright.train.finetune import Bench, finetune
from maskwright.train.finetune_config import FinetuneConfig
from maskwright.train.optimizer import adamw

HELD_BACK = 1000  # pairs of train on which choices are made
ROUNDS, STEPS = 5, 4  # turns of a comparison, and steps of a turn


def main() -> None:
    """Train and score, or compare speeds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", "--output", type=Path, required=True)
    options.add_argument("--source", choices=["de", "fr"], default="de")
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument("--vocab-size", type=int, default=8000)
    options.add_argument("--batch-tokens", type=int, default=4096)
    options.add_argument("--preset", default="transformer-mini")
    options.add_argument("--precision", default="auto")
    options.add_argument("--threads", type=int)
    options.add_argument("--compare", action="store_true")
    chosen = options.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    data = prepare(chosen.output, chosen.source, chosen.vocab_size)
    recipe = recipe_of(chosen, data)
    if chosen.compare:
        compare(recipe)
        return
    result = finetune(recipe)
    found = official(result.model, data)
    console().print(f"report: {result.report}")
    print(f"{chosen.source}-en, official dev part, {len(found.logits):,} pairs")
    for name, value in found.metrics.items():
        print(f"{name:<16}  {value:.4f}")
    for signature in found.signatures.values():
        print(signature)


def prepare(output: Path, source: str, vocab_size: int) -> Path:
    """Line-aligned files and the tokenizer in `output`/data, made once."""
    folder = output / f"data-{source}"
    if folder.is_dir():
        return folder
    where = os.environ.get("MASKWRIGHT_DATA")
    if not where or not (Path(where) / "multi30k").is_dir():
        raise InputError("Set MASKWRIGHT_DATA to a folder with multi30k/train.tsv.xz and multi30k/dev.tsv.")
    read = Path(where) / "multi30k"
    with lzma.open(read / "train.tsv.xz", "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    official_rows = [line.split("\t") for line in (read / "dev.tsv").read_text(encoding="utf-8").splitlines()]
    columns = [rows[0].index(source), rows[0].index("en")]
    pairs = rows[1:]
    random.Random(0).shuffle(pairs)
    parts = {"held": pairs[:HELD_BACK], "train": pairs[HELD_BACK:], "dev": official_rows[1:]}
    with storage.new_folder(folder) as new:
        for name, own in parts.items():
            for column, language in zip(columns, (source, "en"), strict=True):
                text = "".join(row[column].strip() + "\n" for row in own)
                storage.write_text(new / f"{name}.{language}.txt", text)
        texts = [str(new / f"train.{language}.txt") for language in (source, "en")]
        trained = Tokenizer.train(texts, kind="byte-bpe", vocab_size=vocab_size)
        trained.save(new / "tokenizer")
    return folder


def recipe_of(chosen: argparse.Namespace, data: Path) -> FinetuneConfig:
    """What is trained and how: the sizes and rates that suit 28,000 short pairs."""
    source = chosen.source
    return FinetuneConfig(
        task="translation",
        preset=chosen.preset,
        tokenizer=data / "tokenizer",
        network={"hidden_dropout": 0.2, "attention_dropout": 0.1, "max_position_embeddings": 256},
        train=data / f"train.{source}.txt",
        train_target=data / "train.en.txt",
        dev=data / f"held.{source}.txt",
        dev_target=data / "held.en.txt",
        output=chosen.output / "run",
        epochs=chosen.epochs,
        batch_tokens=chosen.batch_tokens,
        max_length=96,
        lr=2e-3,
        warmup=1000,
        average_checkpoints=min(5, chosen.epochs),
        precision=chosen.precision,
    )


def official(model_folder: Path, data: Path) -> Evaluation:
    """BLEU and chrF of the finished model on the official dev part, which decided nothing."""
    model, _ = load_model(model_folder)
    place(model)
    source = next(path for path in data.glob("dev.*.txt") if path.name != "dev.en.txt")
    task = Translation()
    task.meet(model)
    examples = task.examples(task.read((source, data / "dev.en.txt")).rows, model.tokenizer, 128)
    return task.full_evaluation(model, examples)


# -- beside torch.nn.Transformer -----------------------------------------------------------------------------------


class Plain(nn.Module):
    """What people write first: torch.nn.Transformer of the same size over padded rows, tables tied."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, size)
        nn.init.normal_(self.words.weight, std=size**-0.5)
        self.network = nn.Transformer(
            size,
            config.num_attention_heads,
            config.num_hidden_layers,
            config.num_decoder_layers,
            config.intermediate_size,
            config.hidden_dropout,
            batch_first=True,
        )
        self.register_buffer("places", sinusoidal_positions(config.max_position_embeddings, size))
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.scale = size**0.5

    def forward(self, source: Tensor, target: Tensor, no_source: Tensor, no_target: Tensor) -> Tensor:
        """source, target: int64 [batch, seq]; no_source, no_target: bool of the same shapes, padding. Returns logits
        [batch, target seq, vocab].
        """
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.bool)
        hidden = self.network(
            self._embed(source),
            self._embed(target),
            tgt_mask=later,
            src_key_padding_mask=no_source,
            tgt_key_padding_mask=no_target,
            memory_key_padding_mask=no_source,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.words.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.words(ids) * self.scale + self.places[: ids.shape[1]])


def compare(recipe: FinetuneConfig) -> None:
    """Tokens a second of training, both networks on the same batches in turn."""
    recipe = recipe.resolved("cpu", "fp32" if recipe.precision == "auto" else recipe.precision)
    bench = Bench(recipe, torch.device("cpu"))
    model, train, _ = bench.start(0)
    plain = Plain(model.config).train()
    model.train()
    own, other = (adamw(one, recipe.lr, recipe.weight_decay) for one in (model, plain))
    order = random.Random(0)
    batches = []
    for _ in range(ROUNDS * STEPS):
        rows, tokens = [], 0
        while tokens < (recipe.batch_tokens or 4096):
            rows.append(order.randrange(len(train)))
            tokens += int(train.lengths[rows[-1]])
        batches.append(train.batch(rows))

    def step_of_ours(batch: Batch) -> None:
        outcome = bench.task.outcome(model, batch)
        (outcome.losses["translation"] / outcome.counts["translation"]).backward()
        own.step()
        own.zero_grad()

    def step_of_plain(batch: Batch) -> None:
        logits = plain(*padded(batch))
        words = batch.labels["words"]
        kept = ~padded(batch)[3]
        F.cross_entropy(logits[kept], words, label_smoothing=0.1).backward()
        other.step()
        other.zero_grad()

    rates: dict[str, list[float]] = {"maskwright": [], "torch.nn.Transformer": []}
    note(f"{model.num_parameters:,} parameters, {sum(p.numel() for p in plain.parameters()):,} in the other")
    sides: list[tuple[str, Callable[[Batch], None]]] = [("maskwright", step_of_ours)]
    sides.append(("torch.nn.Transformer", step_of_plain))
    for _, step in sides:
        step(batches[0])  # warm
    for number in range(ROUNDS):
        part = batches[number * STEPS : (number + 1) * STEPS]
        for name, step in sides:
            before = time.process_time()
            for batch in part:
                step(batch)
            rates[name].append(sum(batch.num_all_tokens for batch in part) / (time.process_time() - before))
    for name, values in rates.items():
        print(f"{name:<22}  {median(values):8.0f} tokens a second of processor time")
    print(f"ratio {median(a / b for a, b in zip(*rates.values(), strict=True)):.2f}")


def padded(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source and target as padded rows int64 [batch, seq], and where nothing stands."""
    assert batch.target is not None
    rows, masks = [], []
    for one in (batch, batch.target):
        own = nn.utils.rnn.pad_sequence(list(one.input_ids.split(one.lengths)), batch_first=True)
        rows.append(own)
        masks.append(torch.arange(own.shape[1]) >= torch.tensor(one.lengths)[:, None])
    return rows[0], rows[1], masks[0], masks[1]


if __name__ == "__main__":
    try:
        main()
    except MaskwrightError as error:
        sys.exit(f"error: {error}")
