"""Next sentence prediction, and the two losses together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..inputs import integer
from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ...report import Token
    from ..recorder import LessonRecorder

PART = "Pre-training"
STORY = (
    ("The man went to the store.", "He bought a gallon of milk.", "Then he went home."),
    ("Many birds fly.", "Penguins are flightless.", "They swim very well."),
)
ROWS = {
    "IsNext": "[CLS] The man went to the store . [SEP] He bought a gallon of milk . [SEP]",
    "NotNext": "[CLS] The man went to the store . [SEP] Penguins are flightless . [SEP]",
}


def _pairs(record: LessonRecorder, documents: int, tokens: int, seed: int) -> None:
    import numpy as np

    from ...core.randomness import generator
    from ...objectives.segments import plan_pairs, sentence_bounds
    from ...report import Tokens

    rng = generator(0, "lesson sentences")
    bounds = {number: sentence_bounds(rng.integers(5, 15, 400)) for number in range(documents)}
    examples = plan_pairs(bounds, tokens, 0.0, generator(seed, "lesson pairs"))
    pairs = [one for one in examples if one.b_stop > one.b_start]
    true = [one for one in pairs if not one.is_random]
    within = 0.01 if not record.is_own else 0.01 + 2 / len(pairs) ** 0.5  # four standard errors of 0.5
    share = len(true) / len(pairs)
    record.near(f"fraction of IsNext in {len(pairs):,} pairs", 0.5, share, within, digits=3, law=True)
    follows = all(one.b_document == one.a_document and one.b_start == one.a_stop for one in true)
    record.off(
        "IsNext: position of B",
        "B precedes A",
        "B follows A",
        "B follows A" if follows else "elsewhere",
        "one slide states that B precedes A; its own example and the other lectures have B after A",
    )
    others = all(one.b_document != one.a_document for one in pairs if one.is_random)
    record.equal("NotNext: B is from another document", True, others, law=True)

    story = {number: [0, 1, 2, 3] for number in range(2)}  # one token per sentence, to show the plan
    drawn = [one for own in range(30) for one in plan_pairs(story, 2, 0.0, generator(own, "story"))]
    found = {
        (STORY[one.a_document][one.a_start], STORY[one.b_document][one.b_start]): one.is_random
        for one in drawn
        if one.b_stop > one.b_start and one.a_stop - one.a_start == 1
    }
    first = STORY[0][0]
    record.equal("The man went to the store. / He bought a gallon of milk.", False, found.get((first, STORY[0][1])))
    record.equal("The man went to the store. / Penguins are flightless.", True, found.get((first, STORY[1][1])))
    record.show(Tokens(_written(record)))
    lengths = [
        np.mean([one.b_stop - one.b_start for one in part]) for part in (true, [p for p in pairs if p.is_random])
    ]
    record.holds(
        "length of B: IsNext and NotNext",
        "(asked)",
        f"{lengths[0]:.1f} and {lengths[1]:.1f} tokens",
        bool(abs(lengths[0] - lengths[1]) < 1.5),
    )
    record.answer(
        f"It would, so both kinds of B are built with the same average length ({lengths[0]:.1f} and {lengths[1]:.1f} "
        "tokens). It can use the topic, which is why later work questioned the task."
    )


def _written(record: LessonRecorder) -> list[tuple[str, list[Token]]]:
    """Return the slides' two pairs as in the batches of pre-training, with the masked words restored."""
    from ...core.randomness import generator
    from ...data.shards import TextsInMemory
    from ...objectives.masked import MaskedLanguageModelingAndNextSentence
    from ...objectives.segments import Example, sentence_bounds
    from ...objectives.selection import make_recipe
    from ...report import Kind, Token
    from ..small import word_tokenizer

    tokenizer = word_tokenizer(*(sentence for document in STORY for sentence in document), lowercase=False)
    texts = TextsInMemory.encode(STORY, tokenizer)
    first, second = (sentence_bounds(texts.sentence_lengths_of(number)) for number in range(2))
    examples = [
        Example(0, first[0], first[1], 0, first[1], first[2]),
        Example(0, first[0], first[1], 1, second[1], second[2], is_random=True),
    ]
    objective = MaskedLanguageModelingAndNextSentence(make_recipe(MaskedLanguageModelingAndNextSentence, tokenizer, 20))
    batch = objective.batch(texts, examples, generator(0, "lesson masks"))
    ids = batch.input_ids.clone()
    ids[batch.labels["mlm_positions"]] = batch.labels["mlm"]
    assert batch.token_type_ids is not None
    rows = []
    for number, (start, stop) in enumerate(zip(batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True)):
        words = [tokenizer.tokens[one] for one in ids[start:stop]]
        types = batch.token_type_ids[start:stop].tolist()
        segment: tuple[Kind, Kind] = ("first", "second")
        tokens = [
            Token(word, "special" if word in ("[CLS]", "[SEP]") else segment[type_])
            for word, type_ in zip(words, types, strict=True)
        ]
        name = tuple(ROWS)[int(batch.labels["nsp"][number])]
        rows.append((name, tokens))
        length = first[1] + 2
        record.equal(f"{name}: the sequence", ROWS[name], " ".join(words))
        record.equal(
            f"{name}: 0 up to the first [SEP], 1 after it",
            f"{length}, {len(words) - length}",
            f"{types.count(0)}, {types.count(1)}",
        )
    return rows


