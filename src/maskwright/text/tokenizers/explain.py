"""What a tokenizer does, step by step: how merges are learned, how a word is segmented; and kinds compared."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, get_args

from ...core import registry
from ...core.errors import ConfigError, InputError
from .sentencepiece import MarianBackend
from .tokenizer import Tokenizer
from .tokenizer_files import END_OF_WORD
from .trainers import (
    Merge,
    MergeLearner,
    Pair,
    ScoreLearner,
    Segmentation,
    TieBreak,
    apply_merges,
    count_words,
    normalizer,
    prefixed,
    punctuation_splitter,
    split_word,
)

MARK = "##"


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


# -- the segmentation of a word: WordPiece lookups (Wu et al. 2016), or BPE merges in order (Sennrich et al. 2016) --

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
    """Traces the segmentation of one tokenizer; its tables are read once. The last step equals what the library gives.

    WordPiece takes the longest vocabulary entry at the start of the word, then continues after it. BPE starts from
    characters and repeatedly applies the merge learned earliest.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        backend = tokenizer.backend
        self.library = None if isinstance(backend, MarianBackend) else backend  # Marian segments the whole text at once
        model: dict[str, Any] = {"type": ""} if self.library is None else json.loads(self.library.to_str())["model"]
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
        text, backend = text[:MAX_CHARACTERS], self.library
        words = [text] if text else []
        if backend is not None:
            normal = backend.normalizer.normalize_str(text) if backend.normalizer is not None else text
            words = [normal] if normal else []
            if backend.pre_tokenizer is not None:
                words = [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal)]
        trace = {"longest match": self._longest_match, "merges": self._merges}.get(self.rule, lambda word: [])
        return SegmentationTrace(self.rule, [SegmentedWord(word, trace(word), self._tokens(word)) for word in words])

    def _tokens(self, word: str) -> list[str]:
        if self.library is None:
            return [self.tokenizer.id_to_token(one) or "" for one in self.tokenizer.encode_plain([word])[0]]
        return [token.value for token in self.library.model.tokenize(word)]

    def _longest_match(self, word: str) -> list[SegmentationStep]:
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
                return [*steps, SegmentationStep([*found, word[start:]], tried, None)]
            found.append(piece)
            steps.append(SegmentationStep([*found, *([word[end:]] if end < len(word) else [])], tried, piece))
            start = end
        return steps

    def _merges(self, word: str) -> list[SegmentationStep]:
        row = [*((self.prefix if index else "") + letter for index, letter in enumerate(word))]
        if row:
            row[-1] += self.suffix
        steps = [SegmentationStep(list(row), [], None)]
        while known := [pair for pair in pairwise(row) if pair in self.ranks]:
            best = min(known, key=self.ranks.__getitem__)  # the pair that was learned first
            taken = best[0] + best[1].removeprefix(self.prefix)
            merged: list[str] = []
            for symbol in row:
                if merged and (merged[-1], symbol) == best:
                    merged[-1] = taken
                else:
                    merged.append(symbol)
            row = merged
            steps.append(SegmentationStep(list(row), [], taken, self.ranks[best]))
        return steps


# -- how merges are learned: the counts that select each, and those it changes -------------------------------

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

    @property
    def worth(self) -> int | Fraction:
        """What the rule compares: the score, or the count."""
        return self.count if self.score is None else self.score

    def as_dict(self) -> dict[str, Any]:
        """Returns a JSON-serializable dict, with the score as a number."""
        if self.score is None:
            return {"left": self.left, "right": self.right, "count": self.count}
        return asdict(self) | {"score": float(self.score)}


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
    split = split_word if kind == "bpe" else prefixed
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
    state = Segmentation([(split_word(word), 1)])
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
    merge: Merge | None = next((merge for merge in learner), None)
    if merge is None:
        return None
    winner = next(item for item in candidates if (item.left, item.right) == (merge.left, merge.right))
    tied = tuple(item for item in candidates if item is not winner and item.worth == winner.worth)
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
    return sorted(found, key=lambda item: -item.worth)


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
        rule = (
            "lexicographically first pair" if tie_break == "lexicographic" else f"pair seen {tie_break} in the corpus"
        )
        lines.append(f"    Tie with {rivals}: the {rule} wins.")
    for symbol, before, after in step.changes:
        change = f"{before} - {before - after} = {after}" if before else f"{after} (new)"
        lines.append(f"    {symbol:<16} {change}")
    return lines


