"""Assigns checkpoint tensors to model parameters: matches names and shapes before allocating or reading anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..core.errors import ModelFolderError
from ..core.progress import note, warn
from ..core.storage import MANIFEST
from ..models.adapters import SharedWeights
from ..models.build import initialize_new, make_model
from ..models.config import ModelConfig
from ..models.heads import CLASSIFIERS, LABELED_HEADS
from ..models.model import Model
from ..nn.positions import rotary_frequencies
from .config_file import FolderConfig
from .family import Family
from .weights import Weights

# Heads with equivalent parameters under the same names.
ALIKE = ({"mlm", "clm"}, {"classification", "regression"}, {"tagging", "tagging-crf"})
LISTED = 20  # maximum number of tensor names in one message


@dataclass(frozen=True)
class LoadReport:
    """Where each parameter was initialized from, by checkpoint tensor name.

    loaded: read from the checkpoint; new: missing from it and randomly initialized; unused: not part of this model;
    is_verified: whether the files were checked against a manifest; of_heads: those of `unused` that belong to a head
    of the family.
    """

    loaded: list[str]
    new: list[str]
    unused: list[str]
    is_verified: bool = True
    of_heads: frozenset[str] = frozenset()

    def __str__(self) -> str:
        parts = [f"{len(self.loaded)} tensors loaded"]
        parts += [f"new: {listed(self.new)}"] if self.new else []
        parts += [f"unused: {listed(self.unused)}"] if self.unused else []
        return "; ".join(parts)

    def log_weight_mismatch(self, name: object, new_is_wanted: bool = False) -> None:
        """Log missing and unexpected tensors of folder `name`, and whether it was verified.

        new_is_wanted: the caller requested another head than the stored one, or none, so that its weights are unused.
        """
        if self.new:
            say = note if new_is_wanted else warn
            say(f"{name} has no weights for {listed(self.new)}: they are randomly initialized and untrained.")
        if not self.is_verified:
            note(f"{name} has no {MANIFEST}: its structure was checked, but changed files cannot be detected.")
        unexpected = [one for one in self.unused if not new_is_wanted or one not in self.of_heads]
        if unexpected:
            note(f"{name} also contains {listed(unexpected)}, which this model does not use.")

    def require_trained(self, name: object) -> None:
        """Raise ModelFolderError if folder `name` lacks weights of its head: answers would be random."""
        if self.new:
            raise ModelFolderError(
                f"{name} has no weights for {listed(self.new)}, so its answers would be random: fine-tune it first, "
                "or pass --untrained (untrained=True in Python)."
            )


def listed(names: Sequence[str]) -> str:
    """Join names with commas; after LISTED of them, append how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


@dataclass(frozen=True)
class HeadPlan:
    """The head to add to the encoder.

    name, labels, problem_type: as in `build`; rows: which rows of the stored classifier to use, in order, or None if
    the head is not loaded from a stored classifier; is_stored: whether the checkpoint contains this head or one with
    equivalent parameters (parameter names in Maskwright's own format do not identify the head).
    """

    name: str | None
    labels: Sequence[str] | None = None
    problem_type: str | None = None
    rows: list[int] | None = None
    is_stored: bool = True