def _total(record: LessonRecorder) -> None:
    import torch

    from ...data.shards import TextsInMemory
    from ...objectives.masked import MaskedLanguageModelingAndNextSentence
    from ...objectives.selection import make_recipe
    from ...report import Bar, Bars
    from ...train.loop import Window
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(*(sentence for document in STORY for sentence in document))
    texts = TextsInMemory.encode(STORY, tokenizer)
    objective = MaskedLanguageModelingAndNextSentence(make_recipe(MaskedLanguageModelingAndNextSentence, tokenizer, 20))
    batch = _batch(objective, texts)
    model = small_network(tokenizer.vocab_size, "pretraining").requires_grad_(True)
    outcome = objective.outcome(model, batch)
    window = Window()
    window.add(outcome)
    means = window.means()
    record.near("total = masked LM + next sentence", means["mlm_loss"] + means["nsp_loss"], means["loss"])
    weight = next(model.encoder.in_order).attention.qkv.weight

    def gradient(*parts: str) -> torch.Tensor:
        """Return the gradient of these mean losses; each is recomputed, because its graph can be used once."""
        found = objective.outcome(model, batch)
        total = torch.stack([found.losses[part] / found.counts[part] for part in parts]).sum()
        return torch.autograd.grad(total, weight)[0]

    each, whole = [gradient("mlm"), gradient("nsp")], gradient("mlm", "nsp")
    record.same("gradient of the total", "sum of both", each[0] + each[1], whole, said="differs by")
    follows = batch.labels["nsp"]
    scores = model.nsp_logits(model.pool(model.encode(batch).hidden, batch))
    by_hand = -torch.log_softmax(scores, dim=-1)[torch.arange(len(follows)), follows].mean()
    record.near("next sentence: cross-entropy of [CLS]", float(by_hand.detach()), means["nsp_loss"])
    names = {"masked words": "mlm_loss", "next sentence": "nsp_loss"}
    record.show(
        Bars(
            [Bar(name, means[key], f"{means[key]:.3f}") for name, key in names.items()],
            title="Losses of an untrained network",
        )
    )
    norms = [float(one.norm()) for one in each]
    record.answer(
        f"Not for these weights: the gradient norm of masked LM is {norms[0]:.2f}, that of next sentence prediction "
        f"{norms[1]:.2f}. A pair has one binary label per sequence; masked LM has several predictions among thousands "
        "of tokens."
    )


def _batch(objective: Any, texts: Any) -> Any:
    """One batch with both kinds of pairs."""
    from ...core.randomness import generator
    from ...objectives.segments import sentence_bounds

    bounds = {number: sentence_bounds(texts.sentence_lengths_of(number)) for number in range(len(texts))}
    for seed in range(50):
        examples = objective.plan(bounds, generator(seed, "lesson pairs"))
        if len({one.is_random for one in examples}) == 2:
            return objective.batch(texts, examples, generator(seed, "lesson masks"))
    raise AssertionError("fifty batches had pairs of only one kind")


LESSONS = (
    Lesson(
        "next-sentence",
        PART,
        APPLICATIONS,
        "Pretraining Task 2: next sentence",
        "Does B follow A?",
        "In half of the pairs, B follows A; in the other half, B is from another document. The pairs are built as in "
        "pre-training, from sixty documents and from the slides' sentences.",
        ("objectives.segments:plan_pairs", "objectives.masked:MaskedLanguageModeling.batch"),
        "Could a model distinguish the two kinds by length?",
        _pairs,
        (
            integer("documents", "Number of documents", 60, 2, 100),
            integer("tokens", "Tokens of a pair", 60, 24, 512),
            integer("seed", "Random seed", 0, 0, 9999),
        ),
    ),
    Lesson(
        "total-loss",
        PART,
        APPLICATIONS,
        "BERT Pretraining Loss",
        "Two losses, one sum",
        "Pre-training minimizes the sum of the mean masked LM loss and the mean next sentence loss.",
        ("train.loop:Window.means", "objectives.masked:MaskedLanguageModelingOnPairs.sums"),
        "Do both tasks have equally large gradients?",
        _total,
    ),
)
