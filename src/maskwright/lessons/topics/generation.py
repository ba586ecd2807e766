"""Sampling, task formats and perplexity."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..inputs import Matrix, integer, matrix, number
from ..lesson import APPLICATIONS, SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Generation"
SHARES = ((0.4, 0.2, 0.2, 0.1, 0.08, 0.02),)


def _top_k(record: LessonRecorder, k: int, temperature: float, shares: Matrix) -> None:
    import torch

    from ...core.randomness import generator
    from ...models.decoding.rules import Rules, choose, probabilities
    from ...report import Bar, Bars

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
    record.show(
        Bars(
            [
                Bar(words[int(word)], share, f"{share:.2f}")
                for word, share in zip(ids[0], kept[0].tolist(), strict=True)
            ],
            title=f"Distribution with k = {k}, temperature {temperature:g}",
        )
    )
    cold, _ = probabilities(scores, Rules(temperature=0.5))
    record.answer(
        f"A temperature changes all probabilities and excludes nothing: at 0.5 'the' has {float(cold[0, 0]):.2f} and "
        f"zyzzyva still {float(cold[0, 5]):.4f}. Top-k removes the tail, which contains most implausible words. You "
        "can combine them."
    )


def _formats(record: LessonRecorder) -> None:
    from ...report import Token, Tokens
    from ...tasks.base import DELIM, EXTRACT, START
    from ...text.formats.language_tags import language_of, tag
    from ...text.tokenizers.tokenizer import Tokenizer

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


def _perplexity(record: LessonRecorder, words: int, probabilities: Matrix) -> None:
    import torch

    from ...models.heads import cross_entropy
    from ...report import Table

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


LESSONS = (
    Lesson(
        "top-k",
        PART,
        APPLICATIONS,
        "GPT: Prediction",
        "Sampling the next word",
        "One of the k most probable words is sampled by its probability. With k = 1 the text is deterministic; a seed "
        "makes sampling reproducible.",
        ("models.decoding.rules:probabilities", "models.decoding.rules:choose"),
        "Is a lower temperature an alternative?",
        _top_k,
        (
            integer("k", "Number k of words to sample from", 3, 1, 5),
            number("temperature", "Temperature", 1, 0.1, 5),
            matrix("shares", "Probabilities of six words", SHARES, 1e-6, 1, rows=1, columns=6),
        ),
    ),
    Lesson(
        "task-formats",
        PART,
        APPLICATIONS,
        "Fine-tune GPT-2 for Other Tasks; Translation",
        "Task formats",
        "A causal language model can be fine-tuned for other tasks with one sequence: a start token, a delimiter "
        "between two texts, and a last token for the prediction.",
        ("text.tokenizers.tokenizer:Tokenizer.with_template", "text.formats.language_tags:tag"),
        "Why is [EXTRACT] the last token, when [CLS] is the first?",
        _formats,
    ),
    Lesson(
        "perplexity",
        PART,
        SESSION,
        "Recap: RNNs; Training Process",
        "Perplexity",
        "The loss of a language model is the mean negative log probability of the true tokens. Its exponential, the "
        "perplexity, is an effective number of words.",
        ("models.heads:cross_entropy",),
        "What costs more: many uncertain predictions or one confident error?",
        _perplexity,
        (
            integer("words", "Words of a uniform prediction", 8, 2, 10_000),
            matrix("probabilities", "Probabilities of the true words", ((0.5, 0.8),), 1e-6, 0.999999, rows=1),
        ),
    ),
)
