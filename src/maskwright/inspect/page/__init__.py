"""One HTML file that shows what a model does with a text: our own script and style inside, nothing from outside.

    style.css   light and dark, 375 to 1600 pixels
    *.js        one file for each view, joined in the order of SCRIPTS; the studio shows the same as a part of its page

Texts reach the page as JSON and are set as text nodes alone; the browser unpacks numbers from compressed bytes in
base64. The policy lets this one script and this one style run, by their hashes, and nothing be fetched.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ...core import storage
from ...core.util import plural
from ...report.numbers import Markup, element, json_text
from ...report.page import digest
from ...report.page import page as document
from ..attribution import Attribution
from ..compare import ModelComparison
from ..moves import AttentionChanges, align
from ..predictions import Predictions
from ..states import States
from ..steps import LayerSteps
from ..tokens import Tokens
from ..view import AttentionMapView, Inspection

SCRIPTS = (
    "tools", "picture", "data", "state", "tokens", "overview", "lines", "matrix", "neurons", "steps", "heads", "flow",
    "layers", "predictions", "attributions", "differences", "main",
)  # fmt: skip
# Then `file` for a separate file, or `part` for a part of another page.

# Weights of small pages are float16, right to 0.05 % of themselves. In large pages they are one byte,
# round(255 * sqrt(weight)): off by at most 0.004 at a weight of 1, and by 0.0002 at one of 0.002. Scores of patterns
# and rollout are computed before.
MOST_EXACT = 1_200_000  # maximum number of weights stored as float16
MOST_NEAR = 160  # maximum number of tokens with pairwise cosine similarities
LAYER_PREDICTIONS = 5
SHOWN_MOVES = 24
SHOWN_DIGITS = 5


def render(
    looks: Sequence[Inspection],
    moves: AttentionChanges | None = None,
    comparison: ModelComparison | None = None,
    title: str | None = None,
) -> str:
    """The page of one text in one model, or of two readings side by side. Pure: the same page for the same content.

    moves: which heads moved between two texts; comparison: of two models; title: None for the text itself.
    """
    names = " and ".join(dict.fromkeys(one.name for one in looks))
    shown = title or looks[0].attention.maps[0].keys.text
    tokens = plural(len(looks[0].attention.main.queries), "token")
    without = f"This page draws the attention of {looks[0].name} over {tokens}. It needs the script that is inside it."
    body = element(
        "body",
        element("noscript", element("p", without)),
        element("div", id="app"),
        element("script", Markup(page_data(list(looks), moves, comparison)), type="application/json", id="data"),
    )
    head = f"{' '.join(shown.split())[:80]} · {names} · attention"
    return document(
        head, style(), body, f'"use strict";\n(() => {{\n{_joined("file")}\n}})();\n', f"'{digest(style())}'"
    )


def write_page(
    path: Path | str,
    looks: Sequence[Inspection],
    moves: AttentionChanges | None = None,
    comparison: ModelComparison | None = None,
    title: str | None = None,
) -> None:
    """Write the page as one file, complete or not at all. Raises StorageError if writing fails."""
    storage.write_text(path, render(looks, moves, comparison, title))


def style() -> str:
    """The style sheet of the page."""
    return _file("style.css")


def module() -> str:
    """The page as a JavaScript module, for a page that shows it as a part."""
    return _joined("part")


@cache
def _joined(last: str) -> str:
    return "\n".join(_file(f"{name}.js") for name in (*SCRIPTS, last))


@cache
def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def page_data(
    looks: list[Inspection], moves: AttentionChanges | None = None, comparison: ModelComparison | None = None
) -> str:
    """The JSON of a page, safe inside a script element."""
    total = sum(one.map.weights.size for own in looks for one in own.maps)
    is_exact = total <= MOST_EXACT
    data = {
        "readings": [_reading(own, is_exact) for own in looks],
        "moves": None if moves is None else moves.to_json(SHOWN_MOVES),
        "comparison": None if comparison is None else comparison.to_json(),
        "aligned": None if len(looks) == 1 else align(*(look.states.tokens for look in looks)),
        "exactness": (
            "Weights are kept to 0.05 % of themselves."
            if is_exact
            else "Weights are kept as one byte each: to 0.004 near 1, to 0.0002 near 0.002."
        ),
    }
    return json_text(data)


def packed(values: np.ndarray, kind: str) -> dict[str, Any]:
    """An array as {"kind", "shape", "bytes"}. kind: "f16", "f32", or "root" (one byte of the root of 0 to 1)."""
    if kind == "root":
        raw = np.rint(255 * np.sqrt(np.clip(values, 0, 1))).astype(np.uint8)
    else:
        raw = values.astype({"f16": "<f2", "f32": "<f4"}[kind])
    compressed = zlib.compress(np.ascontiguousarray(raw).tobytes(), 6)
    return {"kind": kind, "shape": list(values.shape), "bytes": base64.b64encode(compressed).decode("ascii")}


def _reading(look: Inspection, is_exact: bool) -> dict[str, Any]:
    side = look.attention.maps[0].keys
    return {
        "name": look.name,
        "facts": look.facts,
        "text": side.text,
        "pair": side.text_pair,
        "target": None if len(look.maps) == 1 else look.attention.main.queries.text,
        "written": not look.attention.is_given,
        "maps": [_map(one, is_exact) for one in look.maps],
        "states": _states(look.states),
        "predictions": None if look.predictions is None else _predictions(look.predictions),
        "attributions": None if look.attributions is None else [_attribution(one) for one in look.attributions],
        "steps": _steps(look.steps),
    }


def _states(states: States) -> dict[str, Any]:
    layers = range(len(states.vectors))
    near = None
    if len(states.tokens) <= MOST_NEAR:
        near = packed(np.stack([states.similarities(layer) for layer in layers]), "f16")
    planes = np.stack([states.plane(layer) for layer in layers])  # [layers + 1, tokens, 2]
    widest = np.maximum(np.abs(planes).max(axis=(1, 2), keepdims=True), 1e-12)
    return {
        "tokens": _side(states.tokens),
        "turns": packed(np.clip(1 - states.steps, 0, 2), "f16"),
        "norms": packed(states.norms, "f32"),
        "planes": packed(planes / widest, "f16"),
        "near": near,
    }


def _predictions(found: Predictions) -> dict[str, Any]:
    layers = [] if found.by_layer is None else range(len(found.by_layer))
    by_layer = [
        [
            [[one.token, round(one.probability, 6)] for one in found.top(place, LAYER_PREDICTIONS, layer)]
            for layer in layers
        ]
        for place in range(len(found.places))
    ]
    size = found.probabilities.shape[1]  # which may have rows that no token has
    vocabulary = [*found.vocabulary[:size], *[""] * (size - len(found.vocabulary))]
    return {
        "tokens": _side(found.tokens),
        "places": list(found.places),
        "fills": found.fills,
        "vocabulary": vocabulary,
        "probabilities": packed(found.probabilities, "f32"),
        "by_layer": by_layer,
    }


def _attribution(found: Attribution) -> dict[str, Any]:
    return {
        "tokens": _side(found.tokens),
        "answer": found.answer,
        "values": np.round(found.attributions, SHOWN_DIGITS).tolist(),
        "at_text": found.at_text,
        "at_baseline": found.at_baseline,
        "gap": found.gap,
        "steps": found.steps,
        "complete": found.is_complete,
    }


def _steps(steps: tuple[LayerSteps, ...]) -> dict[str, Any] | None:
    if not steps:
        return None
    names = ("inputs", "value", "joined", "output")
    arrays = {name: packed(np.stack([getattr(one, name) for one in steps]), "f16") for name in names}
    return {"formulas": [[one.name, one.formula, one.axes] for one in steps[0].five], **arrays}


def _map(look: AttentionMapView, is_exact: bool) -> dict[str, Any]:
    map, found = look.map, look.neurons
    kind = "f16" if is_exact else "root"
    neurons = None
    if found is not None:
        neurons = {"query": packed(found.query, "f16"), "key": packed(found.key, "f16")}
        if found.position is not None:
            neurons["position"] = packed(found.position, "f16")
    return {
        "kind": map.kind,
        "source": map.source,
        "causal": map.is_causal,
        "layers": list(map.layers),
        "heads": list(map.heads),
        "queries": _side(map.queries),
        "keys": _side(map.keys),
        "weights": packed(map.weights, kind),
        "neurons": neurons,
        "patterns": [
            {
                "pattern": one.pattern,
                "meaning": one.meaning,
                "tokens": one.num_tokens,
                "even": round(one.heads[0].even, SHOWN_DIGITS),
                "scores": np.round(one.scores, SHOWN_DIGITS).tolist(),
            }
            for one in look.patterns
        ],
        "rollout": None if look.rollout is None else packed(look.rollout, kind),
        "flow": None if look.flow is None else packed(look.flow, "f16"),
    }


def _side(tokens: Tokens) -> dict[str, Any]:
    texts = [-1 if number is None else number for number in tokens.texts]
    return {"labels": list(tokens.labels), "texts": texts, "writes": list(tokens.writes)}
