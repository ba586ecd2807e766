"""Compare the speed of all installed backends (`make bench`), and write the speed part of docs/results/speed.md.

    python benchmarks/speed/run.py -o runs/speed
    python benchmarks/speed/run.py -o runs/tiny --parts natural --count 200 --rounds 2 --page tiny.md

Each backend runs in a separate process with the same texts; they alternate, in rounds. Before timing, the embeddings
are compared with transformers' in float32 (centered cosine similarities). A backend that is not installed, or fails, is
listed with the reason. Results are saved part by part, so rerun the same command to resume; `--table` only writes the
page of the saved results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "recipes")]

from common import minilm_folder  # noqa: E402
from cpu import cpu_name  # noqa: E402
from encoders import CONTENDERS, REFERENCE  # noqa: E402
from tables import commit, table, version, write_part  # noqa: E402
from training import contests, hold  # noqa: E402

from maskwright.core.progress import note, set_quiet  # noqa: E402
from maskwright.core.randomness import generator  # noqa: E402
from maskwright.core.storage import write_json  # noqa: E402
from maskwright.core.util import usable_cores  # noqa: E402
from maskwright.doctor.machine import machine_facts  # noqa: E402
from maskwright.speed.backend import BackendError, BackendProcess, centered_cosines, percentile  # noqa: E402
from maskwright.speed.bench import SHORTEST, built_in_texts, text_of_length, texts_of_file  # noqa: E402
from maskwright.text.tokenizers.tokenizer import Tokenizer  # noqa: E402

INFERENCE = ("natural", "tail", "long", "lists", "singles", "latency")
TRAINING = ("pretraining", "finetuning")
OURS, BASELINE = "maskwright", "transformers"  # the baseline of the ratios: float32, batches in the order of arrival
MOST_WORDS, MIN_COSINE = 128, 0.98  # of single requests: a less exact backend is not timed
PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "onnxruntime",
    "openvino",
    "nncf",
    "ctranslate2",
    "accelerate",
    "numpy",
)
LONG, LIST_SIZE, COMPARED, CALIBRATION, SMALLEST_SAMPLE = 512, 64, 64, 128, 1024
TAIL_MEAN, TAIL_TEXTS = 150, 64
TAIL = 0.9  # standard deviation of the log length: the 90th percentile is about three times the median


def main() -> None:
    """Measure what is not there yet, and write the page."""
    options = arguments()
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    if not options.table:
        set_quiet(options.quiet)
        write_json(output / "machine.json", machine(options))
        for model in options.models.split(","):
            parts = [part for part in options.parts.split(",") if part in INFERENCE]
            missing = [part for part in parts if not (output / f"{model}-{part}.json").is_file()]
            if missing:
                measure_inference(model, missing, options)
        for part in options.parts.split(","):
            if part in TRAINING:
                measure_training(part, options)
    write_page(output, options.page)
    print(f"results: {output}")


def write_page(output: Path, page: Path) -> None:
    """Write a table for each part that is measured, between marks in the page."""
    facts = json.loads((output / "machine.json").read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if version)
    lines = [f"{facts['processor']}, {facts['options']['threads']} threads, {versions}. Medians over rounds; compare"]
    lines += ["only within one table."]
    for path in sorted(output.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        for setting, part in found.get("settings", {"": found} if "part" in found else {}).items():
            rows = {name: {**row, "cosine": found.get("cosines", {}).get(name)} for name, row in part["rows"].items()}
            head = ", ".join(filter(None, (found["part"], found.get("model"), setting, f"commit {part['commit']}")))
            lines += ["", f"### {head}", "", *table(rows, "median", BASELINE)]
            lines += [f"\nNot measured: {name}: {' '.join(why.split())[:200]}" for name, why in part["missing"].items()]
    write_part(page, "speed", lines, "Benchmarks")


def arguments() -> argparse.Namespace:
    """Flags; the defaults are the sizes of the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/speed"))
    parser.add_argument("--page", type=Path, default=HERE.parents[1] / "docs" / "results" / "speed.md")
    parser.add_argument("--models", default="minilm", help="minilm, base, mini, or model folders, separated by commas")
    parser.add_argument("--parts", default=",".join((*INFERENCE, *TRAINING)))
    parser.add_argument("--only", help="only these contenders of inference, and of training, separated by commas")
    parser.add_argument(
        "--texts", type=Path, help="one text per line, .txt or .txt.xz; default: $MASKWRIGHT_DATA's, or Python's"
    )
    parser.add_argument("--count", type=int, default=10_000, help="texts of natural lengths")
    parser.add_argument("--long-count", type=int, default=64, help="texts of 512 tokens")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--most-seconds", type=float, default=20.0, help="of one measurement; peers that are slower get a sample"
    )
    parser.add_argument("--requests", type=int, default=100, help="of one latency measurement")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--batch", type=int, default=32, help="rows of the peers' padded batches")
    parser.add_argument("--steps", type=int, default=20, help="of a pre-training measurement")
    parser.add_argument("--settings", default="mini-8k,mini-30k,small-8k,base-30k", help="of pre-training")
    parser.add_argument("--rows", type=int, default=2048, help="of a fine-tuning measurement")
    parser.add_argument("--table", action="store_true", help="write the page of what is measured, and stop")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


