"""Explains step by step how a vocabulary is learned: the counts that select each merge, and those it changes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

from ...core.errors import ConfigError, InputError
from .marian import MarianBackend
from .trainers import bpe
from .trainers import wordpiece as score
from .trainers.bpe import MergeLearner, TieBreak
from .trainers.wordpiece import ScoreLearner
from .trainers.words import Pair, Segmentation, apply_merges
from .vocabulary import END_OF_WORD

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

# -- Displays word segmentation with ## on the right subword (BERT: `la ##ern`) or on the left one (`la## ern`) ------


MARK = "##"
NOTATIONS = ("right", "left")


def subwords_by_word(tokenizer: Tokenizer, ids: Sequence[int]) -> list[list[str]]:
    """Returns the bare subwords of each word of `ids`: no ##, </w> or spaces; special tokens are words."""
    words: list[list[str]] = []
    for id, starts in zip(ids, tokenizer.word_starts(ids), strict=True):
        piece = bare(tokenizer, int(id))
        if starts or not words:
            words.append([])
        if piece:
            words[-1].append(piece)
    return [pieces for pieces in words if pieces]


def format_subwords(tokenizer: Tokenizer, ids: Sequence[int], notation: str = "right") -> str:
    """Formats the subwords of `ids` on one line: `taa ##aaa ##sty`, or `taa## aaa## sty` with notation "left"."""
    return " ".join(join_subwords(pieces, notation) for pieces in subwords_by_word(tokenizer, ids))


def join_subwords(pieces: Sequence[str], notation: str = "right") -> str:
    """Joins the subwords of one word with the mark as in `notation`."""
    return f"{MARK} ".join(pieces) if notation == "left" else f" {MARK}".join(pieces)


def bare(tokenizer: Tokenizer, id: int) -> str:
    """Returns the text of one subword without marks."""
    token = tokenizer.tokens[id]
    if id in tokenizer.special_ids:
        return token
    words = tokenizer.word_markers.words
    if words == "bytes" and not isinstance(tokenizer.backend, MarianBackend):
        text = tokenizer.backend.decoder.decode([token])
        return token if "\ufffd" in text else text.strip()
    if words == "suffix":
        return token.removesuffix(END_OF_WORD)
    return token.removeprefix(MARK) if words == "prefix" and token != MARK else token.strip()


# -- Traces how a tokenizer segments one word: WordPiece lookups, or BPE merges in order -----------------------------
#
# WordPiece (Wu et al. 2016) takes the longest vocabulary entry at the start of the word, then continues after it. BPE
# (Sennrich et al. 2016) starts from characters and repeatedly applies the merge learned earliest. The last step equals
# the result of the `tokenizers` library, which tests check.


MAX_CHARACTERS = 200


@dataclass(frozen=True)
class SegmentationStep:
    """One step.

    pieces: the word after the step; tried: subwords looked up but not in the vocabulary, longest first
    (WordPiece); taken: the subword found, or created by a merge; rank: number of the merge, from 1 (BPE).
    """

    pieces: list[str]  # terms: ok (JSON key)
    tried: list[str]
    taken: str | None
    rank: int | None = None


@dataclass(frozen=True)
class SegmentedWord:
    """A pre-tokenized word, its steps, and its final tokens."""

    word: str
    steps: list[SegmentationStep]
    tokens: list[str]


