"""Interpretable units of recurrent networks (Karpathy et al. 2015, section 4.1).

Units are selected by their correlation with a rule on the first half of a text and confirmed on the held-out second
half, because among hundreds of units one always fits by chance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from ..core.config import check
from ..core.errors import ConfigError, InputError
from ..core.progress import track
from ..core.registry import unknown_name
from ..data.batch import Batch
from ..models.build import build
from ..models.model import Model
from ..text.readers.corpus import read_whole
from ..text.tokenizers.tokenizer import Tokenizer

# -- Documents as tokens, as a language model is trained on them: concatenated, with start and end tokens -------------


BETWEEN_DOCUMENTS = "\n\n"


@dataclass(frozen=True)
class ReadText:
    """Tokenized documents.

    text: the documents, separated by blank lines; ids: int64 [tokens], with start and end tokens; ends: end character
    of each token, -1 for special tokens, int64 [tokens].
    """

    text: str
    ids: np.ndarray
    ends: np.ndarray

    def first(self, most: int) -> ReadText:
        ends = self.ends[:most]
        last = int(ends.max(initial=-1))
        return ReadText(self.text[: max(last, 0)], self.ids[:most], ends)


def documents_of(sources: str | Sequence[str], *, skip_bad_rows: bool = False) -> list[str]:
    """Read the documents of a corpus; skipped rows are counted in a warning."""
    return ["\n".join(document.sentences) for document in read_whole(sources, skip_bad_rows=skip_bad_rows)]


def tokens_of(documents: Iterable[str], tokenizer: Tokenizer) -> ReadText:
    """Tokenize documents as a language model is trained on them."""
    texts, ids, ends, start = [], [], [], 0
    opening = list(tokenizer.opening_ids)
    closing = [] if tokenizer.eos_id is None else [tokenizer.eos_id]
    for text in documents:
        encoding = tokenizer(text)
        inside = [not is_special for is_special in encoding.special_tokens_mask]
        own = [id for id, is_text in zip(encoding.ids, inside, strict=True) if is_text]
        places = [start + end for (_, end), is_text in zip(encoding.offsets, inside, strict=True) if is_text]
        ids += [*opening, *own, *closing]
        ends += [*[-1] * len(opening), *places, *[-1] * len(closing)]
        texts.append(text)
        start += len(text) + len(BETWEEN_DOCUMENTS)
    return ReadText(BETWEEN_DOCUMENTS.join(texts), np.asarray(ids, dtype=np.int64), np.asarray(ends, dtype=np.int64))


# -- Character-level rules that units may track (Karpathy et al. 2015, section 4.1) ----------------------------------


OPENING, CLOSING = "([{", ")]}"
_CONDITION = re.compile(r"\bif\b[^:\n{]*")
_WORD = re.compile(r"[^\W\d_]+")
_HEADING = re.compile(r"^[^\n]*:(?=[ \t]*$)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def inside_quotes(text: str) -> np.ndarray:
    """Return 1 between quotation marks, else 0; a blank line closes a quotation. float64 [characters]."""
    found, is_open = np.zeros(len(text)), False
    for place, character in enumerate(text):
        found[place] = is_open
        if character in "“«" or (character == '"' and not is_open):
            is_open = True
        elif character in '”»"' or (character == "\n" and text[place - 1 : place] == "\n"):
            is_open = False
    return found


def place_in_line(text: str) -> np.ndarray:
    """Return the number of characters since the line start. float64 [characters]."""
    found, start = np.zeros(len(text)), 0
    for place, character in enumerate(text):
        found[place] = place - start
        if character == "\n":
            start = place + 1
    return found


def depth_of_brackets(text: str) -> np.ndarray:
    """Return the number of open brackets; unmatched closing brackets are ignored. float64 [characters]."""
    found, depth = np.zeros(len(text)), 0
    for place, character in enumerate(text):
        depth = max(depth + (character in OPENING) - (character in CLOSING), 0)
        found[place] = depth
    return found


def inside_comment(text: str) -> np.ndarray:
    """Return 1 in a comment (#, //, /* */), 0 outside. float64 [characters]."""
    return _inside(_COMMENT, text)


def inside_condition(text: str) -> np.ndarray:
    """Return 1 from "if" to the end of its condition (colon, brace or line end), else 0. float64 [characters]."""
    return _inside(_CONDITION, text)


def inside_capitals(text: str) -> np.ndarray:
    """Return 1 in a word of two or more letters, all of them capitals, 0 elsewhere. float64 [characters]."""
    found = np.zeros(len(text))
    for match in _WORD.finditer(text):
        if len(match[0]) > 1 and match[0].isupper():
            found[match.start() : match.end()] = 1.0
    return found


def inside_heading(text: str) -> np.ndarray:
    """Return 1 in a line that ends with a colon, such as the speaker in a play, else 0. float64
    [characters].
    """
    return _inside(_HEADING, text)


def _inside(pattern: re.Pattern[str], text: str) -> np.ndarray:
    found = np.zeros(len(text))
    for match in pattern.finditer(text):
        found[match.start() : match.end()] = 1.0
    return found


RULES: dict[str, tuple[Callable[[str], np.ndarray], str]] = {
    "quotes": (inside_quotes, "inside quotation marks"),
    "line": (place_in_line, "the position in the line"),
    "depth": (depth_of_brackets, "the number of open brackets"),
    "capitals": (inside_capitals, "inside a word in capitals"),
    "heading": (inside_heading, "inside a line that ends with a colon"),
    "comment": (inside_comment, "inside a comment"),
    "condition": (inside_condition, "inside the condition of an if"),
}


STREAM = 512  # tokens per stream; streams are read in parallel
WARM_UP = 128  # preceding tokens that initialize the hidden state of a stream
MOST_TOKENS = 50_000
CONFIRMED = 0.3  # minimum correlation of a confirmed unit
RANDOM_MARGIN = 0.05  # required margin over random weights


@dataclass(frozen=True)
class UnitActivations:
    """Activation of every unit after each token of a text.

    ends: end character of each token, int64 [tokens]; values: float32 [tokens, layers, size], tanh of the cell state of
    an LSTM, else the hidden state; is_cut: whether the text was truncated.
    """

    text: str
    ends: np.ndarray
    values: np.ndarray
    is_cut: bool

    def half(self, second: bool) -> slice:
        """Return the tokens of the search half, or of the held-out second half."""
        middle = len(self.ends) // 2
        return slice(middle, None) if second else slice(0, middle)


@dataclass(frozen=True)
class FoundUnit:
    """A unit that follows a rule.

    layer, unit: from 1 and from 0; searched, confirmed: correlation with the rule on the search half and the held-out
    half; random: absolute held-out correlation of the best unit of the same model with random weights.
    """

    rule: str
    layer: int
    unit: int
    searched: float
    confirmed: float
    random: float

    @property
    def strength(self) -> float:
        """Held-out correlation in the direction of the search; negative if the sign flips or nothing varies."""
        return float(np.nan_to_num(self.confirmed * np.sign(self.searched), nan=-1.0))

    @property
    def is_confirmed(self) -> bool:
        """Whether it follows the rule on held-out text, and better than random weights."""
        return self.strength >= CONFIRMED and self.strength > self.random + RANDOM_MARGIN

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "is_confirmed": self.is_confirmed}


