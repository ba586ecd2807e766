"""Byte-pair encoding and WordPiece on the lectures' four words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.errors import InputError
from ..inputs import choice, integer, text
from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ...report import Table
    from ...text.tokenizers.explain import Explanation
    from ...text.tokenizers.trainers import TieBreak
    from ..recorder import LessonRecorder

PART = "Words and subword tokens"
RULES: tuple[TieBreak, ...] = ("first", "last", "lexicographic")
CORPUS = "old:7, older:3, finest:9, lowest:4"
COUNTS = "Words with their counts"
START = {"</w>": 23, "o": 14, "l": 14, "d": 10, "e": 16, "r": 3, "f": 9, "i": 9, "n": 9, "s": 13, "t": 13, "w": 4}
STEPS = (  # each: the merge, and the slide's counts before and after
    ("es", {"e": (16, 3), "s": (13, 0), "es": (0, 13)}),
    ("est", {"es": (13, 0), "t": (13, 0), "est": (0, 13)}),
    ("est</w>", {"est": (13, 0), "</w>": (23, 10), "est</w>": (0, 13)}),
    ("ol", {"o": (14, 4), "l": (14, 4), "ol": (0, 10)}),
    ("old", {"ol": (10, 0), "d": (10, 0), "old": (0, 10)}),
)
TIE = "es, st and t</w> tie at 13, ol and ld at 10: only the rule 'first pair in the corpus' gives the slide's order"


def _merges(record: LessonRecorder, corpus: str, merges: int, tie_break: TieBreak) -> None:
    from ...text.tokenizers.explain import explain, parse_words

    words = parse_words(corpus)
    found = explain(words, num_merges=merges, tie_break=tie_break)
    record.equal("symbols at the start", START, found.start)
    steps = [("", {}) for _ in found.steps] if record.is_own else STEPS
    for step, (merged, counts) in zip(found.steps, steps, strict=True):
        record.equal(f"merge {step.number}", merged, step.merged)
        changes = {symbol: (before, after) for symbol, before, after in step.changes}
        record.equal(f"counts after {step.merged}", _spelt(counts), _spelt(changes))
    for step in found.steps[:1]:
        tied = {(one.left, one.right) for one in step.tied}
        said = ", ".join(f"{one.left}{one.right}" for one in step.tied) or "none"
        record.holds("ties at merge 1", "(not said)", said, tied == {("s", "t"), ("t", "</w>")}, TIE)
    for word, symbols in found.segmented.items():
        record.equal(f"symbols of {word}, joined", f"{word}</w>", "".join(symbols), law=True)
    record.show(_table(found))

    others = {rule: [step.merged for step in explain(words, num_merges=merges, tie_break=rule).steps] for rule in RULES}
    record.equal(
        "merges if the last pair in the corpus wins", "t</w>, st</w>, est</w>, ld, old", ", ".join(others["last"])
    )
    record.equal("merges with lexicographic ties", "es, est, est</w>, ld, old", ", ".join(others["lexicographic"]))
    record.answer(
        "Often only the order of the merges changes, and hardly the symbols. "
        + " ".join(f"{rule.capitalize()}: {', '.join(merged)}." for rule, merged in others.items())
        + f" {len(set.intersection(*map(set, others.values())))} of {len(found.steps)} merges are the same with all "
        "three rules. The option is --tie-break."
    )


def _spelt(counts: dict[str, tuple[int, int]]) -> str:
    return ", ".join(f"{symbol} {before} → {after}" for symbol, (before, after) in counts.items())


def _table(found: Explanation) -> Table:
    from ...report import Table

    states = [dict(found.start)]
    for step in found.steps:
        states.append(states[-1] | {symbol: after for symbol, _, after in step.changes})
    rows = [[symbol, *(state.get(symbol) for state in states)] for symbol in states[-1]]
    columns = ["symbol", "start", *(step.merged for step in found.steps)]
    return Table(columns, rows, title="Counts after each merge", right=columns[1:])


def _encoding(record: LessonRecorder, word: str, merges: int, corpus: str) -> None:
    from ...report import Token, Tokens
    from ...text.tokenizers.explain import encode_steps, explain, parse_words

    words = parse_words(corpus)
    learned = explain(words, num_merges=merges)
    states = encode_steps(word, learned.merges)
    record.equal(word, "old est</w>", " ".join(states[-1]))
    estimate = encode_steps("estimate", learned.merges)[-1]
    record.holds(
        "estimate does not use est</w>",
        "est</w> ≠ est",
        " ".join(estimate),
        "est</w>" not in estimate and estimate[0] == "est",
    )
    for one in dict.fromkeys(("old", "lowest", "estimate", "finer", word)):
        pieces = encode_steps(one, learned.merges)[-1]
        record.equal(f"subword tokens of {one}, joined", one, "".join(pieces).removesuffix("</w>"), law=True)
    three, fifteen = explain(words, num_merges=3), explain(words, vocab_size=15)
    record.equal("limit of 3 iterations: merges", 3, len(three.steps))
    record.equal("limit of 15 symbols: 12 and merges", 15, len(fifteen.start) + len(fifteen.steps))
    record.show(
        Tokens(
            [
                (f"after {number} merges" if number else "characters", [Token(piece) for piece in state])
                for number, state in enumerate(states)
            ],
            note=f"{word}, merge by merge",
        )
    )
    record.answer(
        f"In the order in which they were learned: {' → '.join(' '.join(state) for state in states)}. A new word is "
        f"therefore tokenized like the corpus; {len(states[0])} characters become {len(states[-1])} tokens."
    )


def _scores(record: LessonRecorder, corpus: str) -> None:
    from ...report import Table
    from ...text.tokenizers.explain import explain, parse_words

    words = parse_words(corpus)
    pairs, scores = explain(words, num_merges=1), explain(words, "wordpiece-score", num_merges=1)
    if not scores.steps:
        raise InputError("corpus: no word has two letters, so nothing can be merged; pass a longer word.")
    first, best = pairs.steps[0].winner, scores.steps[0].winner
    record.equal("first merge of BPE", "e + s, 13 times", f"{first.left} + {first.right}, {first.count} times")
    record.equal("first merge of WordPiece", "l + ##o", f"{best.left} + {best.right}")
    record.near("its score: 4 / (4 · 4)", 0.25, float(best.score or 0), digits=2)
    by_hand = best.count / (best.left_count * best.right_count)
    record.near("its score: count / (count of left · count of right)", by_hand, float(best.score or 0), law=True)
    tied = ", ".join(f"{one.left} + {one.right}" for one in scores.steps[0].tied) or "none"
    record.holds(
        "ties", "(not said)", tied, tied == "##o + ##w", "l + ##o and ##o + ##w tie; the first pair in the corpus wins"
    )
    rows = [
        (f"{one.left} + {one.right}", one.count, one.left_count, one.right_count, round(float(one.score or 0), 4))
        for one in scores.steps[0].candidates[:6]
    ]
    columns = ["pair", "together", "left", "right", "score"]
    record.show(Table(columns, rows, title="The best six pairs by score", right=columns[1:]))
    candidates = scores.steps[0].candidates
    plain = [(one.left.removeprefix("##"), one.right.removeprefix("##")) for one in candidates]
    pair = (first.left, first.right)
    frequent = candidates[plain.index(pair) if pair in plain else 0]
    record.answer(
        f"{frequent.left} + {frequent.right} occurs {frequent.count} times but scores "
        f"{float(frequent.score or 0):.4f}, because {frequent.left} occurs {frequent.left_count} times and "
        f"{frequent.right} {frequent.right_count} times. The score measures association, the count frequency."
    )


LESSONS = (
    Lesson(
        "bpe-merges",
        PART,
        APPLICATIONS,
        "BPE: Byte-Pair Encoding",
        "Byte-pair encoding, merge by merge",
        "Words start as characters and an end-of-word symbol. The most frequent adjacent pair becomes one symbol, "
        "repeatedly. Each merge reduces the counts of the two merged symbols.",
        ("text.tokenizers.explain:explain",),
        "Three pairs are equally frequent at the first merge. What changes if another one wins?",
        _merges,
        (
            integer("merges", "Number of merges", 5, 1, 30),
            choice("tie_break", "Pair that wins a tie", "first", RULES),
            text("corpus", COUNTS, CORPUS),
        ),
    ),
    Lesson(
        "bpe-encoding",
        PART,
        APPLICATIONS,
        "BPE: steps 4 and 5",
        "Tokenizing a new word with learned merges",
        "Training stops at a given number of merges or symbols. To tokenize a new word, the merges are applied to its "
        "characters. The end-of-word symbol distinguishes the ending of oldest from the beginning of estimate.",
        ("text.tokenizers.explain:encode_steps", "text.tokenizers.explain:explain"),
        "In which order are the merges applied?",
        _encoding,
        (
            text("word", "Word to tokenize", "oldest", 1, 1),
            integer("merges", "Number of merges", 5, 0, 30),
            text("corpus", COUNTS, CORPUS),
        ),
    ),
    Lesson(
        "wordpiece-score",
        PART,
        APPLICATIONS,
        "BPE vs. WordPiece",
        "WordPiece merges the pair with the highest score",
        "WordPiece divides the count of a pair by the counts of its parts, and so merges the pair that increases the "
        "likelihood of the text most. On the same four words, its first merge differs from BPE's.",
        ("text.tokenizers.explain:explain",),
        "Why is the first merge of BPE so late here?",
        _scores,
        (text("corpus", COUNTS, CORPUS),),
    ),
)
