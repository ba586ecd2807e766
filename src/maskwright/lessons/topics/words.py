"""Words and subword tokens: vocabularies, unknown words, merges on the lectures' four words, WordPiece, bytes."""

from __future__ import annotations

from ...core.errors import InputError
from ...core.util import plural
from ...report import Table, Token, Tokens
from ...text.tokenizers import trainers
from ...text.tokenizers.explain import Explanation, encode_steps, explain, join_subwords, measure, parse_words
from ...text.tokenizers.tokenizer import Tokenizer
from ...text.tokenizers.trainers import TieBreak
from ..inputs import words_of
from ..recorder import LessonRecorder

KNOWN, WORDS = "hat learn", "hat learn taaaaasty laern Transformerify"
LETTERS = "a b c d e f g h i j k l m n o p q r s t u v w x y z"


def lesson_word_vocabulary(record: LessonRecorder, known: str, words: str) -> None:
    learned, read = words_of(known), words_of(words)
    whole = Tokenizer.train_from_iterator([known], "word", 5 + len(set(learned)))
    unknown_id = whole.unk_id
    assert unknown_id is not None
    ids = [own[0] if own else unknown_id for own in whole.encode_plain(read)]
    is_unknown = [one == unknown_id for one in ids]
    vocabulary = {word.lower() for word in learned}
    for word, found in zip(read, is_unknown, strict=True):
        record.equal(word, "known" if word.lower() in vocabulary else "UNK", "UNK" if found else "known", law=True)
    record.near("fraction of unknown tokens", 3 / 5, sum(is_unknown) / len(ids), digits=2)
    shown = [
        Token(word, "wrong" if lost else "right", whole.tokens[one])
        for word, lost, one in zip(read, is_unknown, ids, strict=True)
    ]
    record.show(Tokens([(f"with a vocabulary of {plural(len(vocabulary), 'word', 'words')}", shown)]))

    characters = Tokenizer.train_from_iterator([LETTERS], "char", 40)
    spelled = characters.encode_plain(read)
    unknown = sum(characters.tokens[one] == "[UNK]" for own in spelled for one in own)
    record.equal("unknown tokens with a character vocabulary", 0, unknown)
    longest = max(map(len, spelled))
    record.answer(
        f"With a vocabulary of the letters a to z, {unknown or 'no'} tokens of these words are unknown, but one word "
        f"has {longest} tokens, and single characters carry little meaning. Subword tokens are a compromise."
    )


def lesson_four_issues(record: LessonRecorder) -> None:
    learned = ["old older oldest", "fast faster fastest", "smart kind kinder", "tall taller tallest old fast"] * 8
    new = {"smarter": 1, "smartest": 1, "kindest": 1, "older": 1}
    measures = {}
    for kind, size in (("word", 60), ("char", 60), ("bpe", 60), ("wordpiece", 60)):
        tokenizer = Tokenizer.train_from_iterator(learned, kind, size)
        measures[kind] = measure(tokenizer, kind, list(new), new)
    word, char, bpe, piece = measures.values()
    record.holds(
        "1. many words are unknown",
        "many unknown tokens",
        f"{word.unk_words:.0%} of the new words",
        word.unk_words == 0.75,
    )
    record.equal("no unknown words with subword tokens", 0.0, max(bpe.unk_words, piece.unk_words))
    record.holds(
        "2. 3. affixes are not shared by whole words",
        "older and smarter share no token",
        f"word-internal tokens: {word.affix_pieces}",
        word.affix_pieces == 0,
    )
    shared = [text for text, of in bpe.examples.items() if len(of) > 1]
    record.holds("subword tokens share them", "old + er, smart + er", f"shared: {', '.join(shared)}", bool(shared))
    finer = char.tokens_per_word > max(bpe.tokens_per_word, piece.tokens_per_word) > word.tokens_per_word
    record.holds(
        "4. characters are too fine",
        "long sequences",
        f"{char.tokens_per_word:.2f} tokens per word, BPE {bpe.tokens_per_word:.2f}",
        finer,
    )
    rows = [
        (
            one.name,
            f"{one.unk_words:.0%}",
            f"{one.tokens_per_word:.2f}",
            "–" if one.affixes_shared is None else f"{one.affixes_shared:.0%} of {one.affix_pieces}",
        )
        for one in measures.values()
    ]
    record.show(Table(["kind", "unknown words", "tokens per word", "shared subword tokens"], rows))
    record.answer(
        f"Not for BPE: it tokenizes the four new words into {bpe.tokens_per_word:.2f} tokens each, which share "
        f"{', '.join(shared)}; nothing is unknown. Compare all kinds on your own text with maskwright tokenizer "
        "compare corpus.txt."
    )


RULES: tuple[TieBreak, ...] = ("first", "last", "lexicographic")
START = {"</w>": 23, "o": 14, "l": 14, "d": 10, "e": 16, "r": 3, "f": 9, "i": 9, "n": 9, "s": 13, "t": 13, "w": 4}
STEPS = (  # each: the merge, and the slide's counts before and after
    ("es", {"e": (16, 3), "s": (13, 0), "es": (0, 13)}),
    ("est", {"es": (13, 0), "t": (13, 0), "est": (0, 13)}),
    ("est</w>", {"est": (13, 0), "</w>": (23, 10), "est</w>": (0, 13)}),
    ("ol", {"o": (14, 4), "l": (14, 4), "ol": (0, 10)}),
    ("old", {"ol": (10, 0), "d": (10, 0), "old": (0, 10)}),
)
TIE = "es, st and t</w> tie at 13, ol and ld at 10: only the rule 'first pair in the corpus' gives the slide's order"


