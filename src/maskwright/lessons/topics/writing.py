"""Text generation: end of text, target language, summaries."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...core.util import plural
from ..inputs import integer, number
from ..lesson import APPLICATIONS, NEUROCOMPUTING, SESSION, Lesson

if TYPE_CHECKING:
    from torch import Tensor

    from ...text.tokenizers.tokenizer import Tokenizer
    from ..recorder import LessonRecorder

PART = "Generation"
END, WORDS = 0, ("<eos>", "the", "a", "dog", "cat", "sleeps")
NEXT = {  # next words with their probabilities, by last word; the first word is an input
    "the": {"dog": 0.4, "cat": 0.35, "sleeps": 0.25},
    "a": {"dog": 0.9, "cat": 0.1},
    "dog": {"<eos>": 0.9, "sleeps": 0.1},
    "cat": {"<eos>": 0.5, "sleeps": 0.5},
    "sleeps": {"<eos>": 1.0},
}
SENTENCES = {"de": "Ein Hund läuft.", "en": "A dog runs.", "fr": "Un chien court."}
ARTICLES = (
    (
        "A positronic brain is a brain of a robot in stories.",
        "It is made of metal, and holds three laws that a robot cannot break.",
        "It may harm nobody, it obeys, and it takes care of itself, in this order.",
    ),
    ("A river is water that flows to a sea.", "Rain makes it rise."),
    ("One line alone.",),
)
SUMMARIZE = "<summarize>"


class _Table:
    """A language model as a table: probabilities of the next word given the last one."""

    def __init__(self, first: float) -> None:
        self.steps = 0
        self.shares = NEXT | {"": {"the": first, "a": 1 - first}}

    def start(self) -> Tensor:
        """Return the logits of the first word."""
        return self._logits([""])

    def step(self, tokens: Tensor) -> Tensor:
        """Return the logits of the word after each of `tokens`."""
        self.steps += 1
        return self._logits([WORDS[token] for token in tokens.tolist()])

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Do nothing: the only state is the last word, an argument of `step`."""

    def _logits(self, last: list[str]) -> Tensor:
        import torch

        shares = [[self.shares.get(word, {"<eos>": 1.0}).get(other, 1e-9) for other in WORDS] for word in last]
        return torch.tensor(shares).log()


def _ending(record: LessonRecorder, beams: int, length_penalty: float, first: float) -> None:
    from ...data.batch import Batch
    from ...models.decoding.rules import Rules
    from ...models.decoding.search import Beams, GeneratedText, grow, search_beams
    from ...models.decoding.translation import target_decoder
    from ...report import Table
    from ..small import small_translator

    def said(one: GeneratedText) -> str:
        return " ".join(WORDS[token] for token in one.ids)

    def chance(one: GeneratedText) -> float:
        """The probability of a result of beam search, whose score is divided by a power of its length with <eos>."""
        return math.exp(one.score * (len(one.ids) + 1) ** length_penalty)

    untrained = target_decoder(small_translator(), Batch.from_sequences([[5, 6, 7]]), 4)
    logits = untrained.start()
    record.equal(
        "start symbol, and logits for the next word: the vocabulary size",
        (0, 30),
        (untrained.start_id, logits.shape[1]),
        law=True,
    )
    decoder = _Table(first)
    limits: dict[str, Any] = {"max_new_tokens": 8, "end_ids": {END}}
    greedy = grow(decoder, [[END]], Rules(greedy=True), **limits)[0]
    record.equal("greedy: the most probable word in each step", "the dog", said(greedy))
    record.equal("it has ended, without further steps", (True, 2), (greedy.is_ended, decoder.steps))
    record.near("its probability, including <eos>", 0.55 * 0.4 * 0.9, math.exp(greedy.score))
    record.near("the same by hand", _probability(first, said(greedy)), math.exp(greedy.score), law=True)
    wide = search_beams(_Table(first), [[END]], Beams(beams, beams, length_penalty=length_penalty), **limits)[0]
    record.equal(f"{plural(beams, 'beam', 'beams')}: the best text", "a dog", said(wide[0]))
    record.near("its probability", 0.45 * 0.9 * 0.9, chance(wide[0]))
    record.near("the same by hand", _probability(first, said(wide[0])), chance(wide[0]), law=True)
    record.equal("all of them have ended", True, all(one.is_ended for one in wide), law=True)
    endless = grow(_Table(first), [[END]], Rules(greedy=True), max_new_tokens=8)[0]
    record.equal("without an end token: number of generated tokens", 8, len(endless.ids), law=True)
    rows = [("greedy", said(greedy), f"{math.exp(greedy.score):.4f}")]
    rows += [("beam", said(one), f"{chance(one):.4f}") for one in wide]
    record.show(Table(["search", "text", "probability"], rows))
    longer = search_beams(_Table(first), [[END]], Beams(3, 1, length_penalty=3.0), **limits)[0][0]
    record.answer(
        f"Yes, where a probable word is followed by uncertain ones: 'the' has {first:.2f} here. Greedy search finds "
        f"'{said(greedy)}' ({math.exp(greedy.score):.2f}), beam search '{said(wide[0])}' "
        f"({chance(wide[0]):.2f}). Scores are sums of log probabilities, and each word decreases them; divided "
        f"by a high power of the length, the best is '{said(longer)}'."
    )