@dataclass(frozen=True)
class SegmentationTrace:
    """rule: "longest match", "merges", or "none" for kinds without steps; words: of the text, in order."""

    rule: str
    words: list[SegmentedWord]

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-serializable dict."""
        return asdict(self)


class SegmentationTracer:
    """Traces the segmentation of one tokenizer; its tables are read once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        backend = tokenizer.backend  # Marian's segments the whole text at once
        self.library = None if isinstance(backend, MarianBackend) else backend
        model: dict[str, Any] = (
            {"type": "Unigram"} if self.library is None else json.loads(self.library.to_str())["model"]
        )
        is_merged = model["type"] == "BPE" and not model.get("byte_fallback") and not model.get("ignore_merges")
        self.rule = "longest match" if tokenizer.word_markers.words == "prefix" else "merges" if is_merged else "none"
        self.prefix = model.get("continuing_subword_prefix") or ""
        self.suffix = model.get("end_of_word_suffix") or ""
        self.longest = model.get("max_input_chars_per_word", MAX_CHARACTERS)
        self.ranks: dict[tuple[str, str], int] = {}
        for rank, merge in enumerate(model.get("merges", ()) if is_merged else (), start=1):
            left, right = merge.split(" ") if isinstance(merge, str) else merge
            self.ranks.setdefault((left, right), rank)

    def cut(self, text: str) -> SegmentationTrace:
        """Segment the words of a short text step by step; only the first `MAX_CHARACTERS` characters are used."""
        words = self._words(text[:MAX_CHARACTERS])
        if self.rule == "longest match":
            return SegmentationTrace(self.rule, [self._longest_match(word) for word in words])
        if self.rule == "merges":
            return SegmentationTrace(self.rule, [self._merges(word) for word in words])
        return SegmentationTrace(self.rule, [SegmentedWord(word, [], self._tokens(word)) for word in words])

    def _words(self, text: str) -> list[str]:
        """Returns the normalized and pre-tokenized words."""
        backend = self.library
        if backend is None:
            return [text] if text else []
        normal = backend.normalizer.normalize_str(text) if backend.normalizer is not None else text
        if backend.pre_tokenizer is None:
            return [normal] if normal else []
        return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal)]

    def _tokens(self, word: str) -> list[str]:
        if self.library is None:
            return [self.tokenizer.id_to_token(one) or "" for one in self.tokenizer.encode_plain([word])[0]]
        return [token.value for token in self.library.model.tokenize(word)]

    def _longest_match(self, word: str) -> SegmentedWord:
        steps: list[SegmentationStep] = []
        found: list[str] = []
        start = 0
        while start < len(word) <= self.longest:
            tried: list[str] = []
            for end in range(len(word), start, -1):
                piece = (self.prefix if start else "") + word[start:end]
                if self.tokenizer.token_to_id(piece) is not None:
                    break
                tried.append(piece)
            else:  # no match: the whole word is unknown
                steps.append(SegmentationStep([*found, word[start:]], tried, None))
                return SegmentedWord(word, steps, self._tokens(word))
            found.append(piece)
            steps.append(SegmentationStep([*found, *([word[end:]] if end < len(word) else [])], tried, piece))
            start = end
        return SegmentedWord(word, steps, self._tokens(word))

    def _merges(self, word: str) -> SegmentedWord:
        row = [*((self.prefix if index else "") + letter for index, letter in enumerate(word))]
        if row:
            row[-1] += self.suffix
        steps = [SegmentationStep(list(row), [], None)]
        while (best := self._first_merge(row)) is not None:
            row = _apply(row, best, self.prefix)
            taken = best[0] + best[1].removeprefix(self.prefix)
            steps.append(SegmentationStep(list(row), [], taken, self.ranks[best]))
        return SegmentedWord(word, steps, self._tokens(word))

    def _first_merge(self, row: Sequence[str]) -> tuple[str, str] | None:
        """Returns the adjacent pair that was learned first, or None if no merge applies."""
        known = [pair for pair in pairwise(row) if pair in self.ranks]
        return min(known, key=self.ranks.__getitem__, default=None)


def _apply(row: Sequence[str], pair: tuple[str, str], prefix: str) -> list[str]:
    """Returns the row with every occurrence of the pair merged, from left to right."""
    merged: list[str] = []
    for symbol in row:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] = pair[0] + pair[1].removeprefix(prefix)
        else:
            merged.append(symbol)
    return merged


ExplainedKind = Literal["bpe", "wordpiece-score"]


@dataclass(frozen=True)
class Candidate:
    """An adjacent pair before a merge: its count, the counts of its parts, and its score if used."""

    left: str
    right: str
    count: int
    left_count: int
    right_count: int
    score: Fraction | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns a JSON-serializable dict, with the score as a number."""
        facts = {"left": self.left, "right": self.right, "count": self.count}
        if self.score is None:
            return facts
        return facts | {
            "left_count": self.left_count,
            "right_count": self.right_count,
            "score": float(self.score),
        }


@dataclass(frozen=True)
class Step:
    """One merge: the winner, all candidates (best first; ties in order of first occurrence), the candidates tied with
    the winner, and the changed symbols with their counts before and after.
    """

    number: int
    winner: Candidate
    merged: str
    candidates: tuple[Candidate, ...]
    tied: tuple[Candidate, ...]
    changes: tuple[tuple[str, int, int], ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns a JSON-serializable dict."""
        return {
            "number": self.number,
            **self.winner.as_dict(),
            "merged": self.merged,
            "tied_with": [[other.left, other.right] for other in self.tied],
            "changes": [{"symbol": symbol, "before": before, "after": after} for symbol, before, after in self.changes],
            "candidates": [candidate.as_dict() for candidate in self.candidates],
        }


