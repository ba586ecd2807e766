"""Prepares a loaded model for inference: device, precision and sequence length."""

from __future__ import annotations

from ..core.config import check
from ..core.errors import InputError
from ..models.device import DTYPES, resolve_device, resolve_precision
from ..models.model import Model
from .engine.choice import require_int8
from .engine.engine import Engine


def place(model: Model, device: str = "auto", precision: str = "auto") -> Model:
    """Move a model to a device, set its compute precision and attach the engine; the weights do not change.

    An exported graph has its device and precision.

    device, precision: names as on the command line; int8 requires `inference.calibration.calibrate` next. Raises
    ConfigError if this machine does not support them.
    """
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
        check(
            model.config.recurrent is None,
            "int8 requires a Transformer, but this network is recurrent: use --precision fp32.",
        )
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
    """Set the compute precision of a model and attach the engine for inference.

    Training uses this too, so that dev scores match those of later inference.
    """
    model.compute_dtype = DTYPES["fp32" if precision == "int8" else precision]
    model.engine = Engine(int8=precision == "int8")


def usual_length(model: Model, max_length: int | None = None) -> int:
    """Return the maximum sequence length: `max_length`, else that of training, else that of the model.

    Untrained positions are used only on request. Raises as `room_of`.
    """
    return room_of(model, max_length or min(model.trained_length or room_of(model), room_of(model)))


def room_of(model: Model, max_length: int | None = None) -> int:
    """Return the maximum sequence length: `max_length`, or that of the model.

    Raises InputError if `max_length` exceeds that of the model, or is too short for the special tokens.
    """
    most = model.config.max_position_embeddings
    if max_length is None:
        return most
    if not 3 <= max_length <= most:
        raise InputError(f"max_length is {max_length}; this model supports 3 to {most}.")
    return max_length
