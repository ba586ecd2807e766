"""Entities from the tags of all tokens, grouped by the five strategies of the pipelines of transformers.

`Tagging.answers` tags a word at its first token, as it was trained. The strategies differ: "none" gives every token,
"simple" groups the tokens, "first", "average" and "max" tag a word by its first token, by the mean probabilities of its
tokens or by its most certain token, and group the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from ..core.errors import InputError
from ..core.registry import unknown_name
from ..tasks.base import Task
from ..tasks.examples import Examples
from ..tasks.tagging.examples import best_windows
from ..tasks.tagging.schemes import OUTSIDE, split_tag
from ..tasks.tagging.task import Tagging
from ..text.tokenizers.encoding import Encoding, TextCounts
from .predict import Predictor
from .prepared import Prepared

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

STRATEGIES = ("none", "simple", "first", "average", "max")


@dataclass(frozen=True)
class _Unit:
    """A token or a word: its characters and number, its tag, and the probability of the tag."""

    start: int
    end: int
    index: int
    tag: str
    score: float


def prepare_entities(
    predictor: Predictor,
    texts: Sequence[str],
    strategy: str = "simple",
    stride: int | None = None,
    ignored: Sequence[str] = (OUTSIDE,),
) -> Prepared[list[list[dict[str, Any]]]]:
    """Tokenizes at least one text; the result has {"entity_group", "score", "word", "start", "end"} for each entity.

    Args:
        predictor: Of a token classification model.
        strategy: One of STRATEGIES; "none" gives {"entity", "index", ...} for each token instead.
        stride: Tokens that neighboring windows of a long text share (None: a quarter).
        ignored: Entity types that are skipped; with "none" and for tags without a scheme, tags.

    Raises:
        InputError: unknown strategy or ignored tag, stride too large, or a model whose CRF tags words together.
    """
    task, tokenizer = predictor.task, predictor.tokenizer
    assert isinstance(task, Tagging)
    if strategy not in STRATEGIES:
        raise InputError(unknown_name("aggregation strategy", strategy, STRATEGIES))
    if task.crf:
        raise InputError(
            "An aggregation strategy or stride needs a tag for each token, but the CRF of this model tags the words of "
            "a sentence together."
        )
    check_ignored(task, ignored, strategy)
    room = predictor.max_length - len(tokenizer(""))
    shared = room // 4 if stride is None else stride
    if not 0 <= shared < room:
        raise InputError(f"stride is {shared}; it must be 0 to {room - 1}, below the tokens of a window.")
    encodings = tokenizer.encode_batch(texts, predictor.max_length, stride=shared)
    windows = [[one, *one.overflowing] for one in encodings]
    counts = TextCounts()
    for one in windows:
        for window in one:
            counts.add(len(window), 0, window.num_unknown, window.template.num_special)
        counts.texts -= len(one) - 1
    every = [window for one in windows for window in one]
    examples = Examples([np.asarray(window.ids, dtype=np.int32) for window in every])
    temperature = 1.0 if task.temperature is None else task.temperature.value

    hidden = {*ignored, task.label_of(OUTSIDE)} if OUTSIDE in ignored else set(ignored)
    names = task.labels if strategy == "none" else task.tags

    def finish(outputs: Sequence[Tensor]) -> list[list[dict[str, Any]]]:
        found, rest = [], iter(outputs)
        for text, one in zip(texts, windows, strict=True):
            shares = _of_tokens(one, [next(rest) for _ in one], temperature)
            units = list(_units(text, one[0], shares, names, strategy, tokenizer))
            entities = (
                [
                    {
                        "entity": unit.tag,
                        "score": unit.score,
                        "index": unit.index,
                        "word": text[unit.start : unit.end],
                        "start": unit.start,
                        "end": unit.end,
                    }
                    for unit in units
                ]
                if strategy == "none"
                else _groups(text, units, task)
            )
            found.append([e for e in entities if not {e.get("entity"), e.get("entity_group")} & hidden])
        return found

    return Prepared(task.forward(predictor.model), examples, counts, finish)


def check_ignored(task: Task, ignored: Sequence[str], strategy: str | None) -> None:
    """Raises InputError for what the model does not have: a tag, or for entities a type."""
    assert isinstance(task, Tagging)
    of_tokens = strategy == "none" or task.scheme is None
    known = dict.fromkeys(task.labels if of_tokens else (split_tag(tag)[1] or tag for tag in task.tags))
    for tag in ignored:
        if tag != OUTSIDE and tag not in known:
            kind = "ignored tag" if of_tokens else "ignored type"
            raise InputError(unknown_name(kind, tag, list(known)[:20], "ignore_labels"))


def _of_tokens(windows: Sequence[Encoding], outputs: Sequence[Tensor], temperature: float) -> np.ndarray:
    """Probabilities of each token, from the window with the most context around it: float64 [tokens, labels]."""
    last = windows[-1].windows[0][1]
    owners = best_windows(windows, np.arange(last))
    rows = []
    for token, owner in enumerate(owners.tolist()):
        first = windows[owner].windows[0][0] - len(windows[owner].template.gaps[0][0])
        rows.append(outputs[owner][token - first].double())
    if not rows:
        return np.zeros((0, 0))
    logits = np.stack([row.numpy() for row in rows]) / temperature
    if not np.isfinite(logits).all():
        raise InputError("The model's outputs are not finite: its weights are damaged, or try --precision fp32.")
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: np.ndarray = raised / raised.sum(axis=1, keepdims=True)
    return shares


def _units(
    text: str, encoding: Encoding, shares: np.ndarray, labels: Sequence[str], strategy: str, tokenizer: Tokenizer
) -> Iterator[_Unit]:
    """Tokens, or words from "first" on, with their tags. shares: float64 [tokens, labels]."""
    own = encoding.pieces[0]
    opening = len(encoding.template.gaps[0][0])
    words: list[list[int]] = []
    mark = getattr(getattr(tokenizer.backend, "model", None), "continuing_subword_prefix", None)
    for token, (id, name, (start, _)) in enumerate(zip(own.ids, own.tokens, own.offsets, strict=True)):
        joins = name.startswith(mark) if mark else start > 0 and " " not in text[start - 1 : start + 1]
        if strategy in ("none", "simple") or not words or not joins or id == tokenizer.unk_id:
            words.append([token])
        else:
            words[-1].append(token)
    for word in words:
        rows = shares[word]  # [tokens of the word, labels]
        row = rows.mean(axis=0) if strategy == "average" else rows[0]
        if strategy == "max":
            row = rows[int(rows.max(axis=1).argmax())]
        best = int(row.argmax())
        start, end = own.offsets[word[0]][0], own.offsets[word[-1]][1]
        yield _Unit(start, end, word[0] + opening, labels[best], float(row[best]))


def _groups(text: str, units: Sequence[_Unit], task: Tagging) -> list[dict[str, Any]]:
    """Neighbors of one type, unless a prefix begins or ends an entity between them."""
    found: list[list[_Unit]] = []
    before = ("", "")
    for unit in units:
        prefix, type = split_tag(unit.tag) if task.scheme else ("", "")
        now = (prefix, type or unit.tag)
        if not found or now[1] != before[1] or now[0] in ("B", "S") or before[0] in ("E", "S"):
            found.append([])
        found[-1].append(unit)
        before = now
    return [
        {
            "entity_group": (split_tag(group[0].tag)[1] if task.scheme else "") or group[0].tag,
            "score": sum(unit.score for unit in group) / len(group),
            "word": text[group[0].start : group[-1].end],
            "start": group[0].start,
            "end": group[-1].end,
        }
        for group in found
    ]
