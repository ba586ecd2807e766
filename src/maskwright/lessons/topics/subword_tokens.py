"""Subword tokens: their notation, WordPiece tokenization, and byte-level vocabularies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.errors import InputError
from ..inputs import text
from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Words and subword tokens"
ENTRIES = "un ##aff ##able ##a ##f a ab ##bc"
SEGMENTED = {"unaffable": "un ##aff ##able", "unfable": "un ##f ##able", "unaf": "un ##a ##f", "un☃able": "[UNK]"}
SPLIT = (("taa", "aaa", "sty"), ("la", "ern"), ("Transformer", "ify"))


def _notations(record: LessonRecorder) -> None:
    from ...report import Token, Tokens
    from ...text.tokenizers.explain import join_subwords

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


def _longest_match(record: LessonRecorder, words: str, entries: str) -> None:
    from ...report import Token, Tokens
    from ...text.tokenizers import trainers
    from ...text.tokenizers.tokenizer import Tokenizer

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


def _bytes(record: LessonRecorder, text: str) -> None:
    from ...report import Table
    from ...text.tokenizers import trainers
    from ...text.tokenizers.tokenizer import Tokenizer

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


LESSONS = (
    Lesson(
        "piece-marks",
        PART,
        APPLICATIONS,
        "Subword Models – BPE",
        "Two subword notations",
        "A marker shows which subword tokens belong to one word. One slide puts ## on the left token, another on the "
        "right one.",
        ("text.tokenizers.explain:join_subwords",),
        "Does the side of the marker matter?",
        _notations,
    ),
    Lesson(
        "longest-match",
        PART,
        APPLICATIONS,
        "BPE vs. WordPiece",
        "WordPiece: longest match first",
        "WordPiece tokenizes a word from the left, with the longest vocabulary entry that matches at each position. "
        "If no entry matches, the whole word is one [UNK].",
        ("text.tokenizers.trainers:wordpiece",),
        "Does the longest match find a segmentation whenever one exists?",
        _longest_match,
        (text("words", "Words to tokenize", " ".join(SEGMENTED)), text("entries", "Vocabulary", ENTRIES)),
    ),
    Lesson(
        "bytes",
        PART,
        APPLICATIONS,
        "Take-away: parts of words, characters, bytes",
        "A byte-level vocabulary has no unknown text",
        "With the 256 bytes as the alphabet, no text is unknown, in any script. Merges are learned on bytes as on "
        "letters.",
        ("text.tokenizers.trainers:train_byte_bpe",),
        "What is the cost?",
        _bytes,
        (text("text", "Text in any script", "深度学习"),),
    ),
)