@dataclass(frozen=True)
class Explanation:
    """A complete training run: initial symbol counts, the steps, and the final segmentation of the words."""

    kind: str
    tie_break: str
    words: dict[str, int]
    start: dict[str, int]
    steps: tuple[Step, ...]
    segmented: dict[str, list[str]]
    stopped: str

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The learned merges in order."""
        return [(step.winner.left, step.winner.right) for step in self.steps]

    def as_dict(self) -> dict[str, Any]:
        """Returns a JSON-serializable dict."""
        return {
            "kind": self.kind,
            "tie_break": self.tie_break,
            "words": self.words,
            "symbols": self.start,
            "merges": [step.as_dict() for step in self.steps],
            "segmented": self.segmented,
            "stopped": self.stopped,
        }


def explain(
    words: dict[str, int],
    kind: str = "bpe",
    *,
    num_merges: int | None = None,
    vocab_size: int | None = None,
    tie_break: TieBreak = "first",
) -> Explanation:
    """Learn merges from word counts and record each step.

    num_merges, vocab_size: stop at whichever is reached first (vocab_size counts symbols without special tokens);
    without either, when no pair is left. Raises ConfigError for an unsupported kind or tie rule, InputError without
    words.
    """
    if kind not in get_args(ExplainedKind):
        raise ConfigError(f"Only {' and '.join(get_args(ExplainedKind))} can be explained, not '{kind}'.")
    if kind != "bpe" and tie_break != "first":
        raise ConfigError("wordpiece-score always merges the pair seen first; tie_break is an option of bpe.")
    if not words or any(not word or count < 1 for word, count in words.items()):
        raise InputError("Words to explain need a count of at least 1 each, as in old:7,older:3.")
    split = bpe.split_word if kind == "bpe" else score.split_word
    state = Segmentation((split(word), count) for word, count in words.items())
    start = _symbols_in_order(state)
    learner = MergeLearner(state, tie_break) if kind == "bpe" else ScoreLearner(state)
    steps: list[Step] = []
    vocabulary = set(state.names)
    stopped = ""
    for number in itertools.count(1):
        if num_merges is not None and number > num_merges:
            stopped = f"the limit of {num_merges} merges"
        elif vocab_size is not None and len(vocabulary) >= vocab_size:
            stopped = f"the limit of {vocab_size} symbols"
        elif (step := _next_step(number, learner)) is None:
            stopped = "no pair is left"
        else:
            steps.append(step)
            vocabulary.add(step.merged)
            continue
        break
    rows = zip(words, state.words, strict=True)
    segmented = {word: [state.names[symbol] for symbol in row] for word, row in rows}
    return Explanation(kind, tie_break, dict(words), start, tuple(steps), segmented, stopped)


def encode_steps(word: str, merges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Returns the states of a word as learned BPE merges apply to it, from characters to tokens."""
    state = Segmentation([(bpe.split_word(word), 1)])
    ranks: dict[Pair, tuple[int, int]] = {}
    rows = [state.words[0]]
    for rank, (left, right) in enumerate(merges):
        ranks[state.number(left), state.number(right)] = (rank, state.number(left + right))
        if (row := apply_merges(rows[-1], ranks)) != rows[-1]:
            rows.append(row)
    return [[state.names[symbol] for symbol in row] for row in rows]


def parse_words(text: str) -> dict[str, int]:
    """Parse `old:7,older:3` as counts. Raises InputError for anything else."""
    words: dict[str, int] = {}
    for part in text.split(","):
        word, colon, count = part.strip().rpartition(":")
        if not (word and colon and count.isdecimal() and int(count) > 0) or any(map(str.isspace, word)):
            raise InputError(f"'{part.strip()}' is not WORD:COUNT; specify words as in old:7,older:3,finest:9.")
        words[word] = words.get(word, 0) + int(count)
    return words