def _worth(item: Candidate) -> str:
    if item.score is None:
        return str(item.count)
    return f"{item.count} / ({item.left_count} * {item.right_count}) = {float(item.score):.4g}"


# -- kinds compared on one corpus ----------------------------------------------------------------------------
#
# Every kind is trained on nine tenths of the corpus and measured on the rest: every tenth document, or every tenth
# sentence if there are fewer than ten documents.

HELD_OUT = 10  # one in ten
_TEXTS_PER_CHUNK = 2000
_NUM_EXAMPLES = 5
_MIN_EXAMPLE_LENGTH = 2


@dataclass(frozen=True)
class TokenizerMetrics:
    """Statistics of one tokenizer on the held-out texts; all rates are fractions.

    unk_rate: tokens that are UNK; unk_words: words with an UNK; tokens_per_word; vocab_used: vocabulary entries that
    occur; affix_pieces: distinct subwords that are part of a word; affixes_shared: fraction of these used by at least
    two words (None if there are none); examples: shared subwords of at least two letters, with words that use them.
    """

    name: str
    vocab_size: int
    unk_rate: float
    unk_words: float
    tokens_per_word: float
    vocab_used: float
    affix_pieces: int  # terms: ok (JSON key)
    affixes_shared: float | None
    examples: dict[str, list[str]]


@dataclass(frozen=True)
class Comparison:
    """Measurements of all kinds, the data they were taken on, and why kinds were skipped."""

    unit: str
    train_texts: int
    held_out_texts: int
    held_out_words: int
    measures: tuple[TokenizerMetrics, ...]
    left_out: dict[str, str]


def compare(
    source: str | Path | Sequence[str | Path],
    vocab_size: int,
    kinds: Sequence[str] | None = None,
    *,
    tokenizers: Sequence[Tokenizer] = (),
    skip_bad_rows: bool = False,
    on_kind: Callable[[str], None] = lambda kind: None,
) -> Comparison:
    """Train `kinds` (None: all) on one corpus, and measure them and any existing `tokenizers` on the held-out part.

    A kind that was not requested explicitly and cannot have so small a vocabulary is skipped, with the reason. Raises
    ConfigError for an unknown kind, InputError for a corpus with fewer than ten sentences.
    """
    for kind in kinds or registry.names("tokenizer"):
        registry.resolve("tokenizer", kind)
    corpus = _Corpus(source, skip_bad_rows)
    words = count_words(corpus.texts(held_out=True), normalizer(lowercase=False), punctuation_splitter())
    measures = []
    left_out = {}
    for kind in kinds or registry.names("tokenizer"):
        on_kind(kind)
        try:
            trained = Tokenizer.train_from_iterator(corpus.texts(held_out=False), kind, vocab_size)
        except ConfigError as error:
            if kinds:
                raise
            left_out[kind] = str(error)
            continue
        measures.append(measure(trained, kind, corpus.texts(held_out=True), words.counts))
    for tokenizer in tokenizers:
        measures.append(measure(tokenizer, tokenizer.kind, corpus.texts(held_out=True), words.counts))
    return Comparison(corpus.unit, corpus.num_train, words.num_texts, words.num_words, tuple(measures), left_out)


