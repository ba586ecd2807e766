"""Translation of image captions: a small version of the original Transformer on Multi30k (Elliott et al. 2016).

    MASKWRIGHT_DATA=path python recipes/multi30k.py --minutes 30 -o runs/multi30k      German to English
    MASKWRIGHT_DATA=path python recipes/multi30k.py --source fr --epochs 40 -o runs/fr
    MASKWRIGHT_DATA=path python recipes/multi30k.py --speed -o runs/multi30k           speeds alone

Trains a joint byte-level BPE, runs `maskwright finetune translation`, and computes BLEU and chrF with beam search on
the official dev split. --minutes limits the training time: the recipe times a few steps and computes the number of
epochs that fits. Epoch, learning rate and all other choices use 1,000 held-out pairs of train. Then a
torch.nn.Transformer of the same size is trained on the same batches with the same schedule, and decoded with the same
beam search. --side trains only one of them, so that two processes with --threads 1 can run in parallel. Rerun the same
command to resume. --speed alternates training steps and beam search on the same batches, and prints tokens per second
of both.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from captions import captions
from data_sets import made_once
from plain_transformer import PlainDecoder, PlainJob, PlainTransformer, padded
from running import run_main

from maskwright.core import storage
from maskwright.core.config import to_dict
from maskwright.core.progress import console, note, track
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.inference.ready import place
from maskwright.models.decoding.search import Beams, search_beams
from maskwright.models.decoding.translation import longest_translation, translate_ids
from maskwright.models.device import resolve_device, resolve_precision
from maskwright.tasks.rows.examples import rows_of
from maskwright.tasks.translation.scores import corpus_scores
from maskwright.tasks.translation.task import BEAMS, Translation
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import FinetuningSetup, finetune
from maskwright.train.finetuning.job import DiskBestModelSaver, WeightAverager
from maskwright.train.finetuning.seeds import epoch_settings
from maskwright.train.loop import train
from maskwright.train.optimizer import adamw
from maskwright.train.run import RunFolder, open_run

HELD_BACK = 1000  # pairs of train on which choices are made
ROUNDS, STEPS = 5, 4  # turns of a comparison, and steps of a turn
MEASURED_STEPS = 6
SIDE_BY_SIDE = 12  # texts of the plain network's beams


def main() -> None:
    """Train and score both, or compare speeds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", "--output", type=Path, required=True)
    options.add_argument("--source", choices=["de", "fr"], default="de")
    options.add_argument("--minutes", type=float, default=30.0, help="of our training; --epochs says it otherwise")
    options.add_argument("--epochs", type=int)
    options.add_argument("--vocab-size", type=int, default=8000)
    options.add_argument("--batch-tokens", type=int, default=4096)
    options.add_argument("--preset", default="transformer-mini")
    options.add_argument("--device", default="auto")
    options.add_argument("--precision", default="auto")
    options.add_argument("--seed", type=int, default=0, help="of both; another one needs another -o")
    options.add_argument("--threads", type=int)
    options.add_argument("--side", choices=["both", "ours", "plain"], default="both")
    options.add_argument("--speed", action="store_true", help="speeds alone")
    chosen = options.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    data = prepare(chosen.output, chosen.source, chosen.vocab_size)
    if chosen.speed:
        compare(recipe_of(chosen, data, 1))
        return
    recipe = recipe_of(chosen, data, epochs_of(chosen, data))
    rows = []
    if chosen.side != "plain":
        result = finetune(recipe)
        console().print(f"report: {result.report}")
        model = place(load_model(result.model)[0], chosen.device, chosen.precision)
        rows.append(one_side(model, recipe, data))
    if chosen.side != "ours":
        rows.append(other_side(recipe, data))
    show(chosen, rows)


def prepare(output: Path, source: str, vocab_size: int) -> Path:
    """Line-aligned files and the tokenizer in `output`/data-`source`, made once."""
    return made_once(
        output / f"data-{source}", {"vocab_size": vocab_size}, partial(write_data, source=source, vocab_size=vocab_size)
    )


