"""Byte-pair encoding and WordPiece on the lectures' four words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ...report import Table
    from ...text.tokenizers.explain import Explanation
    from ..recorder import LessonRecorder

PART = "Words and subword tokens"
CORPUS = {"old": 7, "older": 3, "finest": 9, "lowest": 4}
START = {"</w>": 23, "o": 14, "l": 14, "d": 10, "e": 16, "r": 3, "f": 9, "i": 9, "n": 9, "s": 13, "t": 13, "w": 4}
STEPS = (  # each: the merge, and the slide's counts before and after
    ("es", {"e": (16, 3), "s": (13, 0), "es": (0, 13)}),
    ("est", {"es": (13, 0), "t": (13, 0), "est": (0, 13)}),
    ("est</w>", {"est": (13, 0), "</w>": (23, 10), "est</w>": (0, 13)}),
    ("ol", {"o": (14, 4), "l": (14, 4), "ol": (0, 10)}),
    ("old", {"ol": (10, 0), "d": (10, 0), "old": (0, 10)}),
)
TIE = "es, st and t</w> tie at 13, ol and ld at 10: only the rule 'first pair in the corpus' gives the slide's order"


def _merges(record: LessonRecorder) -> None:
    from ...text.tokenizers.explain import explain

    found = explain(CORPUS, num_merges=5)
    record.equal("symbols at the start", START, found.start)
    for step, (merged, counts) in zip(found.steps, STEPS, strict=True):
        record.equal(f"merge {step.number}", merged, step.merged)
        changes = {symbol: (before, after) for symbol, before, after in step.changes}
        record.equal(f"counts after {merged}", _spelt(counts), _spelt(changes))
    record.holds(
        "ties at merge 1",
        "(not said)",
        ", ".join(f"{one.left}{one.right}" for one in found.steps[0].tied),
        {(one.left, one.right) for one in found.steps[0].tied} == {("s", "t"), ("t", "</w>")},
        TIE,
    )
    record.show(_table(found))

    others = {
        rule: [step.merged for step in explain(CORPUS, num_merges=5, tie_break=rule).steps]
        for rule in ("last", "lexicographic")
    }
    record.equal(
        "merges if the last pair in the corpus wins", "t</w>, st</w>, est</w>, ld, old", ", ".join(others["last"])
    )
    record.equal("merges with lexicographic ties", "es, est, est</w>, ld, old", ", ".join(others["lexicographic"]))
    record.answer(
        f"The order changes, but the symbols hardly do. Last: {', '.join(others['last'])}. Lexicographic: "
        f"{', '.join(others['lexicographic'])}. All three contain est</w> and old after five merges. The option is "
        "--tie-break."
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


def _encoding(record: LessonRecorder) -> None:
    from ...report import Token, Tokens
    from ...text.tokenizers.explain import encode_steps, explain

    learned = explain(CORPUS, num_merges=5)
    states = encode_steps("oldest", learned.merges)
    record.equal("oldest", "old est</w>", " ".join(states[-1]))
    estimate = encode_steps("estimate", learned.merges)[-1]
    record.holds(
        "estimate does not use est</w>",
        "est</w> ≠ est",
        " ".join(estimate),
        "est</w>" not in estimate and estimate[0] == "est",
    )
    for word in ("old", "lowest", "estimate", "finer"):
        pieces = encode_steps(word, learned.merges)[-1]
        record.equal(f"subword tokens of {word}, joined", word, "".join(pieces).removesuffix("</w>"))
    three, fifteen = explain(CORPUS, num_merges=3), explain(CORPUS, vocab_size=15)
    record.equal("limit of 3 iterations: merges", 3, len(three.steps))
    record.equal("limit of 15 symbols: 12 and merges", 15, len(fifteen.start) + len(fifteen.steps))
    record.show(
        Tokens(
            [
                (f"after {number} merges" if number else "characters", [Token(piece) for piece in state])
                for number, state in enumerate(states)
            ],
            note="oldest, merge by merge",
        )
    )
    record.answer(
        f"In the order in which they were learned: {' → '.join(' '.join(state) for state in states)}. A new word is "
        f"therefore tokenized like the corpus; {len(states[0])} characters become {len(states[-1])} tokens."
    )


def _scores(record: LessonRecorder) -> None:
    from ...report import Table
    from ...text.tokenizers.explain import explain

    pairs, scores = explain(CORPUS, num_merges=1), explain(CORPUS, "wordpiece-score", num_merges=1)
    first, best = pairs.steps[0].winner, scores.steps[0].winner
    record.equal("first merge of BPE", "e + s, 13 times", f"{first.left} + {first.right}, {first.count} times")
    record.equal("first merge of WordPiece", "l + ##o", f"{best.left} + {best.right}")
    record.near("its score: 4 / (4 · 4)", 0.25, float(best.score or 0), digits=2)
    tied = ", ".join(f"{one.left} + {one.right}" for one in scores.steps[0].tied)
    record.holds(
        "ties", "(not said)", tied, tied == "##o + ##w", "l + ##o and ##o + ##w tie; the first pair in the corpus wins"
    )
    rows = [
        (f"{one.left} + {one.right}", one.count, one.left_count, one.right_count, round(float(one.score or 0), 4))
        for one in scores.steps[0].candidates[:6]
    ]
    columns = ["pair", "together", "left", "right", "score"]
    record.show(Table(columns, rows, title="The best six pairs by score", right=columns[1:]))
    frequent = next(one for one in scores.steps[0].candidates if (one.left, one.right) == ("##e", "##s"))
    record.answer(
        f"##e + ##s occurs {frequent.count} times but scores {float(frequent.score or 0):.4f}, because ##e also occurs "
        "without ##s. The score measures association, the count frequency."
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
    ),
)