@torch.inference_mode()
def read_cells(model: Model, read: ReadText, most: int = MOST_TOKENS) -> UnitActivations:
    """Record the unit activations of a recurrent causal language model on a text.

    most: maximum number of tokens. Raises InputError for another model, and for a text of fewer than 4 tokens.
    """
    if model.config.recurrent is None or not model.config.pools_last_token:
        raise InputError("The view of cells requires a unidirectional recurrent network, such as lstm-small.")
    check(most >= 4, f"most is {most}; it must be at least 4.")
    is_cut, read = len(read.ids) > most, read.first(most)
    is_text = read.ends >= 0
    if is_text.sum() < 4:
        raise InputError("The text has fewer than 4 tokens: pass a longer text.")
    ids = read.ids.tolist()
    starts = range(0, len(ids), STREAM)
    values = _read(model, [ids[max(start - WARM_UP, 0) : start + STREAM] for start in starts])
    own = [part[len(part) - len(ids[start : start + STREAM]) :] for start, part in zip(starts, values, strict=True)]
    return UnitActivations(read.text, read.ends[is_text], np.concatenate(own)[is_text], is_cut)


def untrained_like(model: Model, seed: int = 0) -> Model:
    """Build the same model with random weights, as a baseline."""
    untrained = build(model.config, model.head_name, seed=seed).eval()
    untrained.tokenizer = model.tokenizer
    return untrained.to(model.word_embeddings.device)


