"""Word-level tokenization and its problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.util import plural
from ..inputs import text, words_of
from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Words and subword tokens"
KNOWN, WORDS = "hat learn", "hat learn taaaaasty laern Transformerify"
LETTERS = "a b c d e f g h i j k l m n o p q r s t u v w x y z"


def _vocabulary(record: LessonRecorder, known: str, words: str) -> None:
    from ...report import Token, Tokens
    from ...text.tokenizers.tokenizer import Tokenizer

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


def _issues(record: LessonRecorder) -> None:
    from ...report import Table
    from ...text.tokenizers.explain import measure
    from ...text.tokenizers.tokenizer import Tokenizer

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


LESSONS = (
    Lesson(
        "word-vocabulary",
        PART,
        APPLICATIONS,
        "Traditional Tokenization",
        "A word vocabulary contains no new words",
        "A word-level tokenizer maps each known word to its ID, and all others to the same one, UNK. A misspelling, a "
        "playful spelling and a new word are identical for the network.",
        ("text.tokenizers.trainers:train_word", "text.tokenizers.trainers:train_char"),
        "Would single characters solve the problem?",
        _vocabulary,
        (text("known", "Text of the vocabulary", KNOWN), text("words", "Words to tokenize", WORDS)),
    ),
    Lesson(
        "four-issues",
        PART,
        APPLICATIONS,
        "Issues of Traditional Tokenization",
        "Four problems of word vocabularies, measured",
        "Unknown words, rare words with little training, affixes that related words do not share, and too many tokens "
        "with characters: the lesson measures each on held-out words.",
        ("text.tokenizers.compare:measure",),
        "Are smarter and smartest new words if old, older, oldest and smart were in the text?",
        _issues,
    ),
)
