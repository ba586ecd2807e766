"""Choosing the next word, formats for tasks, and how surprised a model is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Generation"


def _top_k(record: LessonRecorder) -> None:
    import torch

    from ...core.randomness import generator
    from ...models.decoding.rules import Rules, choose, probabilities
    from ...report import Bar, Bars

    words = ("the", "a", "unicorn", "valley", "of", "zyzzyva")
    shares = torch.tensor([[0.4, 0.2, 0.2, 0.1, 0.08, 0.02]], dtype=torch.float64)
    kept, ids = probabilities(shares.log(), Rules(top_k=3))
    assert ids is not None
    record.near("top 3 of 0.4, 0.2, 0.2, …, made to sum to 1", [0.5, 0.25, 0.25], kept[0], digits=2)
    one, _ = probabilities(shares.log(), Rules(top_k=1))
    record.near("k = 1: the probability of the first", [1.0], one[0], digits=1)
    rows = shares.log().expand(3000, -1)
    uniforms = torch.from_numpy(generator(0, "lesson draws").random(3000))
    drawn = choose(rows, Rules(top_k=3), uniforms, None)
    record.equal("words drawn of 3,000 that are not in the top 3", 0, int((drawn > 2).sum()))
    record.near("share of 'the' among them", 0.5, float((drawn == 0).double().mean()), 0.03, digits=2)
    again = choose(rows, Rules(top_k=3), uniforms, None)
    record.equal("the same draws again", True, bool((again == drawn).all()))
    record.equal("greedy", "the", words[int(choose(rows[:1], Rules(greedy=True), None, None))])
    record.show(
        Bars(
            [
                Bar(words[int(word)], share, f"{share:.2f}")
                for word, share in zip(ids[0], kept[0].tolist(), strict=True)
            ],
            title="What may be drawn with k = 3",
        )
    )
    cold, _ = probabilities(shares.log(), Rules(temperature=0.5))
    record.answer(
        f"A temperature changes all odds and rules nothing out: at 0.5 'the' has {float(cold[0, 0]):.2f} and zyzzyva "
        f"still {float(cold[0, 5]):.4f}. Top-k cuts the tail, where most of the nonsense is. They can be used "
        "together."
    )


def _formats(record: LessonRecorder) -> None:
    from ...report import Token, Tokens
    from ...tasks.rows.special_tokens import DELIM, EXTRACT, START
    from ...text.formats.language_tags import language_of, tag
    from ...text.tokenizers.tokenizer import Tokenizer

    plain = Tokenizer.train_from_iterator(["a premise and its hypothesis"], "byte-bpe", 280)
    framed = plain.with_template(START, DELIM, EXTRACT)
    inside = [token for token in framed("premise", "hypothesis").tokens if token in (START, DELIM, EXTRACT)]
    record.equal("a pair of texts", "[START] … [DELIM] … [EXTRACT]", " … ".join(inside))
    alone = [token for token in framed("premise").tokens if token in (START, DELIM, EXTRACT)]
    record.equal("one text", "[START] … [EXTRACT]", " … ".join(alone))
    last = framed("premise", "hypothesis").tokens[-1]
    record.equal("what the classifier looks at", "[EXTRACT]", last)
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
        f"A left-to-right network has read everything only at the last token, so {last} is the one that is judged. "
        f"Without a frame the {len(ids)} tokens of a text would end with whatever its last piece is."
    )


def _perplexity(record: LessonRecorder) -> None:
    import torch

    from ...models.losses import cross_entropy
    from ...report import Table

    even = torch.zeros(5, 8, dtype=torch.float64)
    right = torch.tensor([0, 3, 7, 1, 2])
    loss = float(cross_entropy(even, right, "labels"))
    record.near("cross-entropy of 8 equal guesses: log 8", math.log(8), loss)
    record.near("perplexity", 8.0, math.exp(loss), digits=1)
    given = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], dtype=torch.float64)
    found = float(cross_entropy(given.log(), torch.tensor([0, 1]), "labels"))
    record.near("−Σ y log ŷ of 0.5 and 0.8, the mean", -(math.log(0.5) + math.log(0.8)) / 2, found)
    record.near("its perplexity: 1 / √(0.5 · 0.8)", (0.5 * 0.8) ** -0.5, math.exp(found))
    record.show(
        Table(
            ["guesses", "loss", "perplexity"], [("8 words alike", loss, 8.0), ("0.5 and 0.8", found, math.exp(found))]
        )
    )
    wrong = float(cross_entropy(torch.tensor([[0.999, 0.001]]).log(), torch.tensor([1]), "labels"))
    record.answer(
        f"Sure and wrong is dear: a right word that was given 0.001 costs {wrong:.1f} nats, as much as "
        f"{wrong / found:.0f} words of the example above. A perplexity of 8 means: as unsure as between eight words "
        "that are equally likely."
    )


LESSONS = (
    Lesson(
        "top-k",
        PART,
        APPLICATIONS,
        "GPT: Prediction",
        "Drawing the next word",
        "Among the k most probable words one is drawn by its probability. With k = 1 the text is always the same; a "
        "seed makes any draw repeat.",
        ("models.decoding.rules:probabilities", "models.decoding.rules:choose"),
        "Would a lower temperature do instead?",
        _top_k,
    ),
    Lesson(
        "task-formats",
        PART,
        APPLICATIONS,
        "Fine-tune GPT-2 for Other Tasks; Translation",
        "Tasks as texts",
        "A left-to-right model does other tasks when they are written as one row: a start, a delimiter between two "
        "texts, and a token at which the answer is read off.",
        ("text.tokenizers.tokenizer:Tokenizer.with_template", "text.formats.language_tags:tag"),
        "Why is [EXTRACT] the last token, when [CLS] is the first?",
        _formats,
    ),
    Lesson(
        "perplexity",
        PART,
        SESSION,
        "Recap: RNNs; Training Process",
        "How surprised is a model?",
        "The loss of a language model is the mean of −log of the probability that it gave to what came. Its "
        "exponential counts words.",
        ("models.losses:cross_entropy",),
        "What costs more: many small doubts or one great mistake?",
        _perplexity,
    ),
)
