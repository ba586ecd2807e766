"""The dry run of a benchmark: rows, runs, steps and disk space. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import InputError
from ...hub.folders import load_model
from ...tasks.qa.windows import make_windows
from ...tasks.spec import spec_of
from ...tasks.tagging.examples import window_sentences
from ...text.readers.squad import Question, ReferenceAnswer
from ...text.readers.tagged import Sentence
from ...text.tokenizers.encoding import TextCounts
from ...text.tokenizers.tokenizer import Tokenizer
from .config import BenchmarkConfig
from .parts import Part, chosen_parts
from .prepare import Record, capped, read_all
from .sources import find_sources


@dataclass(frozen=True)
class BenchmarkTaskPlan:
    """The plan of one part. rows: of each split, training rows after the limit; sequences: per training epoch; steps:
    of all its runs together.
    """

    name: str
    files: dict[str, str]
    rows: dict[str, int]
    rows_in_file: int
    sequences: int
    settings: list[str]
    runs: int
    steps: int


@dataclass(frozen=True)
class Plan:
    """The plan of a benchmark. missing: score -> why it cannot be measured; disk_bytes: of the saved models."""

    parts: list[BenchmarkTaskPlan]
    missing: dict[str, str]
    runs: int
    steps: int
    disk_bytes: int


def plan_benchmark(config: BenchmarkConfig) -> Plan:
    """Read the files and count. Raises the same errors for files, rows and model as the run."""
    parts = {part.name: part for part in chosen_parts(config.benchmark, config.tasks)}
    sources, missing = find_sources(config.data, parts.values())
    model = load_model(config.model)[0]
    if model.tokenizer is None:
        raise InputError(f"{config.model} has no tokenizer: copy its tokenizer.json or vocab.txt to the model folder.")
    files = {source.part.name: {split: str(path) for split, path in source.files.items()} for source in sources}
    planned = []
    for name, splits in read_all(sources, config).items():
        part = parts[name]
        train = capped(splits["train"].records, config, part)
        sequences = _sequences(part, train, model.tokenizer, config.max_length or part.max_length)
        settings, others = config.settings, config.seeds - 1
        steps = [one.epochs * -(-sequences // one.batch_size) for one in settings]
        rows = {split: len(found.records) for split, found in splits.items()} | {"train": len(train)}
        planned.append(
            BenchmarkTaskPlan(
                name,
                files[name],
                rows,
                len(splits["train"].records),
                sequences,
                [one.words for one in settings],
                len(settings) + others,
                sum(steps) + others * max(steps),  # the best setting of a grid is not known yet
            )
        )
    runs = sum(part.runs for part in planned)
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    return Plan(planned, missing, runs, sum(part.steps for part in planned), runs * size)


def _sequences(part: Part, records: list[Record], tokenizer: Tokenizer, max_length: int) -> int:
    """Sequences per epoch: rows, or windows for tasks that split long rows."""
    reader = spec_of(part.task).reads[0]
    if reader == "questions":
        rows = [
            Question(
                one["id"],
                one["question"],
                one["context"],
                tuple(ReferenceAnswer(answer["text"], answer["answer_start"]) for answer in one["answers"]),
                number,
                part.name,
            )
            for number, one in enumerate(records, start=1)
        ]
        return len(make_windows(rows, tokenizer, max_length))
    if reader == "tagged":
        sentences = [
            Sentence.of_words(one["tokens"], one["tags"], number, part.name)
            for number, one in enumerate(records, start=1)
        ]
        return len(window_sentences(sentences, tokenizer, max_length, counts=TextCounts()))
    return len(records)


def to_json(plan: Plan) -> dict[str, Any]:
    """Plain values."""
    return {**vars(plan), "parts": [vars(part) for part in plan.parts]}
