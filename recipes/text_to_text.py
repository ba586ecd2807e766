"""Translation and summaries by a causal language model that reads "source <task> target" (Radford et al. 2019).

    MASKWRIGHT_DATA=path python recipes/text_to_text.py french -o runs/to-fr         English to French, Tatoeba
    MASKWRIGHT_DATA=path python recipes/text_to_text.py summary -o runs/summarize    articles to their first sentence
    MASKWRIGHT_DATA=path python recipes/text_to_text.py french --epochs 1 --rows 500 --hidden 32 -o runs/try

Trains a decoder from random weights on the lines, with the loss on the target alone, as `maskwright finetune
generation --delimiter "<to-fr>"` does. french: the pairs of Tatoeba; BLEU and chrF of the official dev pairs, compared
with copying the source. summary: encyclopedia articles, of which the first sentence is the target and the rest the
source; ROUGE of held-out articles, compared with the first sentence of the rest. The epoch is selected on held-out rows
of train.
table.json has the numbers and the first texts. Rerun the same command to resume.
"""

from __future__ import annotations

import argparse
import random
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from data_sets import data_file, documents_of, made_once
from figures import minutes_of
from running import run_main

from maskwright.core import storage
from maskwright.hub.folders import load_model, read_facts
from maskwright.inference.predict import Predictor
from maskwright.inference.ready import place
from maskwright.tasks.base import task_of_model
from maskwright.tasks.generation import rouge_scores
from maskwright.tasks.translation import corpus_scores
from maskwright.text.formats.files import open_bytes
from maskwright.text.readers.parallel import read_pairs
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune

HELD, SCORED, SHOWN = 500, 500, 5
Pair = tuple[str, str]  # source, target


class Kind(NamedTuple):
    """A format. max_length: tokens of a line; delimiter: token between source and target."""

    delimiter: str
    max_length: int
    batch_size: int


KINDS = {"french": Kind("<to-fr>", 64, 64), "summary": Kind("<summarize>", 256, 16)}


def main() -> None:
    """Train, generate, score."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("kind", choices=list(KINDS))
    options.add_argument("-o", "--output", type=Path, required=True)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--rows", type=int, help="to train on, for a try; all without")
    options.add_argument("--hidden", type=int, default=256)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--vocab-size", type=int, default=8000)
    options.add_argument("--lr", type=float, default=1e-3)
    options.add_argument("--device", default="auto")
    options.add_argument("--precision", default="auto")
    options.add_argument("--threads", type=int)
    chosen = options.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    sizes = {"rows": chosen.rows, "vocab_size": chosen.vocab_size}
    data = made_once(chosen.output / "data", sizes, partial(write_data, chosen))
    result = finetune(recipe_of(chosen, data))
    model = place(load_model(result.model)[0], chosen.device, "fp32")
    predictor = Predictor(model, task_of_model(model, read_facts(result.model)))
    rows = read_pairs(data / "dev.tsv").rows
    sources, wanted = [row.text for row in rows], [str(row.label) for row in rows]
    written = [answer["generated"] for answer in predictor.predict(sources)]
    baseline = sources if chosen.kind == "french" else [source.split(" \N{PILCROW SIGN} ")[0] for source in sources]
    found = {
        "parameters": model.num_parameters,
        "minutes": minutes_of(chosen.output / "run" / "seed-0"),
        "model": scores(chosen.kind, written, wanted),
        "baseline": scores(chosen.kind, baseline, wanted),
        "texts": list(zip(sources, wanted, written, strict=True))[:SHOWN],
    }
    storage.write_json(chosen.output / "table.json", found)
    print(f"{found['parameters']:,} parameters, {found['minutes']:.1f} minutes")
    for name in ("model", "baseline"):
        print(f"{name:<10}" + "   ".join(f"{measure} {value:.3f}" for measure, value in found[name].items()))
    for source, target, own in found["texts"]:
        print(f"\n{source[:200]}\n  reference: {target}\n  generated: {own}")


def scores(kind: str, written: list[str], wanted: list[str]) -> dict[str, float]:
    """BLEU and chrF of translations, ROUGE of summaries."""
    return (corpus_scores(written, wanted) if kind == "french" else rouge_scores(written, wanted))[0]


def recipe_of(chosen: argparse.Namespace, data: Path) -> FinetuneConfig:
    """What is trained and how."""
    kind = KINDS[chosen.kind]
    network: dict[str, Any] = {
        "hidden_size": chosen.hidden,
        "num_hidden_layers": chosen.layers,
        "num_attention_heads": max(chosen.hidden // 64, 1),
        "intermediate_size": 4 * chosen.hidden,
        "max_position_embeddings": kind.max_length,
        "hidden_dropout": 0.1,
        "attention_dropout": 0.1,
    }
    return FinetuneConfig(
        task="generation",
        delimiter=kind.delimiter,
        preset="gpt2",
        network=network,
        tokenizer=data / "tokenizer",
        train=data / "train.tsv",
        dev=data / "held.tsv",
        output=chosen.output / "run",
        epochs=chosen.epochs,
        batch_size=kind.batch_size,
        max_length=kind.max_length,
        lr=chosen.lr,
        warmup=0.05,
        schedule="linear",
        device=chosen.device,
        precision=chosen.precision,
    )


# -- data -------------------------------------------------------------------------------------------------------------


def write_data(chosen: argparse.Namespace, new: Path) -> None:
    """Training, held-out and dev examples, and the tokenizer into a new folder."""
    train, dev = (french if chosen.kind == "french" else summaries)()
    random.Random(0).shuffle(train)
    held, train = train[:HELD], train[HELD:][: chosen.rows]
    for name, pairs in (("train", train), ("held", held), ("dev", dev[:SCORED])):
        lines = (f"{source}\t{target}\n" for source, target in pairs)
        storage.write_text(new / f"{name}.tsv", "source\ttarget\n" + "".join(lines))
    storage.write_text(new / "text.txt", "".join(f"{one}\n" for pair in train for one in pair))
    tokenizer = Tokenizer.train([str(new / "text.txt")], kind="byte-bpe", vocab_size=chosen.vocab_size)
    tokenizer.save(new / "tokenizer")


def french() -> tuple[list[Pair], list[Pair]]:
    """The pairs of Tatoeba, train and dev."""
    found = []
    for name in ("train.tsv.xz", "dev.tsv"):
        with open_bytes(data_file(f"tatoeba_en_fr/{name}")) as handle:
            _, *lines = handle.read().decode("utf-8").strip("\n").split("\n")
        found.append([(source, target) for source, target in (line.split("\t")[:2] for line in lines)])
    random.Random(1).shuffle(found[1])
    return found[0], found[1]


def summaries() -> tuple[list[Pair], list[Pair]]:
    """Articles without their first sentence, and that sentence; every 50th article is for scoring."""
    pairs = []
    for document in documents_of(data_file("pretraining_text/wikipedia.txt.xz")):
        first, *rest = document.replace("\t", " ").split("\n")
        if len(rest) > 1 and 5 <= len(first.split()) <= 60:
            pairs.append((" \N{PILCROW SIGN} ".join(rest)[:2000], first))
    return [pair for number, pair in enumerate(pairs) if number % 50], pairs[::50]


if __name__ == "__main__":
    run_main(main)
