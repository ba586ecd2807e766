"""Generation: beams, translation, summaries, and BLEU."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ...core.errors import InputError, MissingExtraError
from ...core.randomness import generator
from ...core.util import plural
from ...data.batch import Batch
from ...models.decoding.rules import Rules, choose, probabilities
from ...models.decoding.search import Beams, GeneratedText, grow, search_beams
from ...models.decoding.translation import target_decoder
from ...models.heads import cross_entropy
from ...report import Bar, Bars, Table, Token, Tokens
from ...report.charts import Arrow, Box, Flow
from ...tasks.base import DELIM, EXTRACT, START
from ...tasks.generation import Generation
from ...tasks.translation import corpus_scores
from ...text.readers.corpus import Document
from ...text.readers.parallel import check_languages, language_of, languages_of, lead_pairs, tag, with_language_tag
from ...text.readers.tables import Row
from ...text.tokenizers.tokenizer import Tokenizer
from ..inputs import Matrix
from ..parts import explain_bleu
from ..recorder import LessonRecorder
from ..small import small_translator


def lesson_top_k(record: LessonRecorder, k: int, temperature: float, shares: Matrix) -> None:
    words = ("the", "a", "unicorn", "valley", "of", "zyzzyva")
    scores = torch.tensor(shares, dtype=torch.float64).log()
    rules = Rules(top_k=k, temperature=temperature)
    kept, ids = probabilities(scores, rules)
    assert ids is not None
    raised = [share ** (1 / temperature) for share in sorted(shares[0], reverse=True)[:k]]
    by_hand = [one / sum(raised) for one in raised]
    record.near("top 3 of 0.4, 0.2, 0.2, …, renormalized", [0.5, 0.25, 0.25], kept[0], digits=2)
    record.near(f"top {k} at temperature {temperature:g}, by hand", by_hand, kept[0], digits=2, law=True)
    one, _ = probabilities(scores, Rules(top_k=1))
    record.near("k = 1: the probability of the first", [1.0], one[0], digits=1, law=True)
    rows = scores.expand(3000, -1)
    uniforms = torch.from_numpy(generator(0, "lesson draws").random(3000))
    drawn = choose(rows, rules, uniforms, None)
    record.equal(f"words outside the top {k} among 3,000 samples", 0, int((~torch.isin(drawn, ids[0])).sum()), law=True)
    first = float((drawn == ids[0, 0]).double().mean())
    record.near(f"fraction of '{words[int(ids[0, 0])]}' among them", by_hand[0], first, 0.03, digits=2, law=True)
    again = choose(rows, rules, uniforms, None)
    record.equal("repeated with the same seed", True, bool((again == drawn).all()), law=True)
    record.equal("greedy", "the", words[int(choose(rows[:1], Rules(greedy=True), None, None))])
    record.bars(
        f"Distribution with k = {k}, temperature {temperature:g}",
        [(words[int(word)], share) for word, share in zip(ids[0], kept[0].tolist(), strict=True)],
        ".2f",
    )
    cold, _ = probabilities(scores, Rules(temperature=0.5))
    record.answer(
        f"A temperature changes all probabilities and excludes nothing: at 0.5 'the' has {float(cold[0, 0]):.2f} and "
        f"zyzzyva still {float(cold[0, 5]):.4f}. Top-k removes the tail, which contains most implausible words. You "
        "can combine them."
    )


def lesson_task_formats(record: LessonRecorder) -> None:
    plain = Tokenizer.train_from_iterator(["a premise and its hypothesis"], "byte-bpe", 280)
    framed = plain.with_template(START, DELIM, EXTRACT)
    inside = [token for token in framed("premise", "hypothesis").tokens if token in (START, DELIM, EXTRACT)]
    record.equal("a pair of texts", "[START] … [DELIM] … [EXTRACT]", " … ".join(inside))
    alone = [token for token in framed("premise").tokens if token in (START, DELIM, EXTRACT)]
    record.equal("one text", "[START] … [EXTRACT]", " … ".join(alone))
    last = framed("premise", "hypothesis").tokens[-1]
    record.equal("the token used by the classifier", "[EXTRACT]", last)
    record.equal("the tag for French", "<to-fr>", tag("fr"))
    line = "I am a student <to-fr> je suis étudiant"
    record.equal("the language of a tagged source", "fr", language_of(tag("fr") + " I am a student"))
    rows = [
        (
            "entailment",
            [
                Token(START, "special"),
                Token("premise", "first"),
                Token(DELIM, "special"),
                Token("hypothesis", "second"),
                Token(EXTRACT, "right"),
            ],
        ),
        (
            "translation",
            [Token("I am a student", "first"), Token("<to-fr>", "special"), Token("je suis étudiant", "second")],
        ),
        ("summary", [Token("article", "first"), Token("<summarize>", "special"), Token("its lead", "second")]),
    ]
    record.show(Tokens(rows))
    ids = framed.encode_plain([line])[0]
    record.answer(
        f"In a causal network, only the last token attends to the whole text, so the classifier uses {last}. Without "
        f"special tokens, the {len(ids)} tokens of a text would end with an arbitrary subword token."
    )


def lesson_perplexity(record: LessonRecorder, words: int, probabilities: Matrix) -> None:
    even = torch.zeros(5, words, dtype=torch.float64)
    right = torch.tensor([0, 3, 7, 1, 2]) % words
    loss = float(cross_entropy(even, right, "labels"))
    record.near(f"cross-entropy of a uniform prediction over {words:,} words: log", math.log(words), loss, law=True)
    record.near("perplexity", float(words), math.exp(loss), digits=1, law=True)
    (guesses,) = probabilities
    rows = torch.tensor([(one, 1 - one) for one in guesses], dtype=torch.float64)  # the word, and all others
    found = float(cross_entropy(rows.log(), torch.zeros(len(rows), dtype=torch.long), "labels"))
    shown = ", ".join(f"{one:g}" for one in guesses)
    by_hand = -sum(map(math.log, guesses)) / len(guesses)
    record.near(f"−Σ y log ŷ of {shown}, the mean", by_hand, found, law=True)
    root = math.prod(guesses) ** (-1 / len(guesses))
    record.near("its perplexity: 1 / the geometric mean of the probabilities", root, math.exp(found), law=True)
    record.show(
        Table(
            ["guesses", "loss", "perplexity"],
            [(f"{words:,} words, uniform", loss, float(words)), (shown, found, math.exp(found))],
        )
    )
    wrong = float(cross_entropy(torch.tensor([[0.999, 0.001]]).log(), torch.tensor([1]), "labels"))
    record.answer(
        f"A confident error is expensive: a correct word with probability 0.001 costs {wrong:.1f} nats, as much as "
        f"{wrong / found:.0f} words of the example above. A perplexity of {words:,} equals the uncertainty among as "
        "many equally likely words."
    )


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
        return self._logits([""])

    def step(self, tokens: Tensor) -> Tensor:
        self.steps += 1
        return self._logits([WORDS[token] for token in tokens.tolist()])

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Do nothing: the only state is the last word, an argument of `step`."""

    def _logits(self, last: list[str]) -> Tensor:
        shares = [[self.shares.get(word, {"<eos>": 1.0}).get(other, 1e-9) for other in WORDS] for word in last]
        return torch.tensor(shares).log()