class Checkpoint:
    """Checkpoint tensors by canonical name: without prefix, current spelling, each bias once."""

    def __init__(self, file: Weights, family: Family) -> None:
        self.file, self.family = file, family
        self.stored: dict[str, str] = {}
        self._part: dict[str, tuple[int, int]] = {}  # of tensors that are part of a stored one: index, count
        # Prefixed names first: if the file has a tensor with and without the prefix, the model uses the prefixed one.
        for name in sorted(file.shapes, key=lambda name: family.canonical(name) == name):
            parts = family.parts(name)
            for index, part in enumerate(parts):
                if self.stored.setdefault(part, name) == name and len(parts) > 1:
                    self._part[part] = index, len(parts)
        self.copies = {name for name in file.shapes if family.is_buffer(family.canonical(name))}
        if family.decoder_embeddings:  # a shared embedding table may also be stored under the name of each side
            words = {name for name in file.shapes if family.canonical(name) == family.words}
            self.copies |= words - {self.stored.get(family.words, "")}

    def has_head(self) -> bool:
        return any(name in self.family.head_names or name.startswith("head.") for name in self.stored)

    def shape(self, name: str) -> tuple[int, ...]:
        shape = self.file.shapes[self.stored[name]]
        return shape if name not in self._part else (shape[0] // self._part[name][1], *shape[1:])

    def read(self, name: str) -> Tensor:
        """Returns a tensor by canonical name as float32."""
        tensor, (index, count) = self.file.read(self.stored[name]), self._part.get(name, (0, 1))
        return tensor if count == 1 else tensor.chunk(count)[index]

    def match_decoder_weights(self, config: ModelConfig, head: str | None) -> ModelConfig:
        """Adapt the stored decoder weights of `head` to our parameters, and return the matching configuration.

        The decoder bias may be stored under two names. A stored decoder weight equal to the word embeddings is tied
        and dropped; a different one makes the decoder untied.
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

    def match_frequencies(self, config: ModelConfig) -> ModelConfig:
        """Stored rotary frequencies count, as in transformers: those of ESM-2 are rounded to float16.

        Raises ModelFolderError if they are others.
        """
        names = [name for name in self.copies if name.endswith("inv_freq")]
        rounded = replace(config, rotary_float16=True)
        for name in names:
            stored = self.file.read(name)
            for one in (config, rounded):
                made = rotary_frequencies(one.head_dim, one.rotary_theta, in_float16=one.rotary_float16)
                if stored.shape == made.shape and torch.allclose(stored, made, rtol=1e-6, atol=0):
                    config = one
                    break
            else:
                raise ModelFolderError(
                    f"{self.file.folder}: {name} holds other frequencies than those of rope_theta "
                    f"{config.rotary_theta:g}, which is not supported."
                )
        return config

    def _words_of_decoder(self, config: ModelConfig) -> str:
        """Returns the name of the decoder's embedding table; a table shared by both sides is kept once."""
        words = self.family.words
        if not config.num_decoder_layers or "embeddings.word.weight" not in self.family.decoder_rows:
            return words
        (own,) = self.family.decoder_rows["embeddings.word.weight"]
        if config.decoder_vocab_size is not None:
            return own
        if words in self.stored and own in self.stored:
            if self.shape(words) != self.shape(own) or not torch.equal(self.read(words), self.read(own)):
                raise ModelFolderError(
                    f"{self.file.folder}: {self.stored[words]} and {self.stored[own]} differ, but config.json says "
                    "that encoder and decoder share one embedding table."
                )
            self.copies.add(self.stored.pop(own))
        elif words not in self.stored and own in self.stored:
            self.stored[words] = self.stored.pop(own)
        return words


def plan_head(
    stored: FolderConfig, head: str | None, labels: Sequence[str] | int | None, checkpoint: Checkpoint
) -> HeadPlan:
    """Decide which head to build, and whether the stored classifier can be loaded into it."""
    if isinstance(labels, int):
        labels = [f"LABEL_{index}" for index in range(labels)]
    if head not in LABELED_HEADS or stored.head_or_none() != head:
        own = stored.head_or_none()
        alike = own == head or any(own in group and head in group for group in ALIKE)
        return HeadPlan(head, labels, is_stored=alike)
    classifier = checkpoint.family.their_names("head.classifier.weight", head)[0]
    if classifier not in checkpoint.stored:
        return HeadPlan(head, labels) if labels is not None else HeadPlan(head, stored.labels, stored.problem_type)
    count = checkpoint.shape(classifier)[0]
    generic = tuple(f"LABEL_{index}" for index in range(count))
    kept = stored.labels or generic
    if labels is None or tuple(labels) == kept:
        return HeadPlan(head, kept, stored.problem_type, list(range(len(kept))))
    if sorted(labels) == sorted(kept):  # same classes, different order
        return HeadPlan(head, labels, stored.problem_type, [kept.index(label) for label in labels])
    if kept == generic and len(labels) == count:  # the checkpoint has no class names
        return HeadPlan(head, labels, stored.problem_type, list(range(count)))
    return HeadPlan(head, labels)


def _in_order(name: str, tensor: Tensor, rows: list[int] | None) -> Tensor:
    """Returns a head tensor with labels reordered by `rows` (None: as stored); other tensors unchanged."""
    if rows is None or not name.startswith(("head.classifier.", "head.crf.")):
        return tensor
    return tensor[rows][:, rows] if name == "head.crf.transitions" else tensor[rows]


def assemble(
    config: ModelConfig,
    plan: HeadPlan,
    checkpoint: Checkpoint,
    problem_type: str | None,
    seed: int,
    shared: SharedWeights | None = None,
) -> tuple[Model, LoadReport]:
    """Build and load the model described by `plan`, after checking all names and shapes.

    shared: gives the weights of encoder and decoder that it has, and keeps the others; None: read all weights.

    Raises:
        ModelFolderError: a tensor is missing or has the wrong shape.
    """
    config = checkpoint.match_frequencies(checkpoint.match_decoder_weights(config, plan.name))
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
            is_shared = shared is not None and name in sources and name.startswith(("encoder.", "decoder."))
            if is_shared and shared is not None and name in shared.tensors:
                parameter.data = shared.tensors[name]
            elif name in sources:
                tensor = torch.cat([checkpoint.read(theirs) for theirs in sources[name]])
                tensor = family.from_stored(name, tensor, tuple(parameter.shape))
                parameter.copy_(_in_order(name, tensor, plan.rows))
                if is_shared and shared is not None:
                    shared.tensors[name] = parameter.data
    initialize_new(model, set(new), config.initializer_range, seed, by_width=plan.name in CLASSIFIERS)
    loaded = list(dict.fromkeys(checkpoint.stored[theirs] for name in sources for theirs in sources[name]))
    unused = sorted(checkpoint.file.shapes.keys() - set(loaded) - checkpoint.copies)
    fresh = [theirs for name in new for theirs in family.stored_names(name, plan.name)]
    of_heads = frozenset(one for one in unused if family.canonical(one) in family.head_names)
    return model, LoadReport(loaded, fresh, unused, of_heads=of_heads)


def _match(blueprint: Model, plan: HeadPlan, checkpoint: Checkpoint) -> tuple[dict[str, list[str]], list[str]]:
    """Returns checkpoint names for each of our parameters, and the parameters to initialize randomly."""
    sources: dict[str, list[str]] = {}
    new, missing, wanted = [], [], set()
    for name, parameter in blueprint.named_parameters():
        theirs = checkpoint.family.their_names(name, plan.name)
        wanted.update(theirs)
        is_head = name.startswith(("head.", "top.", "encoder.pooler."))
        is_other_classifier = name.startswith("head.classifier.") and plan.name in LABELED_HEADS and plan.rows is None
        is_of_other_head = name.startswith("head.") and theirs == [name] and not plan.is_stored
        if all(part in checkpoint.stored for part in theirs) and not (is_other_classifier or is_of_other_head):
            _check_shapes(name, theirs, checkpoint.family.stored_shape(name, tuple(parameter.shape)), checkpoint)
            sources[name] = theirs
        elif is_head:
            new.append(name)
        else:
            missing += [part for part in theirs if part not in checkpoint.stored]
    if missing:
        stored = checkpoint.stored
        other = sorted(stored[name] for name in stored.keys() - wanted if stored[name] not in checkpoint.copies)
        besides = f"; other tensors in the file: {listed(other)}" if other else ""
        raise ModelFolderError(
            f"{checkpoint.file.folder} lacks encoder weights that its config.json describes: {listed(missing)}"
            f"{besides}."
        )
    return sources, new


def _check_shapes(ours: str, theirs: list[str], shape: tuple[int, ...], checkpoint: Checkpoint) -> None:
    sizes = checkpoint.family.part_sizes(ours, shape[0], len(theirs))
    for name, rows in zip(theirs, sizes, strict=True):
        found, wanted = checkpoint.shape(name), (rows, *shape[1:])
        if found != wanted:
            raise ModelFolderError(
                f"{checkpoint.file.folder}: {checkpoint.stored[name]} has shape {list(found)}, but config.json "
                f"requires {list(wanted)}: the two files belong to different models."
            )
