"""A family of published checkpoints: how its files name what our one stack has.

Everything is a table that is read in both directions. A row of a key table gives our name of a tensor and theirs; `{i}`
stands for a layer, `{p}` for weight or bias. Several names on their side are parts of one tensor of ours, joined along
its first axis. Their names stand in the tables without the family's prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any

from ..core import registry
from ..models.config import ModelConfig

Rows = Mapping[str, Sequence[str]]
Values = dict[str, Any]

# Buffers that some releases stored: they hold 0, 1, 2, ... or zeros, and no weights.
BUFFERS = {"embeddings.position_ids", "embeddings.token_type_ids"}
_DEFAULTS = {one.name: one.default for one in fields(ModelConfig)}


def _same(values: Values) -> Values:
    return values


@dataclass(frozen=True)
class Family:
    """How one model type of transformers is written down.

    title: for people; prefix: of encoder tensors under a head; classes: transformers' class -> our head.
    names: our setting -> theirs, for those that config.json holds; hints: further ones of theirs that adapt_in reads
    under these names and takes out; defaults: what a setting is when the file does not
    say, where that is not our own default; fixed: settings that no file of the family changes (those in neither have
    our default); nullable: settings for which null is a value; adapt_in, adapt_out: last changes to our settings after
    reading, to theirs before writing; understood: settings of theirs that change what is computed, and the values that
    we compute. encoder, heads: the key tables; an empty encoder table means that both sides use our names. turned: ends
    of our names of encoder matrices that they store with inputs first; buffers: further tensors of theirs that are no
    weights, as patterns; is_causal: whether all its networks are. decoder_rows: the key table of the stack that writes;
    own_words: what they call the word table where that stack has one of its own, and else the one of both; rows: ends
    of our names of vectors that they store as a matrix of one row.
    """

    model_type: str
    title: str
    prefix: str
    classes: Mapping[str, str | None]
    names: Mapping[str, str]
    encoder: Rows
    heads: Mapping[str, Rows]
    hints: Mapping[str, str] = field(default_factory=dict)
    defaults: Values = field(default_factory=dict)
    fixed: Values = field(default_factory=dict)
    nullable: Sequence[str] = ("pad_token_id",)
    understood: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    turned: tuple[str, ...] = ()
    buffers: str | None = None
    is_causal: bool = False
    decoder_rows: Rows = field(default_factory=dict)
    own_words: str | None = None
    rows: tuple[str, ...] = ()
    adapt_in: Callable[[Values], Values] = _same
    adapt_out: Callable[[Values], Values] = _same

    # -- configuration ---------------------------------------------------------------------------------------

    def to_ours(self, theirs: Mapping[str, Any]) -> Values:
        """Our settings for a config.json. An explicit null means the default, but for those that may be None."""
        ours: Values = {"family": self.model_type, **self.defaults}
        for name, their_name in {**self.names, **self.hints}.items():
            value = theirs.get(their_name)
            if value is not None or (their_name in theirs and name in self.nullable):
                ours[name] = value
        return self.adapt_in(ours | self.fixed)

    def to_theirs(self, config: ModelConfig) -> Values:
        """What config.json says of the network."""
        return self.adapt_out({theirs: getattr(config, ours) for ours, theirs in self.names.items()})

    def describes(self, config: ModelConfig, head: str | None) -> bool:
        """Whether transformers has a class that computes what `config` with `head` does."""
        if self.class_of(head) is None or (config.judges_last and head != "clm" and not self.is_causal):
            return False  # published decoders have no pooler, and those of BERT would judge the first token
        again = self.to_ours(self.to_theirs(config))
        return all(getattr(config, name) == again.get(name, default) for name, default in _DEFAULTS.items())

    def class_of(self, head: str | None) -> str | None:
        """transformers' class for a head; None when it has none."""
        wanted = "classification" if head == "regression" else head
        return next((name for name, ours in self.classes.items() if ours == wanted), None)

    # -- tensors ---------------------------------------------------------------------------------------------

    def their_names(self, ours: str, head: str | None) -> list[str]:
        """Names, without prefix, of the tensors that make up our parameter `ours` in a model with `head`.

        A head that the family does not have keeps our names: no file of theirs holds it.
        """
        is_own_head = ours.startswith("head.") and head not in self.heads
        if not self.encoder or is_own_head or ours.startswith("top."):
            return [ours]
        for pattern, theirs in self._rules[head if head in self.heads else None]:
            found = pattern.fullmatch(ours)
            if found:
                return [name.format(**found.groupdict()) for name in theirs]
        raise AssertionError(f"the key table of {self.model_type} has no row for {ours} under head {head}")

    def stored_names(self, ours: str, head: str | None) -> list[str]:
        """The same as transformers stores them: a bare model has no prefix, and heads have none."""
        prefix = self.prefix if head is not None and ours.startswith(("encoder.", "decoder.")) else ""
        return [prefix + name for name in self.their_names(ours, head)]

    def canonical(self, stored: str) -> str:
        """A stored name without prefix and in today's spelling (gamma and beta are weight and bias)."""
        name = stored.removeprefix(self.prefix)
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            if name.endswith(old):
                return name.removesuffix(old) + new
        return self.words if name == self.own_words else name

    @property
    def words(self) -> str:
        """Name of the word table."""
        return self.their_names("encoder.embeddings.word.weight", None)[0]

    @property
    def pooler(self) -> str | None:
        """Name of the pooler's weight; None for a family without one."""
        if not self.encoder:
            return "encoder.pooler.weight"
        return self.their_names("encoder.pooler.weight", None)[0] if "pooler.{p}" in self.encoder else None

    def is_turned(self, ours: str) -> bool:
        """Whether the file holds our parameter `ours` transposed."""
        return bool(self.turned) and ours.startswith("encoder.") and ours.endswith(self.turned)

    def stored_shape(self, ours: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in which the file holds our parameter `ours` of this shape."""
        if self.rows and ours.endswith(self.rows):
            return (1, *shape)
        return shape[::-1] if self.is_turned(ours) else shape

    def is_buffer(self, canonical: str) -> bool:
        """Whether a tensor of a file is no weight."""
        return canonical in BUFFERS or (self.buffers is not None and re.fullmatch(self.buffers, canonical) is not None)

    def decoder(self, head: str | None) -> tuple[str, str | None, str | None] | None:
        """Names of the decoder's weight, its bias, and the bias of the masked-language-model head.

        The last two may be one, or None where no head of the family has a bias. None where `head` predicts no words.
        """
        if head == "seq2seq" and self.encoder:
            return self.their_names("head.decoder", head)[0], None, None
        if head not in ("mlm", "clm", "pretraining") or not self.encoder:
            return None
        inside = "head.predictions." if head == "pretraining" else "head."
        weight = self.their_names(inside + "decoder", head)[0]
        if head in self.heads and inside.removeprefix("head.") + "bias" not in self.heads[head]:
            return weight, None, None
        return weight, weight.removesuffix("weight") + "bias", self.their_names(inside + "bias", head)[0]

    def guess_class(self, names: Iterable[str]) -> str:
        """The class that a checkpoint without `architectures` holds, by its canonical names.

        It is the one most of whose head is there, and of equals the first in `classes`.
        """
        found = set(names)
        best, most = next(name for name, head in self.classes.items() if head is None), 0
        for name, head in self.classes.items():
            rows = self.heads.get(head, {}) if head else {}
            wanted = [their.format(p="weight") for row in rows.values() for their in row if "{p}" in their]
            wanted = wanted or [their for ours, row in rows.items() if ours != "decoder" for their in row]
            if len(wanted) > most and found.issuperset(wanted):
                best, most = name, len(wanted)
        return best

    @cached_property
    def _rules(self) -> dict[str | None, list[tuple[re.Pattern[str], Sequence[str]]]]:
        """For each head the rows of a model with it, our side as a pattern."""
        encoder = {f"encoder.{ours}": theirs for ours, theirs in self.encoder.items()}
        encoder |= {f"decoder.{ours}": theirs for ours, theirs in self.decoder_rows.items()}
        rules = {}
        for head in (None, *self.heads):
            rows = self.heads[head] if head is not None else {}
            both = encoder | {f"head.{ours}": theirs for ours, theirs in rows.items()}
            rules[head] = [(_pattern(ours), theirs) for ours, theirs in both.items()]
        return rules


def families() -> list[str]:
    """Model types that load, our own format last."""
    return registry.names("family")


@cache
def family_named(model_type: str) -> Family:
    """The family of a model type. Raises ConfigError naming the nearest."""
    made: Family = registry.resolve("family", model_type)()
    return made


def family_for(config: ModelConfig, head: str | None) -> Family:
    """In which family's files a model is written: its own if that describes it, else our own format."""
    family = family_named(config.family)
    return family if family.describes(config, head) else family_named("maskwright")


def under(inside: str, rows: Rows) -> dict[str, Sequence[str]]:
    """The rows of a part, for a head that holds it as `inside`."""
    return {f"{inside}.{ours}": theirs for ours, theirs in rows.items()}


def _pattern(ours: str) -> re.Pattern[str]:
    escaped = re.escape(ours).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{p\}", r"(?P<p>weight|bias)")
    return re.compile(escaped)