def measure_inference(model: str, parts: list[str], options: argparse.Namespace) -> None:
    """All contenders on one model, in the parts that are missing; a file for each part."""
    folder = model_folder(model, options.output)
    tokenizer = Tokenizer.load(folder)
    length = min(json.loads((folder / "config.json").read_text())["max_position_embeddings"], LONG)
    texts = read_texts(options.texts, options.count + CALIBRATION)
    calibration, texts = calibration_texts(texts[-CALIBRATION:]), texts[:-CALIBRATION]
    work = options.output / "converted" / model.replace("/", "_")
    work.mkdir(parents=True, exist_ok=True)
    shared = {"model": str(folder.resolve()), "work": str(work.resolve()), "max_length": length, "batch": options.batch,
              "threads": options.threads, "calibration": calibration}  # fmt: skip
    names = options.only.split(",") if options.only else list(CONTENDERS)
    with contenders([name for name in CONTENDERS if name in names], shared, options) as (children, missing):
        contest = Contest(children, texts, tokenizer, length, options)
        cosines = compare(contest, missing)
        for part in parts:
            note(f"{model}, {part}: {', '.join(children)}")
            found = {"model": model, "part": part, "commit": commit(), "missing": missing, "cosines": cosines}
            found |= PARTS[part](contest)
            write_json(options.output / f"{model.replace('/', '_')}-{part}.json", found)


def measure_training(part: str, options: argparse.Namespace) -> None:
    """The settings that are missing, each written as soon as it is measured."""
    path = options.output / f"{part}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"part": part, "settings": {}}
    for name, commands in contests(part, options, minilm()).items():
        if name not in found["settings"]:
            note(f"{part}, {name} ...")
            found["settings"][name] = hold(commands, options) | {"commit": commit()}
            write_json(path, found)


@contextmanager
def contenders(
    names: list[str], settings: dict[str, Any], options: argparse.Namespace
) -> Iterator[tuple[dict[str, BackendProcess], dict[str, str]]]:
    """Those that could be loaded, and why the others could not."""
    children: dict[str, BackendProcess] = {}
    missing: dict[str, str] = {}
    try:
        for name in names:
            note(f"loading {name}")
            child = BackendProcess(name, [sys.executable, str(HERE / "encoders.py"), name], options.threads)
            try:
                child.ask("load", **settings)
                children[name] = child
            except BackendError as error:
                missing[name] = str(error)
                note(f"missing: {error}")
                child.close()
        yield children, missing
    finally:
        for child in children.values():
            child.close()