def lesson_bpe_merges(record: LessonRecorder, corpus: str, merges: int, tie_break: TieBreak) -> None:
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

    states = [dict(found.start)]
    for step in found.steps:
        states.append(states[-1] | {symbol: after for symbol, _, after in step.changes})
    rows = [[symbol, *(state.get(symbol) for state in states)] for symbol in states[-1]]
    columns = ["symbol", "start", *(step.merged for step in found.steps)]
    return Table(columns, rows, title="Counts after each merge", right=columns[1:])


def lesson_bpe_encoding(record: LessonRecorder, word: str, merges: int, corpus: str) -> None:
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


def lesson_wordpiece_score(record: LessonRecorder, corpus: str) -> None:
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


SEGMENTED = {"unaffable": "un ##aff ##able", "unfable": "un ##f ##able", "unaf": "un ##a ##f", "un☃able": "[UNK]"}
SPLIT = (("taa", "aaa", "sty"), ("la", "ern"), ("Transformer", "ify"))


def lesson_piece_marks(record: LessonRecorder) -> None:
    for pieces, slide in zip(SPLIT, ("taa## aaa## sty", "la## ern", "Transformer## ify"), strict=True):
        record.equal("marker on the left token", slide, join_subwords(pieces, "left"))
    record.off(
        "the same in BERT",
        "taa## aaa## sty",
        "taa ##aaa ##sty",
        join_subwords(SPLIT[0]),
        "one slide marks the left token, another the right one; BERT's vocabularies mark the right one",
    )
    rows = [
        (notation, [Token(one) for pieces in SPLIT for one in join_subwords(pieces, notation).split()])
        for notation in ("left", "right")
    ]
    record.show(Tokens(rows))
    same = all(
        join_subwords(pieces, side).replace("##", "").replace(" ", "") == "".join(pieces)
        for pieces in SPLIT
        for side in ("left", "right")
    )
    record.holds("both decode to the same word", "the word", "yes" if same else "no", same)
    record.answer(
        "Not for the network, whose input is IDs. But with the marker on the right, 'ern' at the start of a word and "
        "'##ern' inside one are two entries with separate embeddings. maskwright tokenizer encode --marks left shows "
        "the other notation."
    )


def lesson_longest_match(record: LessonRecorder, words: str, entries: str) -> None:
    vocabulary = list(dict.fromkeys([*trainers.SPECIAL_TOKENS, *entries.split()]))
    trained = trainers.wordpiece(vocabulary, "wordpiece", True, {})
    tokenizer = Tokenizer(trained.backend, trained.config)
    rows = []
    for word in words.split():
        tokens = [tokenizer.tokens[one] for one in tokenizer.encode_plain([word])[0]]
        record.equal(word, SEGMENTED.get(word, ""), " ".join(tokens))
        joined = "".join(one.removeprefix("##") for one in tokens)
        is_whole = not tokens or "[UNK]" in tokens or joined.lower() == word.lower()
        record.holds(f"{word}: tokens joined", "the word, or [UNK]", joined, is_whole, law=word.isascii())
        rows.append((word, [Token(one, "wrong" if one == "[UNK]" else "") for one in tokens]))
    greedy = [tokenizer.tokens[one] for one in tokenizer.encode_plain(["abc"])[0]]
    record.equal("abc, of a, ab and ##bc", "[UNK]", " ".join(greedy))
    record.show(Tokens(rows, note="Vocabulary: " + " ".join(vocabulary[5:])))
    record.answer(
        "No: with a, ab and ##bc, abc could be a ##bc, but the longest match is ab, there is no ##c, and the result is "
        f"{' '.join(greedy)} here. Real vocabularies contain every letter at the start and inside of words, so this "
        "does not happen with known letters."
    )


def lesson_bytes(record: LessonRecorder, text: str) -> None:
    if any(token in text for token in trainers.SPECIAL_TOKENS):
        raise InputError("text: a special token such as [MASK] is not text; pass another text.")
    texts = ("Transformerify", "naïve façade", text, "🙂 ok", "a\tb  c")
    tokenizer = Tokenizer.train_from_iterator(["plain English text, and no other letters"], "byte-bpe", 280)
    rows = []
    for one in texts:
        (ids,) = tokenizer.encode_plain([one])
        record.equal(f"{one!r}, encoded and decoded", one, tokenizer.decode(ids), law=True)
        unknown = [tokenizer.tokens[number] for number in ids].count("[UNK]")
        rows.append((one, len(one), len(one.encode()), len(ids), unknown))
    record.equal("unknown tokens in all of them", 0, sum(row[-1] for row in rows), law=True)
    columns = ["text", "characters", "bytes", "tokens", "unknown"]
    record.show(Table(columns, rows, right=columns[1:]))
    record.answer(
        f"Length: {text} has {rows[2][1]} characters, {rows[2][2]} bytes and {rows[2][3]} tokens: one per byte where "
        "no merge was learned. No text is unknown, but text unlike the training text needs many tokens."
    )
