"""Loaded models: what their kind can do, and preparing them for inference: device, precision and sequence length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core import registry
from ..core.config import check
from ..core.errors import InputError, ModelFolderError
from ..models.device import DTYPES, resolve_device, resolve_precision
from ..models.model import Model, tokenizer_of
from ..models.pooling import pool
from ..tasks.examples import Examples, map_batches, packed_batches, rows_of, tokenize_rows
from ..tasks.specs import ModelKind, spec_of
from ..text.readers.inputs import Text
from .engine.choice import require_int8
from .engine.engine import Engine
from .engine.int8 import Int8Loss


def place(model: Model, device: str = "auto", precision: str = "auto") -> Model:
    """Move a model to a device, set its compute precision and attach the engine; the weights do not change.

    device, precision: names as on the command line, which an exported graph has fixed; int8 requires `calibrate` next.
    Raises ConfigError if this machine does not support them.
    """
    check(precision != "int8" or not model.routes, "A model with a network for queries of its own has no int8.")
    model.routes = {role: place(other, device, precision) for role, other in model.routes.items()}
    if model.graph_precision is not None:
        check(device in ("auto", "cpu"), f"device is {device}; an exported graph runs on the CPU.")
        check(
            precision in ("auto", model.graph_precision),
            f"precision is {precision}; this graph was exported as {model.graph_precision}: use auto, or export again.",
        )
        return model
    where = resolve_device(device)
    name = resolve_precision(precision, where)
    if name == "int8":
        is_recurrent = model.config.recurrent is not None
        check(not is_recurrent, "int8 requires a Transformer, but this network is recurrent: use --precision fp32.")
        require_int8(where)
    if model.adapter is not None and model.adapter.shared is not None:
        model.adapter.shared.move(model, where)
    model.to(where)
    compute_in(model, name)
    return model


def keep_private(model: Model) -> None:
    """Declare that nobody replaces parameters or modules of a placed model; changes in place are still seen."""
    if isinstance(model.engine, Engine):
        model.engine.is_private = True


def compute_in(model: Model, precision: str) -> None:
    """Set the compute precision of a model and attach the engine; training too, for the same dev scores."""
    model.compute_dtype = DTYPES["fp32" if precision == "int8" else precision]
    model.engine = Engine(int8=precision == "int8")


def usual_length(model: Model, max_length: int | None = None) -> int:
    """The maximum sequence length: `max_length`, else that of training, else that of the model; raises as `room_of`."""
    return room_of(model, max_length or min(model.trained_length or room_of(model), room_of(model)))


def room_of(model: Model, max_length: int | None = None) -> int:
    """The maximum sequence length: `max_length`, or that of the model. Raises InputError if it does not fit."""
    most = model.config.max_position_embeddings
    if max_length is None:
        return most
    if not 3 <= max_length <= most:
        raise InputError(f"max_length is {max_length}; this model supports 3 to {most}.")
    return max_length


# -- Static int8 quantization: calibration on typical texts, and its error on held-out texts --------------------------


CALIBRATION_TEXTS = 256  # more texts change little
MIN_TEXTS = 8
_HELD_OUT = 4  # every fourth text is held out to measure the quantization error


def is_int8(model: Model) -> bool:
    """Return whether the model runs in int8, before or after `calibrate`."""
    return isinstance(model.engine, Engine) and model.engine.int8


def calibrate(model: Model, texts: Sequence[Text], max_length: int | None = None) -> Int8Loss:
    """Calibrate a model that `place` prepared for int8, and measure the quantization error on every fourth text.

    texts: typical ones, of which CALIBRATION_TEXTS are used. Raises InputError for fewer than MIN_TEXTS.
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
    held_out = list(range(_HELD_OUT - 1, len(texts), _HELD_OUT))
    chosen = [index for index in range(len(texts)) if index not in held_out]
    model.eval()
    cpu = torch.device("cpu")
    engine.calibrate(model, packed_batches(_subset(examples, chosen), cpu))

    def vectors() -> Tensor:  # mean of the last layer: float32 [texts, hidden]
        checked = _subset(examples, held_out)
        return map_batches(checked, lambda batch: pool(model.encode(batch).hidden.float(), batch, "mean"), device=cpu)

    rounded = vectors()
    with in_float32(model):
        exact = vectors()
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


# -- Kinds of models: which one a loaded model is, and whether it can do what is asked of it --------------------------

# Kinds that no task makes; those of the tasks are in their specs.
PRETRAINED = tuple(
    ModelKind(head, description, commands, frozenset({"embed", *abilities}))
    for head, description, commands, *abilities in (
        ("mlm", "a masked language model", "fill-mask, evaluate, embed or finetune", "fill-mask", "score-text"),
        (
            "clm",
            "a causal language model",
            "generate, evaluate, embed or finetune",
            "generate",
            "predict-next",
            "score-text",
        ),
        ("bilm", "separate forward and backward language models", "evaluate, embed or finetune", "score-text"),
        (
            "pretraining",
            "a pre-trained model (masked tokens and sentence pairs)",
            "fill-mask, predict (next sentences), evaluate, embed or finetune",
            "fill-mask",
            "next-sentence",
            "score-text",
        ),
        ("nsp", "a next-sentence model", "predict, embed or finetune", "next-sentence"),
        ("rtd", "a replaced-token discriminator", "evaluate, embed or finetune", "score-text"),
        (None, "an encoder without a head", "embed, search or finetune"),
    )
)
NEED_WEIGHTS = frozenset({"generate", "predict-next", "score-text", "translate", "detect-anomalies"})
CACHED = frozenset({"generate", "translate"})  # what a graph with a cache can do nonetheless
NEED_STATES = frozenset({"embed", "compare"})
MAX_NAMED = 3  # kinds of models that an error message lists


def all_kinds() -> list[ModelKind]:
    """Returns every kind: the pre-trained ones, then those of the tasks."""
    return [*PRETRAINED, *(kind for task in registry.names("task") for kind in spec_of(task).kinds)]


def kind_of(model: Model) -> ModelKind:
    """The kind of a model: the one of its own task, otherwise the first with its head.

    An exported graph lacks the abilities that need weights, or hidden states which it does not give.
    """
    kind = _kind_of(model)
    if model.graph_precision is None:
        return kind
    lacking = NEED_WEIGHTS - (CACHED if model.generates else frozenset())
    return replace(kind, abilities=kind.abilities - lacking - (frozenset() if model.has_states else NEED_STATES))


def _kind_of(model: Model) -> ModelKind:
    head = model.head_name
    own = spec_of(model.task_name).kinds if model.task_name in registry.names("task") else ()
    if head is None and model.sentence is not None and model.sentence.late is None:
        return next(kind for kind in all_kinds() if kind.can("compare"))
    found = next((kind for kind in (*own, *all_kinds()) if kind.head == head), None)
    return found or ModelKind(head, f"a model with the head '{head}'", "embed")


def require(model: Model, name: str, *abilities: str) -> None:
    """Raise ModelFolderError, with what `name` is and supports, unless it has one of the abilities."""
    kind = kind_of(model)
    if kind.can(*abilities):
        return
    if model.graph_precision is not None and _kind_of(model).can(*abilities):
        raise ModelFolderError(
            f"{name} is an exported graph, which lacks what this needs: use the model that it was exported from."
        )
    suitable = [one.description for one in all_kinds() if one.can(*abilities)]
    named = 0 < len(suitable) <= MAX_NAMED
    needed = f"but this requires {' or '.join(suitable)}" if named else "which is not supported"
    raise ModelFolderError(
        f"{name} contains {kind.description}, {needed}. Supported commands: maskwright {kind.commands}."
    )
