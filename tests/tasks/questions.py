"""Questions, tokenizers and windows for the question answering tests."""

import tempfile
import unicodedata
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from maskwright.text.readers.squad import Question, ReferenceAnswer
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS
from text.tokenizer_samples import KINDS as OWN_KINDS

# Those that we train, and as published: RoBERTa's, whose tokens' characters are without the space before, and XLM-R's.
EVERY_KIND = (*OWN_KINDS, "roberta", "unigram")

WORDS = [
    *("the", "old", "man", "told", "an", "older", "story", "walked", "lowest", "road"),
    *("crème", "東京", "Ωμέγα", "it's", "3.5"),
]


@cache
def tokenizer(kind="wordpiece"):
    if kind in OWN_KINDS:
        return Tokenizer.train_from_iterator(CORPUS, kind, 300)
    with tempfile.TemporaryDirectory() as folder:
        _published(kind).save(str(Path(folder) / "tokenizer.json"))
        return Tokenizer.load(folder)


def _published(kind):
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    if kind == "roberta":
        backend = Backend(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=specials,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        backend = Backend(models.Unigram())
        backend.normalizer = normalizers.NFKC()
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
        trainer = trainers.UnigramTrainer(
            vocab_size=200, special_tokens=specials, unk_token="<unk>", show_progress=False
        )
    backend.train_from_iterator(CORPUS, trainer)
    return backend


def cuts_a_word(text, place):
    """Whether the characters before and at `place` are of one word: the rule of the documentation, letter by letter."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if before.isspace() or after.isspace():
        return False
    if is_mark(after):
        return True
    while is_mark(before) and place > 1 and not text[place - 2].isspace():
        place -= 1
        before = text[place - 1]
    return in_word(before) and in_word(after)


def is_mark(character):
    """What belongs to the character before it."""
    return unicodedata.category(character)[0] == "M" or (
        unicodedata.category(character) == "Cf" and character != "\u200b"
    )


def in_word(character):
    """A letter or digit of a script that separates words by spaces."""
    name = unicodedata.name(character, "")
    if unicodedata.category(character)[0] == "L" and name.startswith(UNSPACED):
        return False
    return character.isalnum() or unicodedata.category(character) == "Pc"


UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR")


def ask(context, *answers, question="Who told it?", name="q", known=True):
    """A question; answers as texts (their first place counts) or as (start, end)."""
    golds = []
    for answer in answers:
        start, end = answer if isinstance(answer, tuple) else (context.index(answer), 0)
        golds.append(ReferenceAnswer(context[start:end] if isinstance(answer, tuple) else answer, start))
    return Question(name, question, context, tuple(golds) if known else None, 1, "the tests")


def answer_tokens(windows, window):
    first = windows.first[window]
    return [first + place for place, (start, end) in enumerate(windows.spans[window].tolist()) if end > start]