def measure(tokenizer: Tokenizer, name: str, texts: Iterable[str], words: dict[str, int]) -> TokenizerMetrics:
    """Measure one tokenizer on `texts`, whose words (split as in BERT, case-sensitive) are counted in `words`."""
    unknown, tokens = 0, 0
    seen: set[int] = set()
    for chunk in _chunks(texts):
        for ids in tokenizer.encode_plain(chunk):
            tokens += len(ids)
            unknown += ids.count(tokenizer.unk_id) if tokenizer.unk_id is not None else 0
            seen.update(ids)
    users, unknown_words = _users_of_parts(tokenizer, words)
    num_words = sum(words.values())
    shared = [piece for piece, of in users.items() if len(of) > 1]
    usable = tokenizer.vocab_size - len(tokenizer.special_ids)
    return TokenizerMetrics(
        name=name,
        vocab_size=tokenizer.vocab_size,
        unk_rate=unknown / max(1, tokens),
        unk_words=unknown_words / num_words,
        tokens_per_word=tokens / num_words,
        vocab_used=len(seen - tokenizer.special_ids) / max(1, usable),
        affix_pieces=len(users),
        affixes_shared=len(shared) / len(users) if users else None,
        examples=_examples(tokenizer, users),
    )


def _users_of_parts(tokenizer: Tokenizer, words: dict[str, int]) -> tuple[dict[int, list[str]], int]:
    """Returns the distinct words that use each within-word subword, and the number of words with an UNK."""
    users: dict[int, list[str]] = {}
    unknown_words = 0
    # Byte-level subwords at the start of a word include the preceding space.
    lead = " " if tokenizer.word_markers.words == "bytes" else ""
    for chunk in _chunks(words):
        for word, ids in zip(chunk, tokenizer.encode_plain([lead + word for word in chunk]), strict=True):
            pieces = [id for id in ids if bare(tokenizer, id) and id not in tokenizer.special_ids]
            if tokenizer.unk_id in ids:
                unknown_words += words[word]
            if len(pieces) < 2:
                continue
            for id in dict.fromkeys(pieces):
                users.setdefault(id, []).append(word)
    return users, unknown_words


def _examples(tokenizer: Tokenizer, users: dict[int, list[str]]) -> dict[str, list[str]]:
    """Returns the subwords that most words share, as in the vocabulary, with the first words that use them."""
    pieces = [id for id, of in users.items() if len(of) > 1 and len(bare(tokenizer, id)) >= _MIN_EXAMPLE_LENGTH]
    pieces.sort(key=lambda id: (-len(users[id]), id))
    return {tokenizer.tokens[id]: users[id][:3] for id in pieces[:_NUM_EXAMPLES]}


class _Corpus:
    """A corpus read once per use, with its documents (or sentences) split into training and held-out parts."""

    def __init__(self, source: str | Path | Sequence[str | Path], skip_bad_rows: bool) -> None:
        from ..readers.corpus import CorpusFacts, read_documents

        if source == "-" or (not isinstance(source, (str, Path)) and "-" in source):
            raise InputError("A comparison reads the corpus several times: pass files, not standard input.")
        self._read = lambda: read_documents(source, skip_bad_rows=skip_bad_rows)
        facts = CorpusFacts()
        held_out = {"document": 0, "sentence": 0}
        for number, document in enumerate(read_documents(source, skip_bad_rows=skip_bad_rows, facts=facts), start=1):
            held_out["document"] += len(document.sentences) * (number % HELD_OUT == 0)
        held_out["sentence"] = facts.sentences // HELD_OUT
        self.unit = "document" if facts.documents >= HELD_OUT else "sentence"
        if facts.sentences < HELD_OUT:
            raise InputError(f"A comparison needs at least {HELD_OUT} sentences; the corpus has {facts.sentences}.")
        self.num_train = facts.sentences - held_out[self.unit]

    def texts(self, held_out: bool) -> Iterator[str]:
        """Yields the sentences of one part."""
        number = 0
        for document in self._read():
            number += self.unit == "document"
            for sentence in document.sentences:
                number += self.unit == "sentence"
                if (number % HELD_OUT == 0) == held_out:
                    yield sentence


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(texts)
    while chunk := list(islice(iterator, _TEXTS_PER_CHUNK)):
        yield chunk
