"""Everything that a page shows of one text in one model, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.plural import plural
from ..models.model import Model
from ..text.inputs import Text
from .attention import Attention, AttentionMap, attention_of
from .attribution import CLASSES, GUESSES, Attribution, attribute_of
from .flow import flow, rollout
from .heads import Found, patterns_of
from .predictions import GUESSING, Predictions, predictions_of
from .query_key import QueryKey, query_key_of
from .reading import Reading, read
from .states import States, states_of
from .steps import LayerSteps, steps_of

MOST_NEURONS = 3_000_000  # queries and keys that a page holds, in numbers: above that it shows none
MOST_GUESSES = 600_000  # probabilities of all places: of the last ones of a text, where it has more
MOST_STEPS = 1_500_000  # and numbers of all layers' steps
MOST_FLOW_TOKENS = 32  # tokens up to which the flow of all is solved: about 1 ms a pair
MOST_EXPLAINED = 160  # tokens of a text whose answers are explained
MOST_ANSWERS = 6  # answers, or masks, that are


@dataclass(frozen=True, eq=False)
class MapLook:
    """One kind of attention. neurons: what its weights are made of, None where that is too much for a page; patterns:
    heads by what they do; rollout: float64 [layers, tokens, tokens], flow: [tokens, tokens], None for cross-attention,
    and flow for long texts too.
    """

    map: AttentionMap
    neurons: QueryKey | None
    patterns: tuple[Found, ...]
    rollout: np.ndarray | None
    flow: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Look:
    """One text in one model.

    name: of the model; facts: what it is, in words; states: vectors of the source in every layer; predictions: None for
    a model that guesses no tokens, and a text without a mask where masks are filled; attributions: of each class, or of
    the best guess for each mask; steps: of each layer that is shown, none for a long text.
    """

    name: str
    facts: str
    attention: Attention
    maps: tuple[MapLook, ...]
    states: States
    predictions: Predictions | None = None
    attributions: tuple[Attribution, ...] = ()
    steps: tuple[LayerSteps, ...] = ()


def look(
    model: Model,
    text: Text,
    *,
    name: str = "model",
    target: str | None = None,
    max_length: int | None = None,
    beams: int = 1,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    brief: bool = False,
) -> Look:
    """Look at a text with a model. name: for people; layers, heads: numbers from 1 of what is kept (None: all); brief:
    without what a page alone shows, which takes most of the time: queries and keys, steps, rollout and flow.

    Rollout and flow always go through all layers and heads. Other arguments as `read` takes them. Raises InputError and
    ConfigError as `read` and `Attention.select` do.
    """
    reading = read(model, text, target=target, max_length=max_length, beams=beams)
    whole = attention_of(reading)
    chosen = whole.select(layers, heads)
    maps = tuple(
        MapLook(
            one,
            _chosen(query_key_of(reading, one.kind), one) if not brief and _fits(model, one) else None,
            tuple(patterns_of(one)),
            *((None, None) if brief else _through(every)),
        )
        for one, every in zip(chosen.maps, whole.maps, strict=True)
    )
    return Look(
        name,
        facts_of(model),
        chosen,
        maps,
        states_of(reading),
        _predictions(reading),
        _attributions(reading),
        _steps(reading, chosen) if heads is None and not brief else (),
    )


def facts_of(model: Model) -> str:
    """A network in a line: layers, heads, width, parameters."""
    config = model.config
    decoder = f" and {plural(config.num_decoder_layers, 'decoder layer')}" if config.num_decoder_layers else ""
    layers = plural(config.num_hidden_layers, "layer") + decoder
    heads = plural(config.num_attention_heads, "head")
    return f"{layers} of {heads}, {config.hidden_size:,} wide, {plural(model.num_parameters, 'parameter')}"


def _fits(model: Model, map: AttentionMap) -> bool:
    """Whether a map is made of queries and keys, and these are few enough for a page."""
    if not model.config.attends:
        return False
    layers, heads = map.weights.shape[:2]
    numbers = layers * heads * (len(map.queries) + len(map.keys)) * model.config.head_dim
    positions = map.weights.size if model.config.relative_buckets or "relative" in model.config.positions else 0
    return numbers + positions <= MOST_NEURONS


def _chosen(found: QueryKey, map: AttentionMap) -> QueryKey:
    """The same for the layers and heads of `map` alone."""
    rows = [found.map.layers.index(layer) for layer in map.layers]
    columns = [found.map.heads.index(head) for head in map.heads]

    def of(values: np.ndarray) -> np.ndarray:
        return values[rows][:, columns]

    position = None if found.position is None else of(found.position)
    return QueryKey(map, of(found.query), of(found.key), of(found.value), position)


def _through(map: AttentionMap) -> tuple[np.ndarray | None, np.ndarray | None]:
    if map.kind == "cross":
        return None, None
    return rollout(map), flow(map) if len(map.queries) <= MOST_FLOW_TOKENS else None


def _predictions(reading: Reading) -> Predictions | None:
    model = reading.model
    if model.head_name not in GUESSING:
        return None
    fills = model.head_name in GUESSES and not model.config.judges_last
    if fills and not _masks(reading):
        return None
    return predictions_of(reading, last=max(1, MOST_GUESSES // len(model.scored_words)))


def _attributions(reading: Reading) -> tuple[Attribution, ...]:
    model = reading.model
    if len(reading.source) > MOST_EXPLAINED:
        return ()
    if model.head_name in CLASSES:
        answers: list[str | None] = [*model.labels[:MOST_ANSWERS]] or [None]
        return tuple(attribute_of(reading, answer) for answer in answers)
    places = range(min(_masks(reading), MOST_ANSWERS)) if model.head_name in GUESSES else ()
    return tuple(attribute_of(reading, place=place, baseline="pad") for place in places)


def _masks(reading: Reading) -> int:
    return reading.source.ids.count(reading.model.tokenizer.mask_id)


def _steps(reading: Reading, shown: Attention) -> tuple[LayerSteps, ...]:
    layers, config = shown.maps[0].layers, reading.model.config
    if not config.attends or 4 * len(reading.source) * len(layers) * config.hidden_size > MOST_STEPS:
        return ()
    every = steps_of(reading)
    return tuple(every[layer - 1] for layer in layers)
