"""Floor 5: looking into a model. What it does with one text, as arrays with names, and as a page that shows them.

    reading.py     a text as a model reads it       tokens.py     its tokens
    attention.py   who attends to whom              query_key.py  what the weights are made of
    flow.py        rollout and flow                 heads.py      heads by what they do
    states.py      vectors of every layer           predictions.py  what a language model would put
    attribution.py what an answer rests on          compare.py    two models
    steps.py       one layer, step by step
    look.py        all that a page shows            results.py    what a person asked
    page/          one HTML file
    moves.py       heads that move between texts    capture.py    what modules take and give
    gradients.py   how far gradients reach          cells.py      what one cell of a recurrent network tells
    lengths.py     scores by the length of sources  rules.py      what a cell may follow; text.py its texts
    probe.py       what each layer knows            probe_rows.py the labelled words and texts that it is asked of

Every function takes a model as `maskwright.load` gives it, and a text or a pair of texts. Arrays are numpy, on the CPU.
"""

from __future__ import annotations

from .attention import SOURCES, Attention, AttentionMap, attention, attention_of
from .attribution import Attribution, attribute, attribute_of
from .compare import ModelComparison, compare_models, compare_readings
from .flow import flow, rollout
from .heads import PATTERNS, Found, HeadScore, find_heads, find_word_heads, patterns_of
from .look import Look, MapLook, look
from .moves import Move, Moves, Shift, head_moves
from .page import render, write_page
from .predictions import Guess, Predictions, predictions, predictions_of
from .probe import LayerProbe, Probed, probe
from .probe_rows import read_labelled
from .query_key import QueryKey, query_key, query_key_of
from .reading import Reading, read
from .results import attention_rows, search, through
from .states import Neighbour, States, WordMap, hidden_states, neighbours, states_of, word_map
from .steps import LayerSteps, Step, layer_steps, steps_of
from .tokens import Tokens

__all__ = [
    "PATTERNS",
    "SOURCES",
    "Attention",
    "AttentionMap",
    "Attribution",
    "Found",
    "Guess",
    "HeadScore",
    "LayerProbe",
    "LayerSteps",
    "Look",
    "MapLook",
    "ModelComparison",
    "Move",
    "Moves",
    "Neighbour",
    "Predictions",
    "Probed",
    "QueryKey",
    "Reading",
    "Shift",
    "States",
    "Step",
    "Tokens",
    "WordMap",
    "attention",
    "attention_of",
    "attention_rows",
    "attribute",
    "attribute_of",
    "compare_models",
    "compare_readings",
    "find_heads",
    "find_word_heads",
    "flow",
    "head_moves",
    "hidden_states",
    "layer_steps",
    "look",
    "neighbours",
    "patterns_of",
    "predictions",
    "predictions_of",
    "probe",
    "query_key",
    "query_key_of",
    "read",
    "read_labelled",
    "render",
    "rollout",
    "search",
    "states_of",
    "steps_of",
    "through",
    "word_map",
    "write_page",
]