def lesson_end_of_text(record: LessonRecorder, beams: int, length_penalty: float, first: float) -> None:
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


def lesson_zero_shot(record: LessonRecorder) -> None:
    def row(source: str, target: str, line: int = 1) -> Row:
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


def lesson_article_and_lead(record: LessonRecorder) -> None:
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
    decode = tokenizer.decode
    is_summary = decode(ids[place + 1 : -1]).strip() == summary
    is_end = ids[-1] == tokenizer.eos_id
    return f"article {SUMMARIZE} {'summary' if is_summary else '?'} {'<end>' if is_end else '?'}"


LENGTHS = ("one word", "two consecutive words", "three", "four")


def lesson_bleu_by_hand(record: LessonRecorder, written: str, wanted: str) -> None:
    lines, references = ([" ".join(one.split()) for one in own.split("|")] for own in (written, wanted))
    if len(lines) != len(references):
        raise InputError(f"written: {len(lines)} lines, wanted: {len(references)}; pass a reference for each line.")
    found = explain_bleu(lines, references)
    record.equal("n-grams of 1, 2, 3, 4 words in the translation", "10, 8, 6, 4", ", ".join(map(str, found.rows)))
    record.equal("matches in the reference", "9, 6, 4, 2", ", ".join(map(str, found.matches)))
    record.near("precisions", [9 / 10, 6 / 8, 4 / 6, 2 / 4], found.precisions)
    long, due = (sum(len(one.split()) for one in own) for own in (lines, references))
    penalty = math.exp(min(0.0, 1 - due / long))
    record.near(f"brevity penalty, {long} words for {due}", penalty, found.penalty, law=True)
    shares = [hits / rows if rows else 0.0 for hits, rows in zip(found.matches, found.rows, strict=True)]
    by_hand = 100 * penalty * math.prod(shares) ** 0.25
    what = "BLEU: penalty times the fourth root of the product of the precisions"
    record.near(what, by_hand, found.score, digits=2, law=True)
    compared = True
    try:
        if max(len(one.split()) for one in references) >= len(LENGTHS):  # else sacrebleu counts shorter n-grams only
            record.near("BLEU of sacrebleu", by_hand, corpus_scores(lines, references)[0]["bleu"], 0.01, digits=2)
    except MissingExtraError:
        compared = False
    again = explain_bleu(["the the the the the the the"], ["the cat is on the mat"])
    record.equal(
        "'the' seven times; the reference has two", "2 of 7", f"{again.matches[0]} of {again.rows[0]}", law=True
    )
    record.show(
        Bars(
            [
                Bar(name, share, f"{hits} of {rows}")
                for name, share, hits, rows in zip(LENGTHS, found.precisions, found.matches, found.rows, strict=True)
            ],
            title="n-gram precision",
        )
    )
    scores = [explain_bleu([line], [reference]).score for line, reference in zip(lines, references, strict=True)]
    rows = [(a, b, f"{score:.2f}") for a, b, score in zip(lines, references, scores, strict=True)]
    record.show(
        Table(
            ["written", "wanted", "BLEU of the line"],
            [*rows, ("all", "", f"{found.score:.2f}")],
            right=["BLEU of the line"],
        )
    )
    record.answer(
        f"No: the lines score {', '.join(f'{one:.2f}' for one in scores)}, {sum(scores) / len(scores):.2f} on average, "
        f"and together {found.score:.2f}. Matches, n-grams and words are summed first, so a long line counts more, and "
        "a line without a matching 4-gram does not reduce the score to 0."
        + ("" if compared else " (Not compared with sacrebleu: it is not installed.)")
    )
