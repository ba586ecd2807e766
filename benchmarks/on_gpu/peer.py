"""transformers' side of gpu.py: the same networks, texts and masks, padded, at settings that serve it well.

sdpa attention (which takes flash kernels where masks allow it), bfloat16 by autocast over float32 weights in training
and bfloat16 weights in inference, fused AdamW, batches prepared and page-locked before anything is timed, rows of like
length together in fine-tuning and inference. kind "auto" is the plain loop; "compiled" has torch.compile as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))

from inputs import read_texts
from measure import Steps, embedding_rates, fresh
from ours import FINETUNING_LENGTH, ROWS, cleared, opened

from maskwright.core.randomness import generator
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.models.config import ModelConfig
from maskwright.models.device import DTYPES
from maskwright.objectives.stream import ExampleStream
from maskwright.speed.backend import answer
from maskwright.text.tokenizers.tokenizer import Tokenizer

PREPARED = 12  # batches, used again and again
BULK_ROWS = 256
IGNORED = -100

Prepared = tuple[dict[str, Tensor], list[int], int]  # inputs [batch, seq], real lengths, scored positions


def padded(batch: Batch, pinned: bool) -> Prepared:
    """Convert a pack for transformers: [sequences, longest] with a mask, labels of -100 where nothing is predicted."""
    lengths = batch.lengths
    rows, longest = len(lengths), max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)  # [sequences, longest]
    ids = torch.zeros(rows, longest, dtype=torch.int64).masked_scatter_(mask, batch.input_ids)
    flat = torch.full((batch.num_tokens,), IGNORED)
    flat[batch.labels["mlm_positions"]] = batch.labels["mlm"]
    labels = torch.full((rows, longest), IGNORED).masked_scatter_(mask, flat)
    inputs = {"input_ids": ids, "attention_mask": mask.long(), "labels": labels}
    return _pinned(inputs, pinned), lengths, len(batch.labels["mlm"])


def pretrain(
    folder: str, size: str, length: int, sequences: int, seconds: float, device: str, precision: str, kind: str
) -> dict[str, Any]:
    """BertForMaskedLM in a plain loop."""
    from transformers import BertForMaskedLM

    where, home = torch.device(device), Path(folder)
    fresh(where)
    _, shards, objective = opened(home, length)
    stream = ExampleStream(shards, np.arange(shards.num_documents), objective.plan, 0)
    made = [
        padded(objective.batch(shards, stream.take(sequences), generator(0, "masks", step, 0)), where.type == "cuda")
        for step in range(PREPARED)
    ]
    model = BertForMaskedLM.from_pretrained(home / "models" / size, attn_implementation="sdpa").to(where)
    return train(model, made, seconds, where, precision, kind, _config(home, size))


def finetune(folder: str, size: str, seconds: float, device: str, precision: str, kind: str) -> dict[str, Any]:
    """BertForSequenceClassification in a plain loop, rows of like length together."""
    from transformers import BertForSequenceClassification

    where, home = torch.device(device), Path(folder)
    fresh(where)
    texts = read_texts(home)
    tokenizer = Tokenizer.load(home / "tokenizer")
    ids = tokenizer.encode_ids(texts, FINETUNING_LENGTH)[0]
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    groups = [order[at : at + ROWS] for at in range(0, len(order) - ROWS + 1, ROWS)]
    labels = torch.from_numpy(generator(0, "gpu labels").integers(0, 2, size=len(texts)))
    made = []
    for place in generator(0, "batches").permutation(len(groups)).tolist():
        inputs, lengths = _rows([ids[row] for row in groups[place]])
        inputs["labels"] = labels[groups[place]]
        made.append((_pinned(inputs, where.type == "cuda"), lengths, 0))
    model = BertForSequenceClassification.from_pretrained(
        home / "models" / size, num_labels=2, attn_implementation="sdpa"
    ).to(where)
    return train(model, made, seconds, where, precision, kind, _config(home, size))


def train(
    model: Any,
    made: list[Prepared],
    seconds: float,
    device: torch.device,
    precision: str,
    kind: str,
    config: ModelConfig,
) -> dict[str, Any]:
    """Steps over prepared batches until there are enough of them."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    step = torch.compile(model, dynamic=None) if kind == "compiled" else model
    steps = Steps(seconds, device)
    for inputs, lengths, scored in _again(made):
        if steps.are_enough:
            break
        steps.begin(lengths, scored, 0 if scored else len(lengths))
        moved = {name: values.to(device, non_blocking=True) for name, values in inputs.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = step(**moved).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return steps.found(config)


def embed(
    folder: str, size: str, seconds: float, device: str, precision: str, kind: str, requests: list[int]
) -> dict[str, Any]:
    """Texts to mean vectors by BertModel, rows sorted by length, and requests of a few texts at a time."""
    from transformers import BertModel

    where, home = torch.device(device), Path(folder)
    fresh(where)
    texts = read_texts(home)
    tokenizer = Tokenizer.load(home / "tokenizer")
    dtype = DTYPES[precision]
    model = BertModel.from_pretrained(home / "models" / size, dtype=dtype, attn_implementation="sdpa").to(where).eval()
    run = torch.compile(model, mode="reduce-overhead", dynamic=False) if kind == "compiled" else model
    longest = model.config.max_position_embeddings

    @torch.inference_mode()
    def vectors(chosen: list[str]) -> np.ndarray:
        """float32 [texts, hidden], in the order of the texts."""
        ids = tokenizer.encode_ids(chosen, longest)[0]
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        found = torch.empty(len(ids), model.config.hidden_size)
        for at in range(0, len(order), BULK_ROWS):
            rows = order[at : at + BULK_ROWS]
            inputs = {name: values.to(where) for name, values in _rows([ids[row] for row in rows])[0].items()}
            hidden = run(**inputs).last_hidden_state.float()  # [batch, seq, hidden]
            mask = inputs["attention_mask"].unsqueeze(-1)  # [batch, seq, 1]
            found[rows] = ((hidden * mask).sum(1) / mask.sum(1)).cpu()
        return found.numpy()

    lengths = [len(ids) for ids in tokenizer.encode_ids(texts, longest)[0]]
    return embedding_rates(vectors, texts, lengths, _config(home, size), requests, seconds, where)


def _config(home: Path, size: str) -> ModelConfig:
    """The network in our words, which the operations are counted from."""
    return load_model(str(home / "models" / size))[0].config


def _rows(ids: list[Any]) -> tuple[dict[str, Tensor], list[int]]:
    """Padded ids and mask, int64 [batch, longest], and the real lengths."""
    rows = [torch.as_tensor(np.asarray(row, dtype=np.int64)) for row in ids]
    pad: Callable[..., Tensor] = torch.nn.utils.rnn.pad_sequence
    inputs = {
        "input_ids": pad(rows, batch_first=True),
        "attention_mask": pad([torch.ones_like(row) for row in rows], batch_first=True),
    }
    return inputs, [len(row) for row in rows]


def _pinned(inputs: dict[str, Tensor], pinned: bool) -> dict[str, Tensor]:
    return {name: values.pin_memory() if pinned else values for name, values in inputs.items()}


def _again(made: list[Prepared]) -> Iterator[Prepared]:
    while True:
        yield from made


if __name__ == "__main__":
    answer({"pretrain": cleared(pretrain), "finetune": cleared(finetune), "embed": cleared(embed)})