@dataclass
class Contest:
    """The backends that compete, and what they get. length: the most tokens of a text."""

    children: dict[str, BackendProcess]
    texts: list[str]
    tokenizer: Tokenizer
    length: int
    options: argparse.Namespace

    def texts_of(self, lengths: list[int]) -> list[str]:
        """Texts of N tokens for each N of `lengths`, each from a different word on."""
        words = " ".join(self.texts).split()
        step = max(len(words) // len(lengths), 1)
        return [
            text_of_length(self.tokenizer, [" ".join(words[start * step :]), *self.texts], length)
            for start, length in enumerate(lengths)
        ]


def vectors_of(children: dict[str, BackendProcess], texts: list[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The vectors of each backend, and those in float32: [texts, hidden]."""
    vectors = {}
    for name, child in children.items():
        child.ask("texts", texts=texts)
        vectors[name] = np.array(child.ask("vectors", count=len(texts)))
    return vectors, vectors.get(REFERENCE, next(iter(vectors.values())))


def compare(contest: Contest, missing: dict[str, str]) -> dict[str, dict[str, float]]:
    """Mean and lowest centered cosine to float32. One whose vectors are others' is excluded."""
    children = contest.children
    chosen = [*contest.texts[:COMPARED], *contest.texts_of([contest.length] * 2)]
    vectors, reference = vectors_of(children, chosen)
    found = {name: centered_cosines(own, reference) for name, own in vectors.items()}
    for name, cosines in found.items():
        if float(cosines.mean()) < 0.8:
            missing[name] = f"its vectors are not the model's (mean centered cosine {float(cosines.mean()):.3f})"
            children.pop(name).close()
    return {name: {"mean": float(own.mean()), "min": float(own.min())} for name, own in found.items()}


def tail(contest: Contest) -> dict[str, Any]:
    """Few texts of very different lengths: sorting cannot help there."""
    mean = math.log(min(TAIL_MEAN, contest.length // 2)) - TAIL**2 / 2
    draws = generator(0, "long-tailed texts").lognormal(mean, TAIL, size=TAIL_TEXTS)
    return bulk(contest, contest.texts_of(np.clip(draws.round().astype(int), SHORTEST, contest.length).tolist()))


def long(contest: Contest) -> dict[str, Any]:
    """Every text as long as the model takes, at most 512 tokens: nothing to pad, nothing to sort."""
    return bulk(contest, contest.texts_of([contest.length] * contest.options.long_count))


def latency(contest: Contest) -> dict[str, Any]:
    """Requests of 32 and of 128 tokens one by one, by the backends whose vectors of short texts are right too."""
    options = contest.options
    cosines = smallest_cosines(contest.children, list(itertools.islice(of_words(contest.texts), MOST_WORDS)))
    children = {name: child for name, child in contest.children.items() if cosines[name] >= MIN_COSINE}
    requests = {
        size: text_of_length(contest.tokenizer, contest.texts, size) for size in (32, 128) if size <= contest.length
    }
    delays: dict[str, dict[int, list[float]]] = {name: {size: [] for size in requests} for name in children}
    for number in range(options.rounds):
        for name, child in children.items():
            for size, text in requests.items():
                delays[name][size] += child.ask(
                    "latency", text=text, times=options.requests, most_seconds=options.most_seconds / 4
                )
        note(f"round {number + 1} of {options.rounds}")
    shares = {"p50": 0.5, "p99": 0.99}
    return {
        "smallest": cosines,
        "rows": {
            name: {str(size): {key: percentile(waits, share) for key, share in shares.items()}
                   for size, waits in found.items()}
            for name, found in delays.items()
        }
    }  # fmt: skip


def smallest_cosines(children: dict[str, BackendProcess], texts: list[str]) -> dict[str, float]:
    """The lowest cosine similarity to float32 of the vectors of each backend."""
    vectors, reference = vectors_of(children, texts)
    scales = np.linalg.norm(reference, axis=1)
    return {
        name: float(((own * reference).sum(axis=1) / (np.linalg.norm(own, axis=1) * scales)).min())
        for name, own in vectors.items()
    }


def bulk(contest: Contest, texts: list[str], list_size: int | None = None) -> dict[str, Any]:
    """Tokens a second, round after round. A peer that needs more than --most-seconds gets a sample, ours all texts."""
    children, options = contest.children, contest.options
    lengths = np.array([len(ids) for ids in contest.tokenizer.encode_ids(texts, contest.length)[0]])
    first = min(2 * LIST_SIZE, len(texts))
    counts, tokens = {}, {}
    for name, child in children.items():
        child.ask("texts", texts=texts)
        child.ask("bulk", count=first, list_size=list_size)  # warm
        seconds = child.ask("bulk", count=first, list_size=list_size)
        affordable = max(int(options.most_seconds / seconds * first), SMALLEST_SAMPLE)
        rows = np.arange(len(texts))
        if affordable < len(texts) and not name.startswith(OURS):
            rows = rows[:affordable] if list_size else sample(lengths, affordable, options.batch)
            child.ask("texts", texts=[texts[row] for row in rows])
        counts[name], tokens[name] = len(rows), int(lengths[rows].sum())
    rates: dict[str, list[float]] = {name: [] for name in children}
    for number in range(options.rounds):
        for name, child in children.items():
            child.ask("bulk", count=first, list_size=list_size)  # warm again: it has waited for minutes
            rates[name].append(tokens[name] / child.ask("bulk", count=counts[name], list_size=list_size))
        note(f"round {number + 1} of {options.rounds}")
    memory = {name: child.ask("memory") for name, child in children.items()}
    return {
        "texts": len(texts),
        "mean_tokens": float(lengths.mean()),
        "longest": int(lengths.max()),
        "rows": {
            name: {"rates": own, "median": median(own), "count": counts[name], "memory": memory[name]}
            for name, own in rates.items()
        },
    }


def sample(lengths: np.ndarray, count: int, batch: int) -> np.ndarray:
    """About `count` rows such that those who sort by length pad as much as with all: every so many batches in the order
    of length, whole. lengths: int [rows]. Returns rows in their order, int64 [about count].
    """
    order = np.argsort(lengths, kind="stable")
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]
    kept = min(max(count // batch, 1), len(batches))
    chosen = ((np.arange(kept) + 0.5) * len(batches) / kept).astype(int)  # the middle of each range
    return np.sort(np.concatenate([batches[place] for place in chosen]))


PARTS: dict[str, Callable[[Contest], dict[str, Any]]] = {
    "natural": lambda contest: bulk(contest, contest.texts),  # as they come, in one call
    "tail": tail,
    "long": long,
    "lists": lambda contest: bulk(contest, contest.texts[: 16 * LIST_SIZE], LIST_SIZE),  # as they arrive
    "singles": lambda contest: bulk(contest, contest.texts[: 4 * LIST_SIZE], 1),  # each of another length than the last
    "latency": latency,
}


def model_folder(name: str, output: Path) -> Path:
    """MiniLM of the installed package; "base" and "mini" are presets with random weights and MiniLM's tokenizer."""
    if name == "minilm":
        return minilm()
    if name not in ("base", "mini"):
        return Path(name)
    folder = output / "models" / name
    if not folder.exists():
        import maskwright as mw

        model = mw.build(mw.preset(f"bert-{name}", vocab_size=30_522))
        model.tokenizer = Tokenizer.load(minilm())
        folder.parent.mkdir(parents=True, exist_ok=True)
        model.save(folder)
    return folder


def minilm() -> Path:
    """The model folder of the installed package."""
    folder = minilm_folder()
    if folder is None:
        sys.exit("error: The package that carries MiniLM is not installed: make .venv/.test installs it.")
    return Path(folder)


def read_texts(path: Path | None, count: int) -> list[str]:
    """Sentences of natural lengths: of a file, of the data folder's mixed sample, or those that Python carries."""
    if path is None and os.environ.get("MASKWRIGHT_DATA"):
        path = Path(os.environ["MASKWRIGHT_DATA"]) / "pretraining_text" / "sample.txt.xz"
    if path is None:
        return built_in_texts(count)
    texts = texts_of_file(path)
    step = max(len(texts) // count, 1)  # from all over the file
    chosen = texts[::step][:count]
    if len(chosen) < count:
        note(f"{path} has {len(texts):,} lines: {len(chosen):,} of {count:,} texts.")
    return chosen


def of_words(texts: list[str]) -> Iterator[str]:
    """Texts of 1, 2, 3, ... words, each from other ones."""
    words = iter(" ".join(texts).split())
    for count in itertools.count(1):
        text = " ".join(itertools.islice(words, count))
        if text.count(" ") + 1 < count:
            return
        yield text


def calibration_texts(texts: list[str]) -> list[str]:
    """Texts of mixed lengths: most are as they come, every fourth has only a few words."""
    return [" ".join(text.split()[: 1 + row // 4 % 8]) if row % 4 == 0 else text for row, text in enumerate(texts)]


def machine(options: argparse.Namespace) -> dict[str, Any]:
    """What the page says of where and with what it was measured."""
    versions = {name: version(name) for name in PACKAGES}
    kept = ("rounds", "threads", "batch", "count", "long_count", "most_seconds", "requests", "steps", "rows")
    return {
        "facts": machine_facts(),
        "processor": cpu_name(),
        "versions": versions,
        "options": {name: getattr(options, name) for name in kept},
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)
        main()