def _probability(first: float, text: str) -> float:
    """The product of the table's probabilities of these words and <eos>."""
    table: dict[str, dict[str, float]] = NEXT | {"": {"the": first, "a": 1 - first}}
    words = ["", *text.split(), "<eos>"]
    return math.prod(table[a].get(b, 1e-9) for a, b in pairwise(words))


def _zero_shot(record: LessonRecorder) -> None:
    from ...core.errors import InputError
    from ...report import Arrow, Box, Flow
    from ...text.formats.language_tags import check_languages, language_of, languages_of, with_language_tag
    from ...text.readers.tables import Row

    def row(source: str, target: str, line: int = 1) -> Row:
        """Return a sentence with the tag of the target language."""
        return Row(with_language_tag(SENTENCES[source], target), None, SENTENCES[target], line, "pairs")

    trained = (("de", "en"), ("en", "fr"))
    rows = [row(source, target, line) for line, (source, target) in enumerate(trained, 1)]
    known = languages_of(rows)
    record.equal("target languages of the two kinds of rows", ["en", "fr"], list(known))
    unseen = row("de", "fr")
    record.equal("A to C, without training examples", "<to-fr> Ein Hund läuft.", unseen.text)
    record.equal("its language, read back", "fr", language_of(unseen.text))

    def answer(one: Row) -> str:
        try:
            check_languages([one], known)
        except InputError as error:
            return f"rejected: {str(error).partition(': ')[2].partition(',')[0]}"
        return "taken"

    record.equal("A to C is asked", "taken", answer(unseen))
    record.equal(
        "to a language without training examples",
        "rejected: the model cannot translate to 'de'",
        answer(row("fr", "de")),
    )
    others = ("da", "fi", "nl", "pt")
    pairs = [(a, "hub") for a in others] + [("hub", a) for a in others]
    taught = languages_of(
        [Row(with_language_tag("x", target), None, "y", 1, "pairs") for _, target in pairs if target != "hub"]
    )
    free = [(a, b) for a in taught for b in taught if a != b and (a, b) not in pairs]
    record.equal("four languages with one hub: trained and zero-shot directions", (8, 12), (len(pairs), len(free)))
    boxes = [Box("A: de", 0, 1), Box("B: en", 1.6, 0, True), Box("C: fr", 3.2, 1)]
    record.show(
        Flow(
            boxes, [Arrow(0, 1, "trained"), Arrow(1, 2, "trained"), Arrow(0, 2, "asked")], "A to B, B to C, and A to C"
        )
    )
    record.answer(
        "Only the tag: all languages share encoder and decoder, so no part of the network is specific to a pair. "
        f"{len(pairs)} trained directions make {len(free)} zero-shot directions possible; their quality must be "
        "measured: recipes/zero_shot.py trains two directions of Multi30k and scores the third."
    )


