"""Model inspection: attention, hidden states, predictions and attributions of a text, as arrays and as an HTML page.

    reading.py      tokenized text and forward pass   tokens.py       tokens
    attention.py    attention patterns                heads.py        attention head patterns
    flow.py         attention rollout and flow        predictions.py  token predictions, logit lens
    states.py       hidden states                     compare.py      comparison of models and of answers
    attribution.py  feature attribution               reasons.py      words that an answer depends on
    outputs.py      outputs that are explained        steps.py        one attention layer step by step
    moves.py        attention changes between texts   view.py         all content of a page
    gradients.py    gradient decay by distance        page/           self-contained HTML page
    lengths.py      translation scores by length      cells.py, text.py   units of recurrent networks
    structure.py    blocks, shapes, FLOPs, weights    reports of probing in reports.py
    reports.py      reports of units, gradients, lengths and probes

Functions take a model from `maskwright.load` and a text or text pair. Arrays are numpy, on the CPU.
"""

from __future__ import annotations

from ..inference.probing import LayerProbe, ProbeResult, probe, read_labeled
from .attention import SOURCES, Attention, AttentionMap, attention, attention_of
from .attribution import Attribution, attribute, attribute_of
from .compare import ModelComparison, compare_models, compare_readings, differences
from .flow import flow, rollout
from .heads import (
    PATTERNS,
    HeadScore,
    PatternScores,
    attention_rows,
    find_heads,
    find_word_heads,
    patterns_of,
    search,
    through,
)
from .moves import AttentionChange, AttentionChanges, Move, head_moves
from .outputs import Output, output_of
from .page import render, write_page
from .predictions import MaskPrediction, Predictions, predictions, predictions_of
from .reading import TokenizedText, read
from .reasons import Reasons, Removal, Word, WordChange, WordChanges, explain, one_word_changes
from .states import Neighbor, States, WordMap, hidden_states, neighbors, states_of, word_map
from .steps import LayerSteps, QueryKey, Step, layer_steps, query_key, query_key_of, steps_of
from .tokens import Tokens
from .view import AttentionMapView, Inspection, look

__all__ = [
    "PATTERNS",
    "SOURCES",
    "Attention",
    "AttentionChange",
    "AttentionChanges",
    "AttentionMap",
    "AttentionMapView",
    "Attribution",
    "HeadScore",
    "Inspection",
    "LayerProbe",
    "LayerSteps",
    "MaskPrediction",
    "ModelComparison",
    "Move",
    "Neighbor",
    "Output",
    "PatternScores",
    "Predictions",
    "ProbeResult",
    "QueryKey",
    "Reasons",
    "Removal",
    "States",
    "Step",
    "TokenizedText",
    "Tokens",
    "Word",
    "WordChange",
    "WordChanges",
    "WordMap",
    "attention",
    "attention_of",
    "attention_rows",
    "attribute",
    "attribute_of",
    "compare_models",
    "compare_readings",
    "differences",
    "explain",
    "find_heads",
    "find_word_heads",
    "flow",
    "head_moves",
    "hidden_states",
    "layer_steps",
    "look",
    "neighbors",
    "one_word_changes",
    "output_of",
    "patterns_of",
    "predictions",
    "predictions_of",
    "probe",
    "query_key",
    "query_key_of",
    "read",
    "read_labeled",
    "render",
    "rollout",
    "search",
    "states_of",
    "steps_of",
    "through",
    "word_map",
    "write_page",
]
