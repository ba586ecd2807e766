"""Computes the content of an inspection page for one text and model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.util import plural
from ..models.heads import SequenceClassificationHead
from ..models.model import Model
from ..text.readers.inputs import Text
from .attention import Attention, AttentionMap, attention_of
from .attribution import Attribution, attribute_of
from .flow import flow, rollout
from .heads import PatternScores, patterns_of
from .outputs import MASKED_LM_HEADS, masks_of
from .predictions import LANGUAGE_MODEL_HEADS, Predictions, predictions_of
from .reading import TokenizedText, read
from .states import States, states_of
from .steps import LayerSteps, QueryKey, query_key_of, steps_of

MAX_NEURONS = 3_000_000  # maximum elements of queries and keys on a page; above that none are shown
MAX_PROBABILITIES = 600_000  # maximum probabilities on a page; above that only the last positions
MAX_STEP_ELEMENTS = 1_500_000  # maximum elements of the steps of all layers
MAX_FLOW_TOKENS = 32  # maximum tokens for the flow of all pairs, about 1 ms per pair
MAX_EXPLAINED_TOKENS = 160  # maximum tokens of a text with attributions
MAX_ANSWERS = 6  # maximum explained classes or masks


@dataclass(frozen=True, eq=False)
class AttentionMapView:
    """One kind of attention.

    neurons: queries and keys, None if too large for a page; patterns: head patterns; rollout: float64 [layers, tokens,
    tokens], flow: [tokens, tokens]; both None for cross-attention, flow also for long texts.
    """

    map: AttentionMap
    neurons: QueryKey | None
    patterns: tuple[PatternScores, ...]
    rollout: np.ndarray | None
    flow: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Inspection:
    """Inspection of one text with one model.

    name, facts: model name and description; states: hidden states of the source; predictions: None without a language
    model head or without a mask; attributions: of each class, or of the top prediction of each mask, None if not
    computed; steps: of each shown layer, empty for a long text.
    """

    name: str
    facts: str
    attention: Attention
    maps: tuple[AttentionMapView, ...]
    states: States
    predictions: Predictions | None = None
    attributions: tuple[Attribution, ...] | None = ()
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
    with_attributions: bool = True,
) -> Inspection:
    """Inspect a text with a model.

    name: shown name; layers, heads: numbers from 1 (None: all); brief: skip queries and keys, steps, rollout and flow,
    which only a page shows; with_attributions: compute attributions, which takes longest. Rollout and flow use all
    layers and heads. Other arguments as in `read`. Raises InputError and ConfigError as `read` and `Attention.select`.
    """
    reading = read(model, text, target=target, max_length=max_length, beams=beams)
    whole = attention_of(reading)
    chosen = whole.select(layers, heads)
    maps = tuple(
        AttentionMapView(
            one,
            _chosen(query_key_of(reading, one.kind), one) if not brief and _fits(model, one) else None,
            tuple(patterns_of(one)),
            *((None, None) if brief else _through(every)),
        )
        for one, every in zip(chosen.maps, whole.maps, strict=True)
    )
    return Inspection(
        name,
        facts_of(model),
        chosen,
        maps,
        states_of(reading),
        _predictions(reading),
        _attributions(reading, with_attributions),
        _steps(reading, chosen) if heads is None and not brief else (),
    )


def facts_of(model: Model) -> str:
    """Describe a model in one line: layers, heads, hidden size, parameters."""
    config = model.config
    decoder = f" and {plural(config.num_decoder_layers, 'decoder layer')}" if config.num_decoder_layers else ""
    layers = plural(config.num_hidden_layers, "layer") + decoder
    heads = plural(config.num_attention_heads, "head")
    return f"{layers} of {heads}, hidden size {config.hidden_size:,}, {plural(model.num_parameters, 'parameter')}"


def _fits(model: Model, map: AttentionMap) -> bool:
    """Return whether a map has queries and keys that are small enough for a page."""
    if not model.config.attends:
        return False
    layers, heads = map.weights.shape[:2]
    numbers = layers * heads * (len(map.queries) + len(map.keys)) * model.config.head_dim
    positions = map.weights.size if model.config.has_relative_positions else 0
    return numbers + positions <= MAX_NEURONS


def _chosen(found: QueryKey, map: AttentionMap) -> QueryKey:
    """Select the layers and heads of `map`."""
    rows = [found.map.layers.index(layer) for layer in map.layers]
    columns = [found.map.heads.index(head) for head in map.heads]

    def of(values: np.ndarray) -> np.ndarray:
        return values[rows][:, columns]

    position = None if found.position is None else of(found.position)
    return QueryKey(map, of(found.query), of(found.key), of(found.value), position)


def _through(map: AttentionMap) -> tuple[np.ndarray | None, np.ndarray | None]:
    if map.kind == "cross":
        return None, None
    return rollout(map), flow(map) if len(map.queries) <= MAX_FLOW_TOKENS else None


def _predictions(reading: TokenizedText) -> Predictions | None:
    model = reading.model
    if model.head_name not in LANGUAGE_MODEL_HEADS:
        return None
    fills = model.head_name in MASKED_LM_HEADS and not model.config.pools_last_token
    if fills and not masks_of(reading):
        return None
    return predictions_of(reading, last=max(1, MAX_PROBABILITIES // len(model.scored_words)))


def _attributions(reading: TokenizedText, is_computed: bool) -> tuple[Attribution, ...] | None:
    """Return the attributions; None if there are some but they are not computed."""
    model = reading.model
    asked: list[dict[str, Any]] = []
    if len(reading.source) > MAX_EXPLAINED_TOKENS:
        return ()
    if isinstance(model.head, SequenceClassificationHead):
        asked = [{"answer": label} for label in model.labels[:MAX_ANSWERS]] if model.num_labels > 1 else [{}]
    elif model.head_name in MASKED_LM_HEADS:
        asked = [{"place": place, "baseline": "pad"} for place in range(min(len(masks_of(reading)), MAX_ANSWERS))]
    if asked and not is_computed:
        return None
    return tuple(attribute_of(reading, **one) for one in asked)


def _steps(reading: TokenizedText, shown: Attention) -> tuple[LayerSteps, ...]:
    layers, config = shown.maps[0].layers, reading.model.config
    if not config.attends or 4 * len(reading.source) * len(layers) * config.hidden_size > MAX_STEP_ELEMENTS:
        return ()
    every = steps_of(reading)
    return tuple(every[layer - 1] for layer in layers)