def _next_step(number: int, learner: MergeLearner | ScoreLearner) -> Step | None:
    state = learner.segmentation
    names, before = state.names, list(state.symbol_counts)
    candidates = _candidates(state, scored=isinstance(learner, ScoreLearner))
    merge: bpe.Merge | score.ScoredMerge | None = next((merge for merge in learner), None)
    if merge is None:
        return None
    winner = next(item for item in candidates if (item.left, item.right) == (merge.left, merge.right))
    worth = winner.count if winner.score is None else winner.score
    tied = tuple(
        item
        for item in candidates
        if item is not winner and (item.count if item.score is None else item.score) == worth
    )
    before += [0] * (len(names) - len(before))
    involved = dict.fromkeys(state.number(name) for name in (merge.left, merge.right, merge.merged))
    others = (symbol for symbol in range(len(names)) if before[symbol] != state.symbol_counts[symbol])
    changes = tuple(
        (names[symbol], before[symbol], state.symbol_counts[symbol]) for symbol in {**involved, **dict.fromkeys(others)}
    )
    return Step(number, winner, merge.merged, tuple(candidates), tied, changes)


def _candidates(state: Segmentation, *, scored: bool) -> list[Candidate]:
    """Returns all pairs, best first, ties in order of first occurrence in the corpus."""
    found = []
    for pair in sorted(state.pair_counts, key=state.first_position):
        counts = (state.pair_counts[pair], state.symbol_counts[pair[0]], state.symbol_counts[pair[1]])
        worth = Fraction(counts[0], counts[1] * counts[2]) if scored else None
        found.append(Candidate(state.names[pair[0]], state.names[pair[1]], *counts, worth))
    return sorted(found, key=lambda item: -(item.count if item.score is None else item.score))


def _symbols_in_order(state: Segmentation) -> dict[str, int]:
    """Returns symbols and their counts: the end-of-word symbol first, then in order of first occurrence."""
    order = sorted(range(len(state.names)), key=lambda symbol: state.names[symbol] != END_OF_WORD)
    return {state.names[symbol]: state.symbol_counts[symbol] for symbol in order}


def render(explanation: Explanation, num_candidates: int = 5) -> str:
    """Formats the explanation as text: initial counts, then each merge with its candidates and changed counts."""
    lines = [
        "Words: " + ", ".join(f"{word} {count}" for word, count in explanation.words.items()),
        f"{len(explanation.start)} symbols: " + ", ".join(f"{name} {n}" for name, n in explanation.start.items()),
    ]
    for step in explanation.steps:
        lines += ["", *_render_step(step, explanation.tie_break, num_candidates)]
    lines += [
        "",
        "Merges in order: " + ", ".join(step.merged for step in explanation.steps),
        f"Stopped: {explanation.stopped}. Final words:",
        *(f"  {word:<12} {' '.join(pieces)}" for word, pieces in explanation.segmented.items()),
    ]
    return "\n".join(lines)


def _render_step(step: Step, tie_break: str, num_candidates: int) -> list[str]:
    lines = [f"Merge {step.number}: {step.winner.left} + {step.winner.right} -> {step.merged}"]
    shown = step.candidates[: max(num_candidates, 1 + len(step.tied) if len(step.tied) < num_candidates else 0)]
    for item in shown:
        mark = "*" if item is step.winner else " "
        lines.append(f"  {mark} {item.left + ' ' + item.right:<16} {_worth(item)}")
    if len(step.candidates) > len(shown):
        lines.append(f"    and {len(step.candidates) - len(shown)} more pairs")
    if step.tied:
        rivals = ", ".join(f"{item.left} {item.right}" for item in step.tied[:num_candidates])
        rivals += f" and {len(step.tied) - num_candidates} more" if len(step.tied) > num_candidates else ""
        rule = {
            "first": "the pair seen first in the corpus wins",
            "last": "the pair seen last in the corpus wins",
            "lexicographic": "the lexicographically first pair wins",
        }[tie_break]
        lines.append(f"    Tie with {rivals}: {rule}.")
    for symbol, before, after in step.changes:
        change = f"{before} - {before - after} = {after}" if before else f"{after} (new)"
        lines.append(f"    {symbol:<16} {change}")
    return lines


def _worth(item: Candidate) -> str:
    if item.score is None:
        return str(item.count)
    return f"{item.count} / ({item.left_count} * {item.right_count}) = {float(item.score):.4g}"
