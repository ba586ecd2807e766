"""Kinds of models: which one a loaded model is, and whether it can do what is asked of it."""

from __future__ import annotations

from dataclasses import replace

from ..core import registry
from ..core.errors import ModelFolderError
from ..models.model import Model
from ..tasks.specs import ModelKind, spec_of

# Kinds that no task makes; those of the tasks are in their specs.
PRETRAINED = (
    ModelKind(
        "mlm",
        "a masked language model",
        "fill-mask, evaluate, embed or finetune",
        frozenset({"embed", "fill-mask", "score-text"}),
    ),
    ModelKind(
        "clm",
        "a causal language model",
        "generate, evaluate, embed or finetune",
        frozenset({"embed", "generate", "predict-next", "score-text"}),
    ),
    ModelKind(
        "bilm",
        "separate forward and backward language models",
        "evaluate, embed or finetune",
        frozenset({"embed", "score-text"}),
    ),
    ModelKind(
        "pretraining",
        "a pre-trained model (masked tokens and sentence pairs)",
        "fill-mask, predict (next sentences), evaluate, embed or finetune",
        frozenset({"embed", "fill-mask", "next-sentence", "score-text"}),
    ),
    ModelKind("nsp", "a next-sentence model", "predict, embed or finetune", frozenset({"embed", "next-sentence"})),
    ModelKind(
        "rtd", "a replaced-token discriminator", "evaluate, embed or finetune", frozenset({"embed", "score-text"})
    ),
    ModelKind(
        None,
        "an encoder without a head",
        "embed, search or finetune",
        frozenset({"embed"}),
    ),
)
NEED_WEIGHTS = frozenset({"generate", "predict-next", "score-text", "translate", "detect-anomalies"})
CACHED = frozenset({"generate", "translate"})  # what a graph with a cache can do nonetheless
NEED_STATES = frozenset({"embed", "compare"})
MAX_NAMED = 2  # kinds of models that an error message lists


def all_kinds() -> list[ModelKind]:
    """Returns every kind: the pre-trained ones, then those of the tasks."""
    return [*PRETRAINED, *(kind for task in registry.names("task") for kind in spec_of(task).kinds)]


def kind_of(model: Model) -> ModelKind:
    """Returns the kind of a model: the one of its own task, otherwise the first with its head.

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
    if head is None and model.sentence is not None:
        return next(kind for kind in all_kinds() if kind.can("compare"))
    found = next((kind for kind in (*own, *all_kinds()) if kind.head == head), None)
    return found or ModelKind(head, f"a model with the head '{head}'", "embed")


def require(model: Model, name: str, *abilities: str) -> None:
    """Raises ModelFolderError unless the model of folder `name` has one of the abilities.

    The message describes the model and lists the commands that support it.
    """
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
