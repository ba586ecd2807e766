"""From the tensors of a file to the parameters of a model: match names and shapes first, allocate and read after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core.errors import ModelFolderError
from ..core.progress import note, warn
from ..models.config import ModelConfig
from ..models.heads import CLASSIFIERS, LABELLED
from ..models.initialisation import initialise_new
from ..models.model import Model, make_model
from .config_file import FolderConfig
from .family import Family
from .weights import Weights

# Heads whose parts mean the same under the same names.
ALIKE = ({"mlm", "clm"}, {"classification", "regression"}, {"tagging", "tagging-crf"})
LISTED = 20  # names of tensors in one sentence


@dataclass(frozen=True)
class LoadReport:
    """Where each weight came from, in the names of the file.

    loaded: read from it; new: not in it, drawn at random; unused: in it, but not part of this model.
    """

    loaded: list[str]
    new: list[str]
    unused: list[str]

    def __str__(self) -> str:
        parts = [f"{len(self.loaded)} tensors loaded"]
        parts += [f"new: {listed(self.new)}"] if self.new else []
        parts += [f"unused: {listed(self.unused)}"] if self.unused else []
        return "; ".join(parts)

    def tell(self, name: object, new_is_wanted: bool = False) -> None:
        """Say which weights folder `name` does not give and which it has beyond the model's.

        new_is_wanted: the caller asked for a head that the folder does not hold.
        """
        if self.new:
            say = note if new_is_wanted else warn
            say(f"{name} gives no weights for {listed(self.new)}: they are drawn at random, not trained.")
        if self.unused:
            note(f"{name} also holds {listed(self.unused)}, which this model does not use.")


def listed(names: Sequence[str]) -> str:
    """Names in one line; beyond LISTED of them, how many more."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


@dataclass(frozen=True)
class HeadPlan:
    """The head to put on the encoder.

    name, labels, problem_type: as `build` takes them; rows: which rows of the stored classifier make up this one, in
    order, or None when the head does not come from the file as a classifier; is_stored: whether the file holds this
    head, or one whose parts mean the same: our own names of parts say nothing of whose they are.
    """

    name: str | None
    labels: Sequence[str] | None = None
    problem_type: str | None = None
    rows: list[int] | None = None
    is_stored: bool = True


class Checkpoint:
    """The tensors of a file by canonical name: no prefix, today's spelling, each bias once."""

    def __init__(self, file: Weights, family: Family) -> None:
        self.file, self.family = file, family
        self.stored: dict[str, str] = {}
        # Prefixed names first: where a file holds a tensor under both, the prefixed one is the model's.
        for name in sorted(file.shapes, key=lambda name: family.canonical(name) == name):
            self.stored.setdefault(family.canonical(name), name)
        self.copies = {name for name in file.shapes if family.is_buffer(family.canonical(name))}
        if family.own_words:  # the one table of both sides may stand under each side's name too
            words = {name for name in file.shapes if family.canonical(name) == family.words}
            self.copies |= words - {self.stored.get(family.words, "")}

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor by canonical name."""
        return self.file.shapes[self.stored[name]]

    def read(self, name: str) -> Tensor:
        """A tensor by canonical name, float32."""
        return self.file.read(self.stored[name])

    def settle_decoder(self, config: ModelConfig, head: str | None) -> ModelConfig:
        """Make of what is stored for the decoder of `head` what our head has.

        Its bias may stand under two names. A stored decoder that is the word table itself is dropped; one that differs
        is a decoder of its own.
        """
        words = self._words_of_decoder(config)
        names = self.family.decoder(head)
        if names is None:
            return config
        weight, decoder_bias, head_bias = names
        if (
            decoder_bias is not None
            and head_bias is not None
            and decoder_bias != head_bias
            and decoder_bias in self.stored
        ):
            if head_bias in self.stored:
                self.copies.add(self.stored[head_bias])
            self.stored[head_bias] = self.stored.pop(decoder_bias)
        if weight not in self.stored or not config.tie_word_embeddings:
            return config
        same_shape = words in self.stored and self.shape(words) == self.shape(weight)
        if same_shape and torch.equal(self.read(words), self.read(weight)):
            self.copies.add(self.stored.pop(weight))
            return config
        return replace(config, tie_word_embeddings=False)

    def _words_of_decoder(self, config: ModelConfig) -> str:
        """The name of the table whose rows score words. One that both sides share is kept once."""
        words = self.family.words
        if not config.num_decoder_layers or "embeddings.word.weight" not in self.family.decoder_rows:
            return words
        (own,) = self.family.decoder_rows["embeddings.word.weight"]
        if config.decoder_vocab_size is not None:
            return own
        if words in self.stored and own in self.stored:
            if self.shape(words) != self.shape(own) or not torch.equal(self.read(words), self.read(own)):
                raise ModelFolderError(
                    f"{self.file.folder}: {self.stored[words]} and {self.stored[own]} differ, and config.json says "
                    "that both sides share one table."
                )
            self.copies.add(self.stored.pop(own))
        elif words not in self.stored and own in self.stored:
            self.stored[words] = self.stored.pop(own)
        return words


def plan_head(
    stored: FolderConfig,
    head: str | None,
    labels: Sequence[str] | int | None,
    checkpoint: Checkpoint,
) -> HeadPlan:
    """Which head to build, and whether the stored classifier serves it."""
    if isinstance(labels, int):
        labels = [f"LABEL_{index}" for index in range(labels)]
    if head not in LABELLED or stored.head_or_none() != head:
        own = stored.head_or_none()
        alike = own == head or any(own in group and head in group for group in ALIKE)
        return HeadPlan(head, labels, is_stored=alike)
    classifier = checkpoint.family.their_names("head.classifier.weight", head)[0]
    if classifier not in checkpoint.stored:
        return HeadPlan(head, labels)
    count = checkpoint.shape(classifier)[0]
    generic = tuple(f"LABEL_{index}" for index in range(count))
    kept = stored.labels or generic
    if labels is None or tuple(labels) == kept:
        return HeadPlan(head, kept, stored.problem_type, list(range(len(kept))))
    if sorted(labels) == sorted(kept):  # the same classes in another order
        return HeadPlan(head, labels, stored.problem_type, [kept.index(label) for label in labels])
    if kept == generic and len(labels) == count:  # the file does not name its classes
        return HeadPlan(head, labels, stored.problem_type, list(range(count)))
    return HeadPlan(head, labels)


def _in_order(name: str, tensor: Tensor, rows: list[int] | None) -> Tensor:
    """A head's tensor with its labels in the order of `rows` (None: as stored); other tensors as they are."""
    if rows is None or not name.startswith(("head.classifier.", "head.crf.")):
        return tensor
    return tensor[rows][:, rows] if name == "head.crf.transitions" else tensor[rows]


