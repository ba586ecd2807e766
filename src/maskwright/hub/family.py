"""Checkpoint families: how transformers' setting and tensor names map to our single model stack.

Everything is a table read in both directions. A row of a key table gives our tensor name and theirs, where `{i}` is a
layer, `{l}` a language and `{p}` weight or bias. Several names on their side are concatenated along the first axis to
one tensor of ours. Their names are written without the family's prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

from ..core import registry
from ..models.config import ModelConfig

Rows = Mapping[str, Sequence[str]]
Values = dict[str, Any]

# Buffers that some releases stored: they contain 0, 1, 2, ... or zeros, not weights.
BUFFERS = {"embeddings.position_ids", "embeddings.token_type_ids"}
_DEFAULTS = {one.name: one.default for one in fields(ModelConfig)}


def _same(values: Values) -> Values:
    return values


@dataclass(frozen=True)
class Family:
    """How one transformers model type is stored.

    Configuration:
        title: display name. classes: transformers' class -> our head. names: our setting -> theirs in config.json;
        aliases: our setting -> a second name of theirs, which takes precedence; hints: further settings of theirs that
        adapt_in reads under these names and removes; defaults: values of missing settings where they differ from our
        defaults; fixed: settings constant for the family; nullable: settings for which null is a value; adapt_in,
        adapt_out: final changes to our settings after reading, and to theirs before writing; understood: settings that
        change the computation, with the values supported; head_understood: the same per head. is_causal: whether all
        models of the family are causal.

    Tensors:
        prefix: of encoder tensors below a head. encoder, heads, decoder_rows: key tables (an empty encoder table means
        that both sides use our names); transposed: suffixes of our names of encoder matrices stored as [in, out];
        rows: suffixes of our names of vectors stored as a matrix of one row; renamed: regular expressions of other
        names in files -> their replacement to get those of the tables; joined: patterns of further ones -> the names of
        which such a tensor is the concatenation; buffers: patterns of tensors that are not weights; decoder_embeddings:
        their name of the decoder's own word embeddings, else of the shared ones; decoder_bias: whether the bias of the
        LM head is also stored as that of its decoder. constants: returns tensors, by their name, that transformers
        stores though they follow from the configuration. layers_per_group: for names with layer groups `{i}` and
        layers in a group `{k}`, the number of layers per group; query_groups: query heads per head of keys and values;
        interleaved: suffixes of our names of joint matrices stored as query, key and value of each of num_heads heads.
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
    aliases: Mapping[str, str] = field(default_factory=dict)
    understood: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    head_understood: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    transposed: tuple[str, ...] = ()
    buffers: str | None = None
    is_causal: bool = False
    decoder_bias: bool = True
    decoder_rows: Rows = field(default_factory=dict)
    decoder_embeddings: str | None = None
    rows: tuple[str, ...] = ()
    joined: Rows = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    layers_per_group: int = 1
    query_groups: int = 1
    interleaved: tuple[str, ...] = ()
    num_heads: int = 1
    constants: Callable[[ModelConfig], dict[str, Any]] | None = None
    adapt_in: Callable[[Values], Values] = _same
    adapt_out: Callable[[Values], Values] = _same

    # -- configuration ---------------------------------------------------------------------------------------

    def to_ours(self, theirs: Mapping[str, Any]) -> Values:
        """Returns our settings for a config.json. null means the default, except for settings that may be None."""
        ours: Values = {"family": self.model_type, **self.defaults}
        for name, their_name in [*self.names.items(), *self.hints.items(), *self.aliases.items()]:
            value = theirs.get(their_name)
            if value is not None or (their_name in theirs and name in self.nullable):
                ours[name] = value
        return self.adapt_in(ours | self.fixed)

    def to_theirs(self, config: ModelConfig) -> Values:
        """Returns the architecture settings of config.json."""
        return self.adapt_out({theirs: getattr(config, ours) for ours, theirs in self.names.items()})

    def describes(self, config: ModelConfig, head: str | None) -> bool:
        """Whether transformers has a class that computes the same as `config` with `head`."""
        if self.class_of(head) is None or (config.pools_last_token and head != "clm" and not self.is_causal):
            return False  # published decoders have no pooler, and BERT's would classify by the first token
        again = self.to_ours(self.to_theirs(config))
        return all(getattr(config, name) == again.get(name, default) for name, default in _DEFAULTS.items())

    def class_of(self, head: str | None) -> str | None:
        """Returns transformers' class for a head, or None."""
        wanted = "classification" if head == "regression" else head
        return next((name for name, ours in self.classes.items() if ours == wanted), None)

    def sized(self, config: ModelConfig) -> Family:
        """Returns the family with the tensor names for this configuration."""
        heads = config.num_attention_heads
        sizes: Values = {
            "layers_per_group": config.layers_per_group,
            "query_groups": heads // (config.num_key_value_heads or heads),
            "num_heads": heads if self.interleaved else 1,
        }
        return self if all(getattr(self, name) == size for name, size in sizes.items()) else replace(self, **sizes)

    # -- tensors ---------------------------------------------------------------------------------------------

    def their_names(self, ours: str, head: str | None) -> list[str]:
        """Returns their names, without prefix, of the tensors that make up our parameter `ours` in a model with `head`.

        A head that the family does not have keeps our names.
        """
        is_own_head = ours.startswith("head.") and head not in self.heads
        if not self.encoder or is_own_head or ours.startswith("top."):
            return [ours]
        for pattern, theirs in self._rules[head if head in self.heads else None]:
            found = pattern.fullmatch(ours)
            if found:
                numbers = found.groupdict()
                if "i" in numbers:
                    numbers["i"], numbers["k"] = divmod(int(numbers["i"]), self.layers_per_group)
                return [name.format(**numbers) for name in theirs]
        raise AssertionError(f"the key table of {self.model_type} has no row for {ours} under head {head}")

    @cached_property
    def head_names(self) -> frozenset[str]:
        """Their names of the tensors of all heads."""
        patterns = [name for rows in self.heads.values() for theirs in rows.values() for name in theirs]
        return frozenset(name.format(p=part) for name in patterns for part in ("weight", "bias"))

    def stored_names(self, ours: str, head: str | None) -> list[str]:
        """Returns the names as transformers stores them: no prefix in a bare model or for head tensors."""
        prefix = self.prefix if head is not None and ours.startswith(("encoder.", "decoder.")) else ""
        return [prefix + name for name in self.their_names(ours, head)]

    def to_stored(self, ours: str, tensor: Any, head: str | None) -> dict[str, Any]:
        """Returns our parameter `ours` (a tensor on the CPU) as transformers stores it: its tensors by stored name."""
        theirs = self.stored_names(ours, head)
        whole = tensor.T if self.is_transposed(ours) else tensor.view(self.stored_shape(ours, tuple(tensor.shape)))
        whole = self.by_head(ours, whole)
        parts = whole.split(self.part_sizes(ours, len(whole), len(theirs)))
        return {key: part.contiguous().clone() for key, part in zip(theirs, parts, strict=True)}

    def part_sizes(self, ours: str, rows: int, count: int) -> list[int]:
        """Returns the rows of each of the `count` stored tensors that make up our parameter of `rows` rows."""
        if count == 3 and self.query_groups > 1 and ".attention.qkv." in ours:
            keys = rows // (self.query_groups + 2)
            return [rows - 2 * keys, keys, keys]
        return [rows // count] * count

    def from_stored(self, ours: str, tensor: Any, shape: tuple[int, ...]) -> Any:
        """Returns our parameter `ours` of this shape, from the concatenation of its stored tensors."""
        tensor = self.by_head(ours, tensor, back=True)
        return tensor.T.contiguous() if self.is_transposed(ours) else tensor.view(shape)

    def by_head(self, ours: str, tensor: Any, back: bool = False) -> Any:
        """Reorders the rows of an interleaved matrix [3 * hidden, ...] by head, or back; others are unchanged."""
        if not self.interleaved or not ours.endswith(self.interleaved):
            return tensor
        counts = (self.num_heads, 3) if back else (3, self.num_heads)
        return tensor.view(*counts, -1, tensor.shape[-1]).transpose(0, 1).reshape(tensor.shape)

    def stored_constants(self, config: ModelConfig, head: str | None) -> dict[str, Any]:
        """Returns the tensors that follow from the configuration, by stored name."""
        made = {} if self.constants is None else self.constants(config)
        return {(self.prefix if head is not None else "") + name: tensor for name, tensor in made.items()}

    def canonical(self, stored: str) -> str:
        """Returns a stored name without prefix and in current spelling (gamma and beta become weight and bias)."""
        name = stored.removeprefix(self.prefix)
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            if name.endswith(old):
                return name.removesuffix(old) + new
        for pattern, replacement in self.renamed.items():
            name = re.sub(pattern, replacement, name)
        return self.words if name == self.decoder_embeddings else name

    def parts(self, stored: str) -> list[str]:
        """Returns the names of the tables, without prefix, of which a stored tensor is the concatenation."""
        name = self.canonical(stored)
        for pattern, theirs in self._joined:
            found = pattern.fullmatch(name)
            if found:
                return [one.format(**found.groupdict()) for one in theirs]
        return [name]

    @cached_property
    def _joined(self) -> list[tuple[re.Pattern[str], Sequence[str]]]:
        return [(_pattern(name), theirs) for name, theirs in self.joined.items()]

    @property
    def words(self) -> str:
        """Name of the word embeddings."""
        return self.their_names("encoder.embeddings.word.weight", None)[0]

    @property
    def pooler(self) -> str | None:
        """Name of the pooler's weight; None for a family without a pooler."""
        if not self.encoder:
            return "encoder.pooler.weight"
        return self.their_names("encoder.pooler.weight", None)[0] if "pooler.{p}" in self.encoder else None

    def is_transposed(self, ours: str) -> bool:
        """Whether the file stores our parameter `ours` transposed."""
        return bool(self.transposed) and ours.startswith("encoder.") and ours.endswith(self.transposed)

    def stored_shape(self, ours: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the stored shape of our parameter `ours` of this shape."""
        if self.rows and ours.endswith(self.rows):
            return (1, *shape)
        return shape[::-1] if self.is_transposed(ours) else shape

    def is_buffer(self, canonical: str) -> bool:
        """Whether a tensor is a buffer, not a weight."""
        return canonical in BUFFERS or (self.buffers is not None and re.fullmatch(self.buffers, canonical) is not None)

    def decoder(self, head: str | None) -> tuple[str, str | None, str | None] | None:
        """Returns the names of the decoder's weight, its bias, and the masked-language-model head's bias.

        The two biases may be the same, or None if no head of the family has one. None if `head` is not an LM head.
        """
        if head == "seq2seq" and self.encoder:
            return self.their_names("head.decoder", head)[0], None, None
        if head not in ("mlm", "clm", "pretraining") or not self.encoder:
            return None
        inside = "head.predictions." if head == "pretraining" else "head."
        weight = self.their_names(inside + "decoder", head)[0]
        if head in self.heads and inside.removeprefix("head.") + "bias" not in self.heads[head]:
            return weight, None, None
        bias = self.their_names(inside + "bias", head)[0]
        return weight, weight.removesuffix("weight") + "bias" if self.decoder_bias else bias, bias

    def predict_class(self, names: Iterable[str]) -> str:
        """Infer the class of a checkpoint without `architectures` from its canonical tensor names.

        Picks the class with the most head tensors present; ties go to the first in `classes`.
        """
        found = set(names)
        best, most = next(name for name, head in self.classes.items() if head is None), 0
        for name, head in self.classes.items():
            rows = self.heads.get(head, {}) if head else {}
            wanted = [their.format(p="weight") for row in rows.values() for their in row if "{p}" in their]
            wanted = wanted or [their for row in rows.values() for their in row if their in found]
            if len(wanted) > most and found.issuperset(wanted):
                best, most = name, len(wanted)
        return best

    @cached_property
    def _rules(self) -> dict[str | None, list[tuple[re.Pattern[str], Sequence[str]]]]:
        """For each head, the key-table rows of a model with it, with our names as patterns."""
        encoder = {f"encoder.{ours}": theirs for ours, theirs in self.encoder.items()}
        encoder |= {f"decoder.{ours}": theirs for ours, theirs in self.decoder_rows.items()}
        rules = {}
        for head in (None, *self.heads):
            rows = self.heads[head] if head is not None else {}
            both = encoder | {f"head.{ours}": theirs for ours, theirs in rows.items()}
            rules[head] = [(_pattern(ours), theirs) for ours, theirs in both.items()]
        return rules


def families() -> list[str]:
    """Returns the supported model types, our native format last."""
    return registry.names("family")


@cache
def family_named(model_type: str) -> Family:
    """Returns the family of a model type. Raises ConfigError with the closest match."""
    made: Family = registry.resolve("family", model_type)()
    return made


def family_for(config: ModelConfig, head: str | None) -> Family:
    """Returns the family whose format a model is saved in: its own if that can describe it, else the native one."""
    family = family_named(config.family)
    return family.sized(config) if family.describes(config, head) else family_named("maskwright")


def under(inside: str, rows: Rows) -> dict[str, Sequence[str]]:
    """Returns the rows of a submodule with our names prefixed by `inside`."""
    return {f"{inside}.{ours}": theirs for ours, theirs in rows.items()}


def _pattern(ours: str) -> re.Pattern[str]:
    escaped = (
        re.escape(ours)
        .replace(r"\{i\}", r"(?P<i>\d+)")
        .replace(r"\{l\}", r"(?P<l>[^.]+)")
        .replace(r"\{p\}", r"(?P<p>weight|bias)")
    )
    return re.compile(escaped)
