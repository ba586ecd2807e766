"""The effect of attention: recurrent translation models with and without it, on Multi30k (Elliott et al. 2016).

    MASKWRIGHT_DATA=path python recipes/seq2seq.py -o runs/seq2seq                       German to English, 3 seeds
    MASKWRIGHT_DATA=path python recipes/seq2seq.py --score dot --no-feeding --seeds 1 -o runs/dot
    MASKWRIGHT_DATA=path python recipes/seq2seq.py --score mlp,bilinear,dot -o runs/kinds     kinds of attention
    MASKWRIGHT_DATA=path python recipes/seq2seq.py --epochs 1 --rows 400 --hidden 32 --seeds 1 -o runs/try

All have the same number of parameters within 1% (the one without attention is wider), the same rows in the same order
for the same number of steps, and the seeds 0 to N - 1. Half of the training captions are single, the others are
concatenated in twos to fours, so that all learn from long sources too. The epoch is selected on 1,000 held-out
captions of train.

Then it computes BLEU with beam size five on the official dev split, caption by caption; BLEU, the number of generated
words and exact matches by source length on the dev split with single captions, twos, threes and fours (lengths.html);
and the alignments of eight dev captions (alignments.html, alignments.svg). table.json has the numbers. Rerun the same
command to resume.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import captions, made_once, options_of, read_options, run_main, spread

from maskwright.core import storage
from maskwright.core.progress import note
from maskwright.hub.folders import load_model
from maskwright.inference.pages import write_alignments
from maskwright.inference.ready import place
from maskwright.inspect.lengths import ByLength, by_length
from maskwright.inspect.reports import lengths_headline as headline
from maskwright.inspect.reports import write_lengths
from maskwright.models.build import make_model
from maskwright.models.config import ModelConfig
from maskwright.models.decoding.search import Beams
from maskwright.models.model import Model
from maskwright.tasks.translation import BEAMS, Translation, alignments, corpus_scores
from maskwright.text.readers.tables import Row
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune, network_from_scratch

HELD_BACK, MOST_JOINED, DRAWN = 1000, 4, 8
FIRST = "attention"  # the folder of the first kind
SCORES = ("dot", "bilinear", "mlp", "additive")
MAX_LENGTH = 160  # tokens of a side: four captions


@dataclass(frozen=True)
class Variant:
    """A network of the comparison. name: what the pictures call it; network: how it differs from its preset."""

    name: str
    folder: str
    network: dict[str, Any]


def main() -> None:
    """Train all, score all, draw."""
    chosen = _options()
    data = prepare(chosen)
    found: dict[str, list[dict[str, Any]]] = {}
    curves: list[ByLength] = []
    for variant in variants(chosen, data):
        for seed in range(chosen.seeds):
            result = finetune(recipe_of(chosen, data, variant, seed))
            model = place(load_model(result.model)[0], chosen.device, chosen.precision)
            scores, by_words = score(chosen, data, variant, model)
            found.setdefault(variant.name, []).append({"seed": seed, "dev": result.mean} | scores)
            curves.append(by_words)
            if seed == 0 and variant.folder == FIRST:
                draw(chosen, data, model)
    write_lengths(chosen.output / "lengths.html", curves)
    storage.write_json(chosen.output / "table.json", {"runs": found, "by_length": [one.to_json() for one in curves]})
    show(chosen, found, curves)


def _options() -> argparse.Namespace:
    options = options_of(__doc__)
    options.add_argument("--source", choices=["de", "fr"], default="de")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--epochs", type=int, default=12)
    options.add_argument("--cell", choices=["rnn", "gru", "lstm"], default="lstm")
    options.add_argument("--hidden", type=int, default=256, help="of the network with attention")
    options.add_argument("--layers", type=int, default=1, help="of each side")
    options.add_argument("--score", default="mlp", help=f"of {', '.join(SCORES)}; several separated by commas")
    options.add_argument("--no-feeding", action="store_true", help="without input feeding")
    options.add_argument("--vocab-size", type=int, default=8000)
    options.add_argument("--batch-tokens", type=int, default=4096)
    options.add_argument("--lr", type=float, default=1e-3)
    options.add_argument("--rows", type=int, help="captions to train on, for a try; all without")
    options.add_argument("--device", default="auto")
    options.add_argument("--precision", default="fp32")
    chosen = read_options(options)
    chosen.scores = list(dict.fromkeys(chosen.score.split(",")))
    if unknown := [score for score in chosen.scores if score not in SCORES]:
        options.error(f"--score has no '{unknown[0]}': use {', '.join(SCORES)}")
    return chosen


# -- data -------------------------------------------------------------------------------------------------------------


def prepare(chosen: argparse.Namespace) -> Path:
    """Line-aligned files and the tokenizer in `output`/data, made once."""
    sizes = {"source": chosen.source, "rows": chosen.rows, "vocab_size": chosen.vocab_size}
    return made_once(chosen.output / "data", sizes, partial(write_data, chosen))


def write_data(chosen: argparse.Namespace, new: Path) -> None:
    """The same into a new folder."""
    train, official = captions("train"), captions("dev")
    languages = (chosen.source, "en")
    order = list(range(len(train["en"])))
    random.Random(0).shuffle(order)
    held, rest = order[:HELD_BACK], order[HELD_BACK:]
    rest = rest[: chosen.rows]
    held = held[: max(len(rest) // 10, 20)]
    singles = [[row] for row in rest[: len(rest) // 2]]
    own = list(range(len(official["en"])))[: None if chosen.rows is None else max(chosen.rows // 4, 40)]
    longer = [group for size in range(2, MOST_JOINED + 1) for group in in_groups(own, [size])]
    parts = {
        "train": (train, singles + in_groups(rest[len(rest) // 2 :], list(range(2, MOST_JOINED + 1)))),
        "held": (train, [[row] for row in held]),
        "dev": (official, [[row] for row in own]),
        "all": (official, [[row] for row in own] + longer),
    }
    for name, (texts, groups) in parts.items():
        for language in languages:
            lines = [" ".join(texts[language][row] for row in group) + "\n" for group in groups]
            storage.write_text(new / f"{name}.{language}.txt", "".join(lines))
    files = [str(new / f"train.{language}.txt") for language in languages]
    Tokenizer.train(files, kind="byte-bpe", vocab_size=chosen.vocab_size).save(new / "tokenizer")


def in_groups(rows: list[int], sizes: list[int]) -> list[list[int]]:
    """Group rows by these sizes in turn; incomplete groups are dropped."""
    found, start, turn = [], 0, 0
    while start + sizes[turn % len(sizes)] <= len(rows):
        size = sizes[turn % len(sizes)]
        found.append(rows[start : start + size])
        start, turn = start + size, turn + 1
    return found


def rows_of(chosen: argparse.Namespace, data: Path, part: str) -> list[Row]:
    """Sources with their translations."""
    table = Translation.read((data / f"{part}.{chosen.source}.txt", data / f"{part}.en.txt"))
    return list(table.rows)


# -- networks ---------------------------------------------------------------------------------------------------------


def variants(chosen: argparse.Namespace, data: Path) -> list[Variant]:
    """With each kind of attention, and without it but as many parameters as with the first."""
    tokenizer = Tokenizer.load(data / "tokenizer")
    both = {
        "recurrent": chosen.cell,
        "num_hidden_layers": chosen.layers,
        "num_decoder_layers": chosen.layers,
        "max_position_embeddings": 256,
    }
    looking = both | {
        "hidden_size": chosen.hidden,
        "attention_score": chosen.scores[0],
        "input_feeding": not chosen.no_feeding,
    }
    plain = both | {"attention_score": "none", "input_feeding": False}
    wanted = parameters(looking, tokenizer)
    width = min(
        range(chosen.hidden, 2 * chosen.hidden, 2),
        key=lambda size: abs(parameters(plain | {"hidden_size": size}, tokenizer) - wanted),
    )
    plain |= {"hidden_size": width}
    note(
        f"{chosen.scores[0]} attention, {chosen.hidden} wide: {wanted:,} parameters; without, {width} wide: "
        f"{parameters(plain, tokenizer):,}."
    )
    kinds = [
        Variant(f"{score} attention", f"{FIRST}-{score}" if number else FIRST, looking | {"attention_score": score})
        for number, score in enumerate(chosen.scores)
    ]
    return [*kinds, Variant("no attention", "plain", plain)]


def parameters(network: dict[str, Any], tokenizer: Tokenizer) -> int:
    """How many a network has; nothing is allocated."""
    config: ModelConfig = network_from_scratch("seq2seq-small", network, tokenizer, None)
    with torch.device("meta"):
        return make_model(config, "seq2seq").num_parameters


def recipe_of(chosen: argparse.Namespace, data: Path, variant: Variant, seed: int) -> FinetuneConfig:
    """What is trained and how."""
    return FinetuneConfig(
        task="translation",
        preset="seq2seq-small",
        tokenizer=data / "tokenizer",
        network=variant.network,
        train=data / f"train.{chosen.source}.txt",
        train_target=data / "train.en.txt",
        dev=data / f"held.{chosen.source}.txt",
        dev_target=data / "held.en.txt",
        output=chosen.output / f"{variant.folder}-{seed}",
        epochs=chosen.epochs,
        batch_tokens=chosen.batch_tokens,
        max_length=MAX_LENGTH,
        lr=chosen.lr,
        warmup=0.05,
        schedule="linear",
        seed=seed,
        device=chosen.device,
        precision=chosen.precision,
    )


# -- scores and pictures ----------------------------------------------------------------------------------------------


def score(chosen: argparse.Namespace, data: Path, variant: Variant, model: Model) -> tuple[dict[str, Any], ByLength]:
    """BLEU and chrF of the official dev captions, which decided nothing, and scores by length."""
    task, rows = Translation(), rows_of(chosen, data, "dev")
    examples = task.unlabeled(rows, model.tokenizer, MAX_LENGTH, counts=TextCounts())
    written = [answer["translation"] for answer in task.predict(model, examples, beams=Beams(BEAMS))]
    scores, signatures = corpus_scores(written, [str(row.label) for row in rows])
    curve = by_length(model, task, rows_of(chosen, data, "all"), name=variant.name, max_length=MAX_LENGTH, beams=BEAMS)
    return {"parameters": model.num_parameters, **scores, "signatures": signatures}, curve


def draw(chosen: argparse.Namespace, data: Path, model: Model) -> None:
    """Alignments of the first dev captions with what the model itself writes for them."""
    task, rows = Translation(), rows_of(chosen, data, "dev")[:DRAWN]
    examples = task.unlabeled(rows, model.tokenizer, MAX_LENGTH, counts=TextCounts())
    written = [answer["translation"] for answer in task.predict(model, examples, beams=Beams(BEAMS))]
    maps = alignments(model, task, list(zip([row.text for row in rows], written, strict=True)), MAX_LENGTH)
    for ending in ("html", "svg"):
        write_alignments(
            chosen.output / f"alignments.{ending}", maps, f"{chosen.source}-en, {chosen.scores[0]} attention"
        )


def show(chosen: argparse.Namespace, found: dict[str, list[dict[str, Any]]], curves: list[ByLength]) -> None:
    """Print the table."""
    print(f"{chosen.source}-en, official dev split of Multi30k, {chosen.seeds} seeds")
    for name, runs in found.items():
        parts = [f"{name:<20}", f"{runs[0]['parameters']:>12,} parameters"]
        parts += [f"{measure} {spread([run[measure] for run in runs])}" for measure in ("bleu", "chrf")]
        print("   ".join(parts))
    print(runs[0]["signatures"]["bleu"])
    print(headline(curves))
    print(f"pictures: {chosen.output / 'lengths.html'}, {chosen.output / 'alignments.html'}")


if __name__ == "__main__":
    run_main(main)