def write_data(new: Path, *, source: str, vocab_size: int) -> None:
    """The same into a new folder."""
    train, official_part = captions("train"), captions("dev")
    rows = list(range(len(train["en"])))
    random.Random(0).shuffle(rows)
    languages = (source, "en")
    parts = {
        name: {language: [train[language][row] for row in own] for language in languages}
        for name, own in (("held", rows[:HELD_BACK]), ("train", rows[HELD_BACK:]))
    }
    parts["dev"] = {language: official_part[language] for language in languages}
    for name, own in parts.items():
        for language, texts in own.items():
            storage.write_text(new / f"{name}.{language}.txt", "".join(text + "\n" for text in texts))
    files = [str(new / f"train.{language}.txt") for language in languages]
    Tokenizer.train(files, kind="byte-bpe", vocab_size=vocab_size).save(new / "tokenizer")


def recipe_of(chosen: argparse.Namespace, data: Path, epochs: int) -> FinetuneConfig:
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
        epochs=epochs,
        batch_tokens=chosen.batch_tokens,
        max_length=96,
        lr=2e-3,
        warmup=1000 if epochs >= 10 else 0.3,
        average_checkpoints=min(5, max(epochs // 2, 1)),
        seed=chosen.seed,
        device=chosen.device,
        precision=chosen.precision,
    )


def epochs_of(chosen: argparse.Namespace, data: Path) -> int:
    """Return the number of epochs that fit into the time: measured once, and reused when the run resumes."""
    if chosen.epochs:
        return int(chosen.epochs)
    plan = chosen.output / "plan.json"
    wanted = {"minutes": chosen.minutes, "batch_tokens": chosen.batch_tokens, "preset": chosen.preset}
    known = storage.read_json(plan) if plan.exists() else {}
    if wanted.items() <= known.items():
        return int(known["epochs"])
    bench, job = job_of(recipe_of(chosen, data, 1), RunFolder(chosen.output / "measured", {}))
    step = stepper(job.model, bench)
    batches = [batch for number in range(MEASURED_STEPS + 1) for batch in job.micro_batches(number)]
    step(batches[0])  # warm
    start = time.perf_counter()
    for batch in batches[1:]:
        step(batch)
    tokens = sum(batch.num_all_tokens for batch in batches[1:])
    per_epoch = int(job.train.lengths.sum()) * (time.perf_counter() - start) / tokens
    epochs = max(int(chosen.minutes * 60 / per_epoch), 1)
    note(f"An epoch takes about {per_epoch:,.0f} s here: {epochs:,} epochs in {chosen.minutes:g} minutes.")
    storage.write_json(plan, wanted | {"epochs": epochs, "seconds_per_epoch": round(per_epoch, 1)})
    return epochs


def job_of(recipe: FinetuneConfig, folder: RunFolder) -> tuple[FinetuningSetup, Any]:
    """The training of our side at its first step."""
    device = resolve_device(recipe.device)
    resolved = recipe.resolved(str(device), resolve_precision(recipe.precision, device, training=True))
    bench = FinetuningSetup(resolved, device)
    return bench, bench.job(0, folder)


# -- both sides -------------------------------------------------------------------------------------------------------


def one_side(model: Any, recipe: FinetuneConfig, data: Path) -> dict[str, Any]:
    """Score our model on the official dev split, which was not used for any choice."""
    sources, wanted = official(data)
    task = Translation()
    examples = task.unlabeled(list(rows_of(sources)), model.tokenizer, 128, counts=TextCounts())
    start = time.perf_counter()
    written = task.predict(model, examples)
    seconds = time.perf_counter() - start
    texts = [answer["translation"] for answer in written]
    tokens = sum(len(model.tokenizer.encode_plain([text])[0]) + 1 for text in texts)
    log = RunFolder(recipe.output / f"seed-{recipe.seed}", {}).records()
    return facts("maskwright", model.num_parameters, log, tokens / seconds, texts, wanted)


def other_side(recipe: FinetuneConfig, data: Path) -> dict[str, Any]:
    """Train and score torch.nn.Transformer on the same batches; resumes."""
    device = resolve_device(recipe.device)
    resolved = recipe.resolved(str(device), resolve_precision(recipe.precision, device, training=True))
    folder = recipe.output.parent / "plain"
    with open_run(folder, to_dict(resolved)) as run:
        bench, job = plain_job(resolved, run, device)
        if run.result is None:
            settings = epoch_settings(resolved, job.steps_per_epoch, resolved.seed, job.adam)
            train(job, settings, run, name="torch.nn.Transformer")
            run.finish({"best_step": job.best["step"]})
        job.conclude()
        log = run.records()
    network, tokenizer = job.model, bench.tokenizer
    sources, wanted = official(data)
    start = time.perf_counter()
    found = plain_beams(
        network, bench, bench.task.unlabeled(list(rows_of(sources)), tokenizer, 128, counts=TextCounts())
    )
    seconds = time.perf_counter() - start
    texts = [tokenizer.decode(ids).strip() for ids in found]
    number = sum(parameter.numel() for parameter in network.parameters())
    return facts("torch.nn.Transformer", number, log, sum(len(ids) + 1 for ids in found) / seconds, texts, wanted)


def plain_job(recipe: FinetuneConfig, run: RunFolder, device: torch.device) -> tuple[FinetuningSetup, PlainJob]:
    """Its training, with the batches that ours has."""
    bench = FinetuningSetup(recipe, device)
    model, examples, dev = bench.start(recipe.seed)
    torch.manual_seed(recipe.seed)
    job = PlainJob(
        PlainTransformer(model.config, recipe.precision).to(device),  # type: ignore[arg-type]
        bench.task,
        examples,
        dev,
        DiskBestModelSaver(run.path / "best"),
        batch_size=recipe.batch_size,
        seed=recipe.seed,
        device=device,
        batch_tokens=recipe.batch_tokens,
        last=WeightAverager(run.path / "last", recipe.average_checkpoints),
    )
    return bench, job


def plain_beams(
    network: PlainTransformer, bench: FinetuningSetup, examples: Any, most: int | None = None
) -> list[list[int]]:
    """The best of five beams for each source, shortest sources first, by the product's own search."""
    tokenizer = bench.tokenizer
    network.eval()
    start = bench.first_model().config.decoder_start_token_id
    assert start is not None and tokenizer.eos_id is not None
    banned = {one for one in (tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id) if one is not None}
    ends = set() if most else {tokenizer.eos_id}
    order = sorted(range(len(examples)), key=lambda row: len(examples.input_ids[row]))
    found: list[list[int]] = [[] for _ in order]
    with track("torch.nn.Transformer, beams", len(order), "texts") as progress:
        for first in range(0, len(order), SIDE_BY_SIDE):
            rows = order[first : first + SIDE_BY_SIDE]
            sources = [torch.from_numpy(examples.input_ids[row]).to(network.words.weight.device) for row in rows]
            limit = most or longest_translation(max(map(len, sources)), 200)
            decoder = PlainDecoder(network, sources, start)
            prompts = [[start]] * len(rows)
            texts = search_beams(
                decoder, prompts, Beams(BEAMS), max_new_tokens=limit, end_ids=ends, banned_ids=banned - ends
            )
            for row, text in zip(rows, texts, strict=True):
                found[row] = text[0].ids
            progress.update(first + len(rows), "")
    return found


def official(data: Path) -> tuple[list[str], list[str]]:
    """Return sources and references of the official dev split."""
    source = next(path for path in data.glob("dev.*.txt") if path.name != "dev.en.txt")
    table = Translation.read((source, data / "dev.en.txt"))
    return [row.text for row in table.rows], [str(row.label) for row in table.rows]


def facts(
    name: str, parameters: int, log: list[dict[str, Any]], beam_rate: float, texts: list[str], wanted: list[str]
) -> dict[str, Any]:
    """A column of the table."""
    scores, signatures = corpus_scores(texts, wanted)
    steps = [record for record in log if "tokens_per_second" in record]
    return {
        "name": name,
        "parameters": f"{parameters:,}",
        "training, minutes": f"{sum(record['seconds'] for record in steps) / 60:.1f}",
        "training, tokens/s": f"{median(record['tokens_per_second'] for record in steps):,.0f}",
        "5 beams, tokens/s": f"{beam_rate:,.0f}",
        "BLEU": f"{scores['bleu']:.2f}",
        "chrF": f"{scores['chrf']:.2f}",
        "signatures": signatures,
    }


def show(chosen: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{chosen.source}-en, official dev split of Multi30k")
    for name in rows[0]:
        if name != "signatures":
            print(f"{'' if name == 'name' else name:<22}" + "".join(f"{row[name]:>24}" for row in rows))
    for signature in rows[0]["signatures"].values():
        print(signature)


# -- speeds in turn ---------------------------------------------------------------------------------------------------


def stepper(model: Any, bench: FinetuningSetup) -> Callable[[Batch], None]:
    """A step of training of our side."""
    model.train()
    optimizer = adamw(model, bench.config.lr, bench.config.weight_decay)

    def step(batch: Batch) -> None:
        outcome = bench.task.outcome(model, batch)
        (outcome.losses["translation"] / outcome.counts["translation"]).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def compare(recipe: FinetuneConfig) -> None:
    """Tokens a second of training (the other network in both precisions) and of beams (float32), on the same batches in
    turn.
    """
    bench, job = job_of(recipe, RunFolder(recipe.output, {}))
    model = job.model
    plain = PlainTransformer(model.config).train()
    optimizer = adamw(plain, recipe.lr, recipe.weight_decay)

    def step_of_plain(batch: Batch, half: bool) -> None:
        plain.half = half
        source, target, no_source, no_target = padded(batch)
        logits = plain(source, target, no_source, no_target)[~no_target].float()
        torch.nn.functional.cross_entropy(logits, batch.labels["words"], label_smoothing=0.1).backward()
        optimizer.step()
        optimizer.zero_grad()

    note(f"{model.num_parameters:,} parameters, {sum(p.numel() for p in plain.parameters()):,} in the other")
    batches = [batch for number in range(ROUNDS * STEPS) for batch in job.micro_batches(number)]
    parts = [batches[number * STEPS : (number + 1) * STEPS] for number in range(ROUNDS)]
    sides = {
        "maskwright": stepper(model, bench),
        "torch.nn.Transformer": partial(step_of_plain, half=False),
        "the same, autocast": partial(step_of_plain, half=True),
    }

    def trained(step: Callable[[Batch], None], part: list[Batch]) -> int:
        for batch in part:
            step(batch)
        return sum(batch.num_all_tokens for batch in part)

    turns("training", {name: lambda part, own=step: trained(own, part) for name, step in sides.items()}, parts)
    model.eval()
    plain.half = False
    rows = [list(range(number * 32, number * 32 + 32)) for number in range(ROUNDS)]
    most = 24  # untrained networks end no text: both write as much

    def ours(part: list[int]) -> int:
        sources = [bench.dev.input_ids[row] for row in part]
        translate_ids(model, sources, Beams(BEAMS), end_ids=(), max_new_tokens=most)
        return most * len(part)

    def theirs(part: list[int]) -> int:
        examples = bench.task.unlabeled(
            [bench.dev.rows[row] for row in part], bench.tokenizer, 128, counts=TextCounts()
        )
        plain_beams(plain, bench, examples, most)
        return most * len(part)

    turns("5 beams", {"maskwright": ours, "torch.nn.Transformer": theirs}, rows)


def turns(what: str, sides: dict[str, Callable[[Any], int]], parts: list[Any]) -> None:
    """Every side does every part in turn; print tokens a second."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side(parts[0])  # warm
    for part in parts:
        for name, side in sides.items():
            start = time.perf_counter()
            tokens = side(part)
            rates[name].append(tokens / (time.perf_counter() - start))
    for name, values in rates.items():
        print(f"{what:<10}{name:<22}  {median(values):8.0f} tokens a second")
    ours, *others = rates.items()
    for name, values in others:
        ratio = median(a / b for a, b in zip(ours[1], values, strict=True))
        print(f"{what:<10}{ours[0]} / {name}: {ratio:.2f}", flush=True)


if __name__ == "__main__":
    run_main(main)
