"""Rows a second of fine-tuning a classifier for one epoch: python benchmarks/speed/finetune.py NAME --model FOLDER.

Texts and labels in memory are given to each contender, and what it does from there to trained weights is timed, loading
and tokenizing included. The labels are drawn: what is measured is speed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from pretrain import print_rate

from maskwright.core.progress import set_quiet
from maskwright.core.randomness import generator
from maskwright.speed.bench import built_in_texts

MAX_LENGTH, BATCH, LR, WEIGHT_DECAY = 128, 32, 2e-5, 0.01


def maskwright(model: str, texts: list[str], labels: list[int]) -> None:
    """`maskwright.TextClassifier`, as anyone calls it."""
    import maskwright as mw

    set_quiet(True)
    mw.TextClassifier(model, epochs=1, lr=LR, batch_size=BATCH, max_length=MAX_LENGTH).fit(texts, labels)


def trainer(model: str, texts: list[str], labels: list[int], bf16: bool) -> None:
    """transformers' Trainer; in bfloat16 with rows of like length together, its best setting."""
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    tokenizer, network = _theirs(model)
    rows = [{"input_ids": ids, "labels": label} for ids, label in zip(_ids(tokenizer, texts), labels, strict=True)]
    like_length = {"train_sampling_strategy": "group_by_length"} if bf16 else {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            learning_rate=LR,
            weight_decay=WEIGHT_DECAY,
            bf16=bf16,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            **like_length,
        )
        collator = DataCollatorWithPadding(tokenizer)
        Trainer(network, arguments, train_dataset=rows, data_collator=collator).train()


def loop(
    model: str,
    texts: list[str],
    labels: list[int],
    attention: str = "sdpa",
    compiled: bool = False,
    bf16: bool = True,
) -> None:
    """A plain loop: rows of like length, fused AdamW; bfloat16 by autocast."""
    tokenizer, network = _theirs(model, attention)
    network.train()
    run = torch.compile(network, dynamic=True) if compiled else network
    optimizer = torch.optim.AdamW(network.parameters(), lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
    for batch in _batches(_ids(tokenizer, texts), labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = run(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def _theirs(model: str, attention: str = "sdpa") -> tuple[Any, Any]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=2, attn_implementation=attention)
    return AutoTokenizer.from_pretrained(model), network


def _ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    found: list[list[int]] = tokenizer(texts, truncation=True, max_length=MAX_LENGTH)["input_ids"]
    return found


def _batches(ids: list[list[int]], labels: list[int]) -> Iterator[dict[str, torch.Tensor]]:
    """Rows of like length together, batches in random order."""
    order = np.array(sorted(range(len(ids)), key=lambda row: len(ids[row])))
    groups = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    for place in generator(0, "batches").permutation(len(groups)):
        rows = groups[place].tolist()
        padded = [torch.tensor(ids[row]) for row in rows]
        inputs = torch.nn.utils.rnn.pad_sequence(padded, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in padded], batch_first=True)
        yield {"input_ids": inputs, "attention_mask": mask, "labels": torch.tensor([labels[row] for row in rows])}


CONTENDERS = {
    "maskwright": maskwright,
    "trainer-fp32": lambda *rows: trainer(*rows, bf16=False),
    "trainer-bf16": lambda *rows: trainer(*rows, bf16=True),
    "loop": loop,
    "loop-math": lambda *rows: loop(*rows, attention="eager"),
    "loop-math-fp32": lambda *rows: loop(*rows, attention="eager", bf16=False),
    "loop-compiled": lambda *rows: loop(*rows, compiled=True),
}


def main() -> None:
    """Train, and print rows a second."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("contender", choices=list(CONTENDERS))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2048)
    options = parser.parse_args()
    texts = built_in_texts(options.rows)
    labels = generator(0, "labels").integers(0, 2, size=options.rows).tolist()
    started = time.perf_counter()
    CONTENDERS[options.contender](str(options.model), texts, labels)
    print_rate(options.rows / (time.perf_counter() - started))


if __name__ == "__main__":
    main()
