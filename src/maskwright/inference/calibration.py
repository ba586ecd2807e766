"""Static int8 quantization: calibration on typical texts, and its error on held-out texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..models.model import Model, tokenizer_of
from ..models.pooling import pool
from ..tasks.examples import Examples, map_batches, packed_batches, rows_of, tokenize_rows
from ..text.readers.inputs import Text
from .engine.engine import Engine
from .engine.int8 import Int8Loss
from .ready import room_of

CALIBRATION_TEXTS = 256  # more texts change little
MIN_TEXTS = 8
_HELD_OUT = 4  # every fourth text is held out to measure the quantization error


def is_int8(model: Model) -> bool:
    """Return whether the model runs in int8, before or after `calibrate`."""
    return isinstance(model.engine, Engine) and model.engine.int8


def calibrate(model: Model, texts: Sequence[Text], max_length: int | None = None) -> Int8Loss:
    """Calibrate a model that `place` prepared for int8, and measure the quantization error.

    texts: typical texts; the first CALIBRATION_TEXTS are used, every fourth of them only for the measurement;
    max_length: maximum tokens per text. Raises InputError for fewer than MIN_TEXTS.
    """
    engine = model.engine
    assert isinstance(engine, Engine) and engine.int8, "place the model in int8 first"
    texts = [text for text in texts[:CALIBRATION_TEXTS] if text]
    if len(texts) < MIN_TEXTS:
        raise InputError(
            f"int8 calibration requires at least {MIN_TEXTS} typical texts, not {len(texts)}: pass a file of texts "
            "with --calibrate-on, or use --precision auto."
        )
    examples = tokenize_rows(rows_of(texts), tokenizer_of(model), room_of(model, max_length))
    chosen = [index for index in range(len(texts)) if index % _HELD_OUT != _HELD_OUT - 1]
    held_out = [index for index in range(len(texts)) if index % _HELD_OUT == _HELD_OUT - 1]
    model.eval()
    engine.calibrate(model, _packs(_subset(examples, chosen)))
    checked = _subset(examples, held_out)
    rounded = _vectors(model, checked)
    with in_float32(model):
        exact = _vectors(model, checked)
    cosines = F.cosine_similarity(rounded, exact)
    engine.loss = Int8Loss(len(chosen), len(held_out), float(cosines.mean()), float(cosines.min()))
    return engine.loss


def loss_of(model: Model) -> Int8Loss | None:
    """Return the int8 quantization error of a model; None for another precision."""
    return model.engine.loss if isinstance(model.engine, Engine) else None


@contextmanager
def in_float32(model: Model) -> Iterator[None]:
    """Context manager that runs an int8 model in float32."""
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
    """Return the mean-pooled last layer: float32 [texts, hidden]."""
    return map_batches(
        examples, lambda batch: pool(model.encode(batch).hidden.float(), batch, "mean"), device=torch.device("cpu")
    )