def _leads(record: LessonRecorder) -> None:
    from ...report import Token, Tokens
    from ...tasks.generation.task import Generation
    from ...text.readers.corpus import Document
    from ...text.readers.parallel import lead_pairs
    from ...text.tokenizers.tokenizer import Tokenizer

    documents = [Document(lines, "dump.txt", number) for number, lines in enumerate(ARTICLES, 1)]
    pairs = list(lead_pairs(documents))
    record.equal("articles, and their pairs", (3, 2), (len(documents), len(pairs)))
    first = pairs[0] if pairs else None
    record.equal("the target summary", ARTICLES[0][0], first.label if first else "")
    record.equal("the article", " ".join(ARTICLES[0][1:]), first.text.replace("\n", " ") if first else "")
    words = Tokenizer.train_from_iterator([line for lines in ARTICLES for line in lines], "byte-bpe", 400)
    tokenizer = words.with_tokens([SUMMARIZE])
    examples = Generation(SUMMARIZE).examples(pairs, tokenizer)
    ids = examples.input_ids[0].tolist()
    place = ids.index(tokenizer.token_to_id(SUMMARIZE))
    record.equal("one row", "article <summarize> summary <end>", _parts(tokenizer, ids, place, str(pairs[0].label)))
    batch = examples.batch([0, 1])
    wanted = sum(len(one) for one in tokenizer.encode_plain([str(one.label) for one in pairs])) + len(pairs)
    record.equal("predicted tokens: the summaries and their ends", wanted, len(batch.labels["clm"]))
    lengths = [len(one) for one in examples.input_ids]
    record.off(
        "tokens of a batch of both rows",
        "padded to one length",
        sum(lengths),
        batch.num_tokens,
        f"the slide pads short rows, to {len(lengths)} · {max(lengths)} positions; here rows are packed",
    )
    kinds = [
        Token(tokenizer.decode([one]).strip() or "·", "first" if n < place else "second") for n, one in enumerate(ids)
    ]
    kinds[place] = Token(SUMMARIZE, "special")
    record.show(Tokens([("a row", kinds)]))
    cut = Generation(SUMMARIZE).examples(pairs, tokenizer, max_length=lengths[0] - 5)
    kept = cut.input_ids[0].tolist()
    tail = tokenizer.decode(kept[kept.index(ids[place]) + 1 : -1]).strip()
    record.equal("a row truncated by five tokens still ends with", ARTICLES[0][0], tail)
    record.answer(
        f"The end of the article: in {len(kept)} tokens instead of {lengths[0]}, the summary is complete, and "
        f"{cut.counts.cut_tokens} tokens of the article are truncated and counted. The target must stay complete, and "
        "an encyclopedia article starts with the important facts."
    )


def _parts(tokenizer: Tokenizer, ids: list[int], place: int, summary: str) -> str:
    """Return the parts of a row by name."""
    decode = tokenizer.decode
    is_summary = decode(ids[place + 1 : -1]).strip() == summary
    is_end = ids[-1] == tokenizer.eos_id
    return f"article {SUMMARIZE} {'summary' if is_summary else '?'} {'<end>' if is_end else '?'}"


LESSONS = (
    Lesson(
        "end-of-text",
        PART,
        NEUROCOMPUTING,
        "Output",
        "End of text, and the best text",
        "A linear layer and a softmax give each word of the vocabulary a probability, including <eos>, which ends the "
        "text. A table of six words replaces the network, so that all texts can be enumerated.",
        ("models.decoding.search:grow", "models.decoding.search:search_beams"),
        "Can the most probable word in each step lead to a less probable text?",
        _ending,
        (
            integer("beams", "Beam size", 3, 1, 8),
            number("length_penalty", "Length penalty", 0, -3, 3, 0.5),
            number("first", "Probability of 'the' as the first word", 0.55, 0.05, 0.95, 0.05),
        ),
    ),
    Lesson(
        "zero-shot",
        PART,
        SESSION,
        "Performance: zero-shot translation",
        "Zero-shot translation: A to B, B to C, then A to C",
        "One network learns several directions; a tag in the source selects the target language. The same tag "
        "requests a direction without training examples.",
        ("text.formats.language_tags:with_language_tag", "text.formats.language_tags:languages_of"),
        "How does the network know that German should become French, without such training examples?",
        _zero_shot,
    ),
    Lesson(
        "article-and-lead",
        PART,
        APPLICATIONS,
        "Summarization",
        "Summaries from an encyclopedia",
        "The first line of an article summarizes it: article and lead are a text and its summary, and a dump of "
        "articles becomes labeled data by a rule.",
        ("text.readers.parallel:lead_pairs", "tasks.generation.task:Generation.examples"),
        "Which part is truncated if a row is too long?",
        _leads,
    ),
)