def assemble(
    config: ModelConfig, plan: HeadPlan, checkpoint: Checkpoint, problem_type: str | None, seed: int
) -> tuple[Model, LoadReport]:
    """Build the model that `plan` describes and fill it. Nothing is allocated before names and shapes agree.

    Raises ModelFolderError naming the tensor that the file lacks, or whose shape differs.
    """
    config = checkpoint.settle_decoder(config, plan.name)
    family = checkpoint.family

    def make() -> Model:
        return make_model(
            config,
            plan.name,
            labels=plan.labels,
            problem_type=problem_type or plan.problem_type,
            with_pooler=None if plan.name is not None else family.pooler in checkpoint.stored,
        )

    with torch.device("meta"):
        blueprint = make()
    sources, new = _match(blueprint, plan, checkpoint)
    model = make()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in sources:
                tensor = torch.cat([checkpoint.read(theirs) for theirs in sources[name]])
                tensor = tensor.T if family.is_turned(name) else tensor.view_as(parameter)
                parameter.copy_(_in_order(name, tensor, plan.rows))
    initialise_new(model, set(new), config.initializer_range, seed, by_width=plan.name in CLASSIFIERS)
    loaded = [checkpoint.stored[theirs] for name in sources for theirs in sources[name]]
    unused = sorted(checkpoint.file.shapes.keys() - set(loaded) - checkpoint.copies)
    fresh = [theirs for name in new for theirs in family.stored_names(name, plan.name)]
    return model, LoadReport(loaded, fresh, unused)


def _match(blueprint: Model, plan: HeadPlan, checkpoint: Checkpoint) -> tuple[dict[str, list[str]], list[str]]:
    """Our parameters by the canonical names that fill them, and those that start at random."""
    sources: dict[str, list[str]] = {}
    new, missing, wanted = [], [], set()
    for name, parameter in blueprint.named_parameters():
        theirs = checkpoint.family.their_names(name, plan.name)
        wanted.update(theirs)
        is_head = name.startswith(("head.", "top.", "encoder.pooler."))
        is_other_classifier = name.startswith("head.classifier.") and plan.name in LABELLED and plan.rows is None
        is_of_other_head = name.startswith("head.") and theirs == [name] and not plan.is_stored
        if all(part in checkpoint.stored for part in theirs) and not (is_other_classifier or is_of_other_head):
            _check_shapes(theirs, checkpoint.family.stored_shape(name, tuple(parameter.shape)), checkpoint)
            sources[name] = theirs
        elif is_head:
            new.append(name)
        else:
            missing += [part for part in theirs if part not in checkpoint.stored]
    if missing:
        stored = checkpoint.stored
        other = sorted(stored[name] for name in stored.keys() - wanted if stored[name] not in checkpoint.copies)
        besides = f"; what it holds besides: {listed(other)}" if other else ""
        raise ModelFolderError(
            f"{checkpoint.file.folder} lacks weights of the encoder that its config.json describes: {listed(missing)}"
            f"{besides}."
        )
    return sources, new


def _check_shapes(theirs: list[str], shape: tuple[int, ...], checkpoint: Checkpoint) -> None:
    wanted = (shape[0] // len(theirs), *shape[1:])
    for name in theirs:
        found = checkpoint.shape(name)
        if found != wanted:
            raise ModelFolderError(
                f"{checkpoint.file.folder}: {checkpoint.stored[name]} has shape {list(found)}, but config.json asks "
                f"for {list(wanted)}: they are not from the same model."
            )
