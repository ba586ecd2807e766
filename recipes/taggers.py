"""The effect of bidirectional layers, a CRF and ELMo features on named-entity recognition, on CoNLL-2003.

    MASKWRIGHT_DATA=path python recipes/taggers.py -o runs/taggers                     4,000 sentences, 3 seeds
    MASKWRIGHT_DATA=path python recipes/taggers.py --rows 0 --epochs 20 -o runs/all    all sentences
    MASKWRIGHT_DATA=path python recipes/taggers.py --rows 60 --epochs 1 --seeds 1 --hidden 32 --pretrain-steps 4 \
        -o runs/try

Five taggers: a unidirectional LSTM, a BiLSTM (Graves and Schmidhuber 2005), a BiLSTM-CRF (Huang et al. 2015), a
BiLSTM-CRF with the features of two frozen language models pre-trained on raw news, next to trained embeddings (Peters
et al. 2018), and the same with random language models, to measure the effect of pre-training. All have the same number
of trained parameters (the widths of the first three are searched), sentences, subword tokens, learning rate and epochs,
for the seeds 0 to N - 1; the language models are trained once.

Every run keeps the best epoch on held-out sentences of train. The official dev split is scored once, at the end.
table.json has the numbers. The defaults take about 40 minutes on one core. Rerun the same command to resume.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from data_sets import data_file, made_once
from figures import minutes_of, spread
from running import run_main

from maskwright.api import open_predictor
from maskwright.core import storage
from maskwright.core.progress import note
from maskwright.hub.folders import load_model, save_model
from maskwright.models.build import build, make_model
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.tasks.tagging.task import Tagging
from maskwright.text.formats.files import open_bytes
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune, network_from_scratch
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import pretrain

COLUMNS = {"token": "0", "tag": "3"}
MAX_LENGTH = 128
WIDTHS = range(8, 1024, 2)


@dataclass(frozen=True)
class Tagger:
    """One of the comparison.

    parameters: those that train; start: settings of a FinetuneConfig for its initialization.
    """

    name: str
    folder: str
    parameters: int
    start: dict[str, Any] = field(default_factory=dict)


def main() -> None:
    """Pre-train, train all taggers, score them."""
    chosen = _options()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    data = prepare(chosen)
    found: dict[str, list[dict[str, Any]]] = {}
    for tagger in taggers(chosen, data):
        for seed in range(chosen.seeds):
            result = finetune(recipe_of(chosen, data, tagger, seed))
            found.setdefault(tagger.name, []).append(
                {
                    "seed": seed,
                    "parameters": tagger.parameters,
                    "minutes": minutes_of(result.output / f"seed-{seed}"),
                    "held_back_f1": result.mean["entity_f1"],
                    "dev_f1": score(chosen, result.model),
                }
            )
    table = {"rows": chosen.rows, "epochs": chosen.epochs, "pretrain_minutes": minutes_of(chosen.output / "elmo")}
    storage.write_json(chosen.output / "table.json", {**table, "runs": found})
    show(table, found)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", "--output", type=Path, required=True)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--rows", type=int, default=4000, help="sentences to train on, 0 for all")
    options.add_argument("--held", type=int, default=800, help="sentences of train that choose the epoch")
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--lr", type=float, default=2e-3)
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--vocab-size", type=int, default=4000)
    options.add_argument("--hidden", type=int, default=256, help="of the language models, both directions together")
    options.add_argument("--embedding", type=int, default=50, help="of the taggers' own vectors")
    options.add_argument("--pretrain-steps", type=int, default=1000)
    options.add_argument("--pretrain-tokens", type=int, default=4096, help="of a step")
    options.add_argument("--device", default="auto")
    options.add_argument("--precision", default="fp32")
    options.add_argument("--threads", type=int)
    chosen = options.parse_args()
    if chosen.seeds < 1:
        options.error("--seeds must be 1 or more")
    return chosen


# -- data -------------------------------------------------------------------------------------------------------------


def prepare(chosen: argparse.Namespace) -> Path:
    """Sentences to train on, those held back, and the tokenizer of the raw text in `output`/data, made once."""
    sizes = {"rows": chosen.rows, "held": chosen.held, "vocab_size": chosen.vocab_size}
    return made_once(chosen.output / "data", sizes, partial(write_data, chosen))


def write_data(chosen: argparse.Namespace, new: Path) -> None:
    """The same into a new folder."""
    with open_bytes(data_file("conll2003/train.conll.xz")) as handle:
        sentences = handle.read().decode("utf-8").strip("\n").split("\n\n")
    random.Random(0).shuffle(sentences)
    parts = {"held": sentences[: chosen.held], "train": sentences[chosen.held :][: chosen.rows or None]}
    for name, own in parts.items():
        storage.write_text(new / f"{name}.conll", "\n\n".join(own) + "\n")
    raw = [str(raw_text())]
    Tokenizer.train(raw, kind="wordpiece", vocab_size=chosen.vocab_size, lowercase=False).save(new / "tokenizer")


def raw_text() -> Path:
    """News of nine years before."""
    return data_file("pretraining_text/reuters.txt.xz")


# -- networks ---------------------------------------------------------------------------------------------------------


def taggers(chosen: argparse.Namespace, data: Path) -> list[Tagger]:
    """All five, which train as many parameters as the last two."""
    tags = Tagging.from_rows(Tagging.read(data / "train.conll", columns=COLUMNS).rows).labels
    elmo = language_models(chosen, data)
    standing = load_model(elmo, None)[0]
    blank = without_training(chosen, standing)
    on_top = {"mix_layers": True, "top_layers": 1, "top_embedding_size": chosen.embedding}
    lifted = replace(standing.config, **on_top)
    wanted = count(lifted, "tagging-crf", tags) - standing.num_parameters
    found = []
    for name, preset, crf in (
        ("LSTM", "lstm-small", False),
        ("BiLSTM", "bilstm-small", False),
        ("BiLSTM-CRF", "bilstm-small", True),
    ):
        network, parameters = fitted(chosen, data, preset, "tagging-crf" if crf else "tagging", tags, wanted)
        start = {"preset": preset, "tokenizer": data / "tokenizer", "network": network, "crf": crf}
        found.append(Tagger(name, name.lower(), parameters, start))
    for name, folder, model in (("random features", "random", blank), ("ELMo features", "lifted", elmo)):
        start = {"model": str(model), "network": on_top, "freeze_encoder": True, "crf": True}
        found.append(Tagger(f"{name}, BiLSTM-CRF", folder, wanted, start))
    for tagger in found:
        note(f"{tagger.name}: {tagger.parameters:,} parameters train.")
    return found


def language_models(chosen: argparse.Namespace, data: Path) -> Path:
    """The model folder of two language models, one from each end, of the raw text."""
    result = pretrain(
        PretrainConfig(
            corpus=(str(raw_text()),),
            output=chosen.output / "elmo",
            preset="elmo-small",
            objective="bilm",
            tokenizer=data / "tokenizer",
            model={"hidden_size": chosen.hidden},
            steps=chosen.pretrain_steps,
            batch_tokens=chosen.pretrain_tokens,
            max_length=64,
            lr=2e-3,
            device=chosen.device,
            precision=chosen.precision,
        )
    )
    return result.model


def without_training(chosen: argparse.Namespace, trained: Model) -> Path:
    """The folder of the same network with random weights, made once."""
    folder: Path = chosen.output / "random-model"
    if not folder.is_dir():
        model = build(trained.config, None, seed=0)
        model.tokenizer = trained.tokenizer
        save_model(model, folder)
    return folder


def fitted(
    chosen: argparse.Namespace, data: Path, preset: str, head: str, tags: tuple[str, ...], wanted: int
) -> tuple[dict[str, Any], int]:
    """Settings of a network of one layer that has as nearly as possible `wanted` parameters, and how many it has."""
    tokenizer = Tokenizer.load(data / "tokenizer")
    same = {"num_hidden_layers": 1, "embedding_size": chosen.embedding}

    def of_width(width: int) -> int:
        return count(network_from_scratch(preset, same | {"hidden_size": width}, tokenizer, None), head, tags)

    width = min(WIDTHS, key=lambda one: abs(of_width(one) - wanted))
    return same | {"hidden_size": width}, of_width(width)


def count(config: ModelConfig, head: str, tags: tuple[str, ...]) -> int:
    """Parameters of a tagger; nothing is allocated."""
    with torch.device("meta"):
        return make_model(config, head, labels=tags).num_parameters


def recipe_of(chosen: argparse.Namespace, data: Path, tagger: Tagger, seed: int) -> FinetuneConfig:
    """What is trained and how."""
    return FinetuneConfig(
        task="tagging",
        train=data / "train.conll",
        dev=data / "held.conll",
        columns=COLUMNS,
        output=chosen.output / f"{tagger.folder}-{seed}",
        epochs=chosen.epochs,
        lr=chosen.lr,
        batch_size=chosen.batch_size,
        max_length=MAX_LENGTH,
        seed=seed,
        device=chosen.device,
        precision=chosen.precision,
        **tagger.start,
    )


# -- scores -----------------------------------------------------------------------------------------------------------


def score(chosen: argparse.Namespace, model: Path) -> float:
    """Return the entity F1 on the official dev split, which was not used for any choice."""
    predictor = open_predictor(model, device=chosen.device, precision=chosen.precision)
    rows = predictor.task.read_known(data_file("conll2003/dev.conll"), columns=COLUMNS).rows
    return float(predictor.evaluate(rows)[1].metrics["entity_f1"])


def show(table: dict[str, Any], found: dict[str, list[dict[str, Any]]]) -> None:
    """Print the table."""
    print(f"CoNLL-2003, official dev split; pre-training took {table['pretrain_minutes']:.1f} minutes")
    print(f"{'':<28}{'trained':>10}{'held back, F1':>18}{'dev, F1':>18}{'minutes':>10}")
    for name, runs in found.items():
        scores = [spread([100 * run[part] for run in runs]) for part in ("held_back_f1", "dev_f1")]
        minutes = mean(run["minutes"] for run in runs)
        print(f"{name:<28}{runs[0]['parameters']:>10,}{scores[0]:>18}{scores[1]:>18}{minutes:>10.1f}")


if __name__ == "__main__":
    run_main(main)
