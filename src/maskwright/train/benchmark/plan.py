"""What a benchmark would do, before it does it: rows, runs, steps, room on the disk. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import InputError
from ...hub.folders import load_model
from ...tasks.qa_windows import make_windows
from ...tasks.tagged_examples import window_sentences
from ...text.encoding import TextCounts
from ...text.squad import Gold, Question
from ...text.tagged import Sentence
from ...text.tokenizer import Tokenizer
from .config import BenchmarkConfig
from .parts import Part, chosen_parts
from .prepare import Record, capped, read_all
from .sources import find_sources


@dataclass(frozen=True)
class PlannedPart:
    """One part. rows: of each split, training rows after the cap; sequences: that training sees in an epoch; steps: of
    all its runs together.
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
    """All of it. missing: number -> why it cannot be measured; disk_bytes: of the models that stay."""

    parts: list[PlannedPart]
    missing: dict[str, str]
    runs: int
    steps: int
    disk_bytes: int


def plan_benchmark(config: BenchmarkConfig) -> Plan:
    """Read the files and count. Raises what the run itself would raise for files, rows and model."""
    parts = {part.name: part for part in chosen_parts(config.benchmark, config.tasks)}
    sources, missing = find_sources(config.data, parts.values())
    model = load_model(config.model)[0]
    if model.tokenizer is None:
        raise InputError(f"{config.model} has no tokenizer: put its tokenizer.json or vocab.txt beside the weights.")
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
            PlannedPart(
                name,
                files[name],
                rows,
                len(splits["train"].records),
                sequences,
                [one.words for one in settings],
                len(settings) + others,
                sum(steps) + others * max(steps),  # the setting that a grid will choose is not known
            )
        )
    runs = sum(part.runs for part in planned)
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    return Plan(planned, missing, runs, sum(part.steps for part in planned), runs * size)


def _sequences(part: Part, records: list[Record], tokenizer: Tokenizer, max_length: int) -> int:
    """What an epoch has: rows, or windows where long rows are cut into several."""
    if part.task == "qa":
        rows = [
            Question(
                one["id"],
                one["question"],
                one["context"],
                tuple(Gold(answer["text"], answer["answer_start"]) for answer in one["answers"]),
                number,
                part.name,
            )
            for number, one in enumerate(records, start=1)
        ]
        return len(make_windows(rows, tokenizer, max_length))
    if part.task == "tagging":
        sentences = [
            Sentence.of_words(one["tokens"], one["tags"], number, part.name)
            for number, one in enumerate(records, start=1)
        ]
        return len(window_sentences(sentences, tokenizer, max_length, counts=TextCounts()))
    return len(records)


def to_json(plan: Plan) -> dict[str, Any]:
    """Plain values."""
    return {**vars(plan), "parts": [vars(part) for part in plan.parts]}