def find_units(readings: UnitActivations, rule: str, untrained: UnitActivations, top: int = 5) -> list[FoundUnit]:
    """Return the units that follow a rule best on the search half, best first; none if the rule is constant there.

    untrained: activations of `untrained_like(model)` on the same text. Raises ConfigError for an unknown rule.
    """
    best = _search(untrained, rule, 1)
    random = abs(float(np.nan_to_num(best[0][3]))) if best else 0.0
    return [FoundUnit(rule, *one, random) for one in _search(readings, rule, top)]


def _search(readings: UnitActivations, rule: str, top: int) -> list[tuple[int, int, float, float]]:
    """Return layer, unit and correlations on both halves of the best units on the first half."""
    wanted = rule_values(readings, rule)
    first, second = readings.half(False), readings.half(True)
    flat = readings.values.reshape(len(wanted), -1)
    searched = correlations(flat[first], wanted[first])
    if not np.isfinite(searched).any():
        return []
    confirmed = correlations(flat[second], wanted[second])
    best = np.argsort(-np.abs(np.nan_to_num(searched)), kind="stable")[:top]
    size = readings.values.shape[2]
    return [(int(one) // size + 1, int(one) % size, float(searched[one]), float(confirmed[one])) for one in best]


def rule_values(readings: UnitActivations, rule: str) -> np.ndarray:
    """Return the values of a rule at the last character of each token: float64 [tokens]. Raises ConfigError."""
    if rule not in RULES:
        raise ConfigError(unknown_name("rule", rule, RULES))
    return RULES[rule][0](readings.text)[np.maximum(readings.ends - 1, 0)]


def correlations(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the Pearson correlation of each column with a rule: float64 [units], nan if either is constant.

    values: float [tokens, units]; wanted: float [tokens].
    """
    centered = values - values.mean(axis=0, dtype=np.float64)
    rule = wanted - wanted.mean()
    spread = np.sqrt(np.einsum("tu,tu->u", centered, centered) * (rule @ rule))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = np.where(spread > 1e-9, rule @ centered / spread, np.nan)
    return found


def _read(model: Model, rows: Sequence[list[int]]) -> list[np.ndarray]:
    """Return the unit activations after each token of each row: float32 [tokens, layers, size] each."""
    device, states = model.word_embeddings.device, None
    found: list[list[np.ndarray]] = [[] for _ in rows]
    longest = max(map(len, rows))
    with track("reading", longest, "tokens per stream") as progress:
        for place in range(longest):
            batch = Batch.from_sequences([row[place : place + 1] for row in rows]).to(device)
            states = model.encode_stateful(batch, states).states
            assert states is not None
            kept = torch.stack([(layer[1].tanh() if len(layer) > 1 else layer[0])[0] for layer in states], dim=1)
            now = kept.float().cpu().numpy()  # [rows, layers, size]
            for number, row in enumerate(rows):
                if place < len(row):
                    found[number].append(now[number])
            progress.update(place + 1)
    return [np.stack(part) for part in found]
