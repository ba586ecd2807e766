"""int8 for a loaded model: ranges from typical texts, and what the rounding costs on others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..models.model import Model
from ..models.pooling import pool
from ..tasks.examples import Examples, map_batches, packed_batches, rows_of, tokenize_rows
from ..text.inputs import Text
from .engine.engine import Engine
from .engine.int8 import Int8Loss
from .ready import room_of, tokenizer_of

CALIBRATION_TEXTS = 256  # more change little
LEAST_TEXTS = 8
_CHECKED = 4  # one text in so many is kept out of calibration, and what int8 costs is measured on it


def is_int8(model: Model) -> bool:
    """Whether the model waits for `calibrate`, or had it."""
    return isinstance(model.engine, Engine) and model.engine.int8


def calibrate(model: Model, texts: Sequence[Text], max_length: int | None = None) -> Int8Loss:
    """Calibrate a model that `place` made ready for int8, and measure the loss.

    texts: typical ones, the first CALIBRATION_TEXTS of which are taken, every fourth for the measurement alone;
    max_length: tokens of a text. Raises InputError for fewer than LEAST_TEXTS.
    """
    engine = model.engine
    assert isinstance(engine, Engine) and engine.int8, "place the model in int8 first"
    texts = [text for text in texts[:CALIBRATION_TEXTS] if text]
    if len(texts) < LEAST_TEXTS:
        raise InputError(
            f"int8 is calibrated on typical texts, at least {LEAST_TEXTS} of them, and here are {len(texts)}: give a "
            "file of them (--calibrate-on), or use --precision auto."
        )
    examples = tokenize_rows(rows_of(texts), tokenizer_of(model), room_of(model, max_length))
    chosen = [index for index in range(len(texts)) if index % _CHECKED != _CHECKED - 1]
    kept = [index for index in range(len(texts)) if index % _CHECKED == _CHECKED - 1]
    model.eval()
    engine.calibrate(model, _packs(_subset(examples, chosen)))
    checked = _subset(examples, kept)
    rounded = _vectors(model, checked)
    with in_float32(model):
        exact = _vectors(model, checked)
    cosines = F.cosine_similarity(rounded, exact)
    engine.loss = Int8Loss(len(chosen), len(kept), float(cosines.mean()), float(cosines.min()))
    return engine.loss


def loss_of(model: Model) -> Int8Loss | None:
    """What int8 costs a model; None for one that runs in another format."""
    return model.engine.loss if isinstance(model.engine, Engine) else None


@contextmanager
def in_float32(model: Model) -> Iterator[None]:
    """Meanwhile a model that runs in int8 runs in float32."""
    engine, model.engine = model.engine, Engine()
    try:
        yield
    finally:
        model.engine = engine


def _subset(examples: Examples, rows: Sequence[int]) -> Examples:
    types = examples.token_types
    return Examples([examples.input_ids[row] for row in rows], None if types is None else [types[row] for row in rows])


def _packs(examples: Examples) -> Iterator[Batch]:
    return packed_batches(examples, torch.device("cpu"))


def _vectors(model: Model, examples: Examples) -> Tensor:
    """Mean-pooled last layer: float32 [texts, hidden]."""
    return map_batches(
        examples, lambda batch: pool(model.encode(batch).hidden.float(), batch, "mean"), device=torch.device("cpu")
    )
