"""Prepares a loaded model for inference: head, device, precision, tokenizer and sequence length."""

from __future__ import annotations

from collections.abc import Collection

from ..core.config import check
from ..core.errors import InputError, ModelFolderError
from ..models.device import DTYPES, resolve_device, resolve_precision
from ..models.model import Model
from .engine.choice import require_int8
from .engine.engine import Engine

# Description of each head, and the commands that support it.
HEADS: dict[str | None, tuple[str, str]] = {
    "mlm": ("a masked language model", "fill-mask, evaluate, embed or finetune"),
    "clm": ("a causal language model", "generate, complete, evaluate, embed or finetune"),
    "bilm": ("separate forward and backward language models", "evaluate, embed or finetune"),
    "pretraining": (
        "a pre-trained model (masked tokens and sentence pairs)",
        "fill-mask, next-sentence, evaluate, embed or finetune",
    ),
    "nsp": ("a next-sentence model", "next-sentence, embed or finetune"),
    "rtd": ("a replaced-token discriminator", "evaluate, embed or finetune"),
    "generation": ("a text-to-text model", "predict, evaluate, generate or finetune"),
    "seq2seq": ("a translation model", "translate, predict, evaluate, embed or finetune"),
    "classification": ("a classifier", "predict, evaluate or embed"),
    "regression": ("a regression model", "predict, evaluate or embed"),
    "tagging": ("a token classification model", "predict, evaluate or embed"),
    "tagging-crf": ("a token classification model with a CRF", "predict, evaluate or embed"),
    "qa": ("a question-answering model", "answer, predict, evaluate or embed"),
    "anomaly": ("an anomaly detector", "predict, evaluate or embed"),
    "choice": ("a multiple-choice model", "predict, evaluate or embed"),
    "sentence": ("a sentence encoder", "similarity, search, cluster, embed, evaluate, predict or finetune"),
    None: ("an encoder without a head", "similarity, search, cluster, embed or finetune"),
}
MAX_NAMED = 2  # kinds of models that an error message lists


def role_of(model: Model) -> str | None:
    """Return the model's head; "sentence" for an encoder with sentence embedding settings, "generation" for a causal
    language model that is fine-tuned as text-to-text.
    """
    if model.head_name == "clm" and model.task_name == "generation":
        return "generation"
    return "sentence" if model.head_name is None and model.sentence is not None else model.head_name


def require_head(model: Model, heads: Collection[str], name: str) -> None:
    """Raise ModelFolderError unless the model of folder `name` has one of `heads`.

    The message describes the model and lists the commands that support it.
    """
    if role_of(model) in heads:
        return
    what, commands = HEADS.get(role_of(model), (f"a model with the head '{model.head_name}'", "embed"))
    named = len(heads) <= MAX_NAMED
    needed = f"but this requires {' or '.join(HEADS[head][0] for head in heads)}" if named else "which is not supported"
    raise ModelFolderError(f"{name} contains {what}, {needed}. Supported commands: maskwright {commands}.")


def place(model: Model, device: str = "auto", precision: str = "auto") -> Model:
    """Move a model to a device, set its compute precision and attach the engine; the weights do not change.

    device, precision: names as on the command line; int8 requires `inference.calibration.calibrate` next. Raises
    ConfigError if this machine does not support them.
    """
    where = resolve_device(device)
    name = resolve_precision(precision, where)
    if name == "int8":
        require_int8(where)
        check(
            model.config.recurrent is None,
            "int8 requires a Transformer, but this network is recurrent: use --precision fp32.",
        )
    if model.adapter is not None and model.adapter.shared is not None:
        model.adapter.shared.move(model, where)
    model.to(where)
    compute_in(model, name)
    return model


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
