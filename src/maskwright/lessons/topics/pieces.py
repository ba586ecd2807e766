"""Pieces of words: how they are written, how a word is cut into them, and bytes below them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Words and pieces"
SPLIT = (("taa", "aaa", "sty"), ("la", "ern"), ("Transformer", "ify"))


def _notations(record: LessonRecorder) -> None:
    from ...report import Token, Tokens
    from ...text.tokenizers.notation import join_subwords

    for pieces, slide in zip(SPLIT, ("taa## aaa## sty", "la## ern", "Transformer## ify"), strict=True):
        record.equal("mark on the left piece", slide, join_subwords(pieces, "left"))
    record.off(
        "the same in BERT",
        "taa## aaa## sty",
        "taa ##aaa ##sty",
        join_subwords(SPLIT[0]),
        "one slide marks the left piece, another the right one; BERT's vocabularies mark the right one",
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
    record.holds("both spell the same word", "the word", "yes" if same else "no", same)
    record.answer(
        "Neither for the network, which sees ids. But with the mark on the right, 'ern' at the start of a word and "
        "'##ern' inside one are two entries with vectors of their own. maskwright tokenizer encode --marks left shows "
        "either."
    )


def _longest_match(record: LessonRecorder) -> None:
    from ...report import Token, Tokens
    from ...text.tokenizers.tokenizer import Tokenizer
    from ...text.tokenizers.trainers import pipelines

    vocabulary = [*pipelines.SPECIAL_TOKENS, "un", "##aff", "##able", "##a", "##f", "a", "ab", "##bc"]
    trained = pipelines.wordpiece(vocabulary, "wordpiece", True, {})
    tokenizer = Tokenizer(trained.backend, trained.config)
    words = {"unaffable": "un ##aff ##able", "unfable": "un ##f ##able", "unaf": "un ##a ##f", "un☃able": "[UNK]"}
    rows = []
    for word, slide in words.items():
        tokens = [tokenizer.tokens[one] for one in tokenizer.encode_plain([word])[0]]
        record.equal(word, slide, " ".join(tokens))
        rows.append((word, [Token(one, "wrong" if one == "[UNK]" else "") for one in tokens]))
    greedy = [tokenizer.tokens[one] for one in tokenizer.encode_plain(["abc"])[0]]
    record.equal("abc, of a, ab and ##bc", "[UNK]", " ".join(greedy))
    record.show(Tokens(rows, note="Vocabulary: " + " ".join(vocabulary[5:])))
    record.answer(
        f"No: abc could be a ##bc, but the longest match takes ab first, finds no ##c, and gives {greedy[0]}. Real "
        "vocabularies hold every letter both at the start and inside a word, so it does not happen with known letters."
    )


def _bytes(record: LessonRecorder) -> None:
    from ...report import Table
    from ...text.tokenizers.tokenizer import Tokenizer

    texts = ("Transformerify", "naïve façade", "深度学习", "🙂 ok", "a\tb  c")
    tokenizer = Tokenizer.train_from_iterator(["plain English text, and no other letters"], "byte-bpe", 280)
    rows = []
    for text in texts:
        (ids,) = tokenizer.encode_plain([text])
        back = tokenizer.decode(ids)
        record.equal(f"{text!r} and back", text, back)
        rows.append(
            (text, len(text), len(text.encode()), len(ids), [tokenizer.tokens[one] for one in ids].count("[UNK]"))
        )
    record.equal("UNK in all of them", 0, sum(row[-1] for row in rows))
    columns = ["text", "characters", "bytes", "tokens", "unknown"]
    record.show(Table(columns, rows, right=columns[1:]))
    record.answer(
        f"Length: 深度学习 has {rows[2][1]} characters and becomes {rows[2][3]} tokens, one for each byte, because no "
        "merge was learned for it. Nothing is ever unknown, but what training did not see is long."
    )


LESSONS = (
    Lesson(
        "piece-marks",
        PART,
        APPLICATIONS,
        "Subword Models – BPE",
        "Two ways to mark a piece",
        "A word that is cut needs a mark, so that the pieces can be joined again. The slides put ## on the left "
        "piece in one place and on the right piece in another.",
        ("text.tokenizers.notation:join_subwords",),
        "Does it matter which side the mark is on?",
        _notations,
    ),
    Lesson(
        "longest-match",
        PART,
        APPLICATIONS,
        "BPE vs. WordPiece",
        "WordPiece takes the longest piece first",
        "To cut a word, WordPiece takes the longest entry that begins it, then the longest that goes on. A word that "
        "cannot be finished so is one UNK as a whole.",
        ("text.tokenizers.trainers.pipelines:wordpiece",),
        "Does the longest match always find a way if there is one?",
        _longest_match,
    ),
    Lesson(
        "bytes",
        PART,
        APPLICATIONS,
        "Take-away: parts of words, characters, bytes",
        "Bytes know every text",
        "If the alphabet is the 256 bytes, no text can be unknown, whatever its writing. Merges are learned on top of "
        "them as on top of letters.",
        ("text.tokenizers.trainers.byte_bpe:train_byte_bpe",),
        "What is the price?",
        _bytes,
    ),
)
