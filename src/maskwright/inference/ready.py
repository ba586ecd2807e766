"""Making a loaded model ready for use: the head that a job needs, a device, a number format, a tokenizer that fits."""

from __future__ import annotations

from collections.abc import Collection

from ..core.config import check
from ..core.errors import InputError, ModelFolderError
from ..models.device import DTYPES, resolve_device, resolve_precision
from ..models.model import Model
from ..text.tokenizer import Tokenizer
from .engine.choice import require_int8
from .engine.engine import Engine

# What each head is, in words, and the commands that use it.
HEADS: dict[str | None, tuple[str, str]] = {
    "mlm": ("a masked language model", "fill-mask, evaluate, embed or finetune"),
    "clm": ("a left-to-right language model", "generate, complete, evaluate, embed or finetune"),
    "bilm": ("a pair of language models, one from each end", "evaluate, embed or finetune"),
    "pretraining": (
        "a pre-trained model (masked words and sentence pairs)",
        "fill-mask, next-sentence, evaluate, embed or finetune",
    ),
    "nsp": ("a next-sentence model", "next-sentence, embed or finetune"),
    "rtd": ("a detector of replaced tokens", "evaluate, embed or finetune"),
    "generation": ("a model that writes texts for texts", "predict, evaluate, generate or finetune"),
    "seq2seq": ("a translator", "translate, predict, evaluate, embed or finetune"),
    "classification": ("a classifier", "predict, evaluate or embed"),
    "regression": ("a regression", "predict, evaluate or embed"),
    "tagging": ("a tagger", "predict, evaluate or embed"),
    "tagging-crf": ("a tagger with a CRF", "predict, evaluate or embed"),
    "qa": ("a question answerer", "answer, predict, evaluate or embed"),
    "anomaly": ("a detector of anomalies", "predict, evaluate or embed"),
    "choice": ("a multiple-choice model", "predict, evaluate or embed"),
    "sentence": ("an encoder of sentences", "similarity, search, cluster, embed, evaluate, predict or finetune"),
    None: ("an encoder without a head", "similarity, search, cluster, embed or finetune"),
}
MOST_NAMED = 2  # kinds of models that a refusal names as those that would do


def role_of(model: Model) -> str | None:
    """The model's head; "sentence" for a bare encoder whose folder declares how it makes vectors of sentences,
    "generation" for a left-to-right model that was fine-tuned to write texts for texts.
    """
    if model.head_name == "clm" and model.task_name == "generation":
        return "generation"
    return "sentence" if model.head_name is None and model.sentence is not None else model.head_name


def require_head(model: Model, heads: Collection[str], name: str) -> None:
    """Raise ModelFolderError unless the model of folder `name` has one of `heads`.

    The sentence says what the folder holds instead, and which commands fit it.
    """
    if role_of(model) in heads:
        return
    what, commands = HEADS.get(role_of(model), (f"a model with the head '{model.head_name}'", "embed"))
    named = len(heads) <= MOST_NAMED
    needed = f"and this needs {' or '.join(HEADS[head][0] for head in heads)}" if named else "which this does not take"
    raise ModelFolderError(f"{name} holds {what}, {needed}. What fits it: maskwright {commands}.")


def place(model: Model, device: str = "auto", precision: str = "auto") -> Model:
    """Move a model to a device and let it compute in a number format, by the engine; its weights stay as they are.

    device, precision: names as on the command line; int8 needs `inference.calibration.calibrate` next. Raises
    ConfigError for what this machine does not have.
    """
    where = resolve_device(device)
    name = resolve_precision(precision, where)
    if name == "int8":
        require_int8(where)
        check(
            model.config.recurrent is None, "int8 is for Transformers: this network is recurrent, use --precision fp32."
        )
    model.to(where)
    compute_in(model, name)
    return model


def compute_in(model: Model, precision: str) -> None:
    """Let a model compute in a number format that this machine has, and by the engine wherever it is only used.

    Training sets it too, so that dev scores are those of the commands that use the model afterwards.
    """
    model.compute_dtype = DTYPES["fp32" if precision == "int8" else precision]
    model.engine = Engine(int8=precision == "int8")


def tokenizer_of(model: Model) -> Tokenizer:
    """The model's tokenizer. Raises ModelFolderError when it has none."""
    if model.tokenizer is None:
        raise ModelFolderError("The model has no tokenizer: its folder needs tokenizer.json or vocab.txt.")
    tokenizer: Tokenizer = model.tokenizer
    return tokenizer


def usual_length(model: Model, max_length: int | None = None) -> int:
    """Tokens that a text may have: `max_length`, or as many as in training, or as the model takes. Raises as `room_of`.

    Positions that training never reached hold no sense, so what goes past them has to be asked for.
    """
    return room_of(model, max_length or min(model.trained_length or room_of(model), room_of(model)))


def room_of(model: Model, max_length: int | None = None) -> int:
    """Tokens that a text may have: `max_length`, or as many as the model takes.

    Raises InputError when that is more than the model takes, or leaves no room between the special tokens.
    """
    most = model.config.max_position_embeddings
    if max_length is None:
        return most
    if not 3 <= max_length <= most:
        raise InputError(f"max_length is {max_length}; this model takes 3 to {most}.")
    return max_length
