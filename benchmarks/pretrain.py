"""Tokens a second of pre-training, ours or of transformers' BertForMaskedLM: one contender in one process.

    python benchmarks/pretrain.py maskwright --preset bert-mini --vocab-size 8000 --precision bf16

All train the same network from the same masked batches (full sequences of 128 tokens, 15 % masked) in the same
precision with AdamW and dropout 0.1. The speed benchmark runs them in turn, in rounds
(`python benchmarks/speed/run.py --parts pretraining --settings mini-8k`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time

import numpy as np

WARMUP_STEPS = 4
CONTENDERS = ("maskwright", "trainer", "loop", "loop-compiled")


def batches(vocab_size: int, length: int, sequences: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Masked ids and labels (-100 elsewhere), both int64 [sequences, length], by our own masker."""
    from maskwright.core.randomness import generator
    from maskwright.objectives.masked import Masker

    masker = Masker(4, frozenset(range(5)), vocab_size)
    made = []
    for number in range(count):
        rng = generator(0, "benchmark", number)
        # Zipf's law, as in text: the embedding rows that a step touches matter for the optimizer.
        ids = np.minimum(rng.zipf(1.3, size=(sequences, length)) + 4, vocab_size - 1)
        ids[:, 0], ids[:, -1] = 2, 3
        flat = ids.reshape(-1).astype(np.int64)
        masked = masker(flat, np.full(sequences, length), rng)
        labels = np.full(len(flat), -100, dtype=np.int64)
        labels[masked.positions] = masked.labels
        made.append((masked.input_ids.reshape(ids.shape), labels.reshape(ids.shape)))
    return made


def measure_maskwright(options: argparse.Namespace) -> float:
    """Our training loop with the job's own steps on prepared batches."""
    import torch

    from maskwright.data.batch import Batch
    from maskwright.models.build import build
    from maskwright.models.device import DTYPES
    from maskwright.models.presets import preset
    from maskwright.objectives.masked import MaskedLanguageModeling, MaskedRecipe, Masker
    from maskwright.train.loop import LoopSettings, train

    model = build(preset(options.preset, vocab_size=options.vocab_size), head="mlm")
    model.compute_dtype = DTYPES[options.precision]
    objective = MaskedLanguageModeling(
        MaskedRecipe.of(2, 3, Masker(4, frozenset(), options.vocab_size), options.length)
    )
    packs = []
    for ids, labels in batches(options.vocab_size, options.length, options.sequences, options.steps):
        pack = Batch.from_sequences(list(ids))
        positions = torch.from_numpy(np.flatnonzero(labels.reshape(-1) >= 0))
        packs.append(pack.with_labels(mlm_positions=positions, mlm=torch.from_numpy(labels).reshape(-1)[positions]))
    marks: list[float] = []

    class Job:
        """Counts the time of each step."""

        def __init__(self) -> None:
            self.model = model

        def micro_batches(self, step: int) -> list[Batch]:
            marks.append(time.perf_counter())
            return [packs[step]]

        def counts(self, batch: Batch) -> dict[str, int]:
            return objective.counts(batch)

        def outcome(self, batch: Batch):  # type: ignore[no-untyped-def]
            return objective.outcome(model, batch)

        def evaluate(self, step: int) -> dict[str, float]:
            marks.append(time.perf_counter())
            return {}

        def should_stop(self) -> bool:
            return False

        def state(self) -> dict[str, int]:
            return {}

        def restore(self, state: dict[str, int]) -> None:
            raise AssertionError(state)

    never = options.steps + 1
    settings = LoopSettings(options.steps, 1e-4, 0.1, "linear", 0.01, 1.0, 0, 10, never, never)
    train(Job(), settings, name="benchmark")
    return tokens_per_second(marks, options)


def measure_transformers(options: argparse.Namespace, with_trainer: bool, compiled: bool = False) -> float:
    """The same network of transformers under its Trainer, or in a plain loop, perhaps compiled, with fused AdamW."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments

    from maskwright.models.presets import preset

    ours = preset(options.preset, vocab_size=options.vocab_size)
    config = BertConfig(
        vocab_size=ours.vocab_size,
        hidden_size=ours.hidden_size,
        num_hidden_layers=ours.num_hidden_layers,
        num_attention_heads=ours.num_attention_heads,
        intermediate_size=ours.intermediate_size,
        max_position_embeddings=ours.max_position_embeddings,
    )
    torch.manual_seed(0)
    model = BertForMaskedLM(config)
    made = batches(options.vocab_size, options.length, options.sequences, options.steps)
    marks: list[float] = []
    if not with_trainer:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        model.train()
        run = torch.compile(model) if compiled else model
        for ids, labels in made:
            marks.append(time.perf_counter())
            with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
                loss = run(input_ids=torch.from_numpy(ids), labels=torch.from_numpy(labels)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        marks.append(time.perf_counter())
        return tokens_per_second(marks, options)

    class Clock(TrainerCallback):
        """Notes when each step begins, and the end."""

        def on_step_begin(self, *_: object, **__: object) -> None:
            marks.append(time.perf_counter())

        def on_train_end(self, *_: object, **__: object) -> None:
            marks.append(time.perf_counter())

    rows = [
        {"input_ids": torch.from_numpy(row), "labels": torch.from_numpy(label)}
        for ids, labels in made
        for row, label in zip(ids, labels, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=options.steps,
            per_device_train_batch_size=options.sequences,
            learning_rate=1e-4,
            weight_decay=0.01,
            bf16=options.precision == "bf16",
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=10,
            disable_tqdm=True,
        )
        Trainer(model, arguments, train_dataset=rows, callbacks=[Clock()]).train()
    return tokens_per_second(marks, options)


def tokens_per_second(marks: list[float], options: argparse.Namespace) -> float:
    """From the times of step beginnings and the end, without the first steps."""
    steps = len(marks) - 1 - options.warm_up
    return steps * options.sequences * options.length / (marks[-1] - marks[options.warm_up])


def print_rate(rate: float) -> None:
    """Print the rate and the most memory that this process has had, in bytes."""
    from maskwright.core.memory import peak_memory

    print(json.dumps({"rate": rate, "memory": peak_memory()}))


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("--preset", default="bert-mini")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=WARMUP_STEPS, help="steps that do not count")
    options = parser.parse_args()
    kind = options.contender
    if kind == "maskwright":
        print_rate(measure_maskwright(options))
    else:
        print_rate(measure_transformers(options, kind == "trainer", kind == "loop-compiled"))


if __name__ == "__main__":
    main()
