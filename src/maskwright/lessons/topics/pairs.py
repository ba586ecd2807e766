"""Pairs of sentences in pre-training, and families of language models."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...core.errors import InputError
from ...core.randomness import generator
from ...data.batch import Batch
from ...data.shards import TextsInMemory
from ...inference.fill_mask import predict_side_by_side
from ...objectives.causal import NextTokenPrediction
from ...objectives.masked import MaskedLanguageModeling, MaskedLanguageModelingAndNextSentence, MaskedRecipe, Masker
from ...objectives.segments import Example, plan_pairs, sentence_bounds
from ...objectives.selection import make_recipe
from ...report import Grid, Kind, Table, Token, Tokens
from ...report.charts import Chart, Series
from ...text.tokenizers.tokenizer import Tokenizer
from ...train.loop import Window
from ...train.pretraining.job import pretrain_small
from ..inputs import words_of
from ..recorder import LessonRecorder
from ..small import small_network, word_tokenizer

STORY = (
    ("The man went to the store.", "He bought a gallon of milk.", "Then he went home."),
    ("Many birds fly.", "Penguins are flightless.", "They swim very well."),
)
ROWS = {
    "IsNext": "[CLS] The man went to the store . [SEP] He bought a gallon of milk . [SEP]",
    "NotNext": "[CLS] The man went to the store . [SEP] Penguins are flightless . [SEP]",
}


def lesson_next_sentence(record: LessonRecorder, documents: int, tokens: int, seed: int) -> None:
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
    for place, (start, stop) in enumerate(zip(batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True)):
        words = [tokenizer.tokens[one] for one in ids[start:stop]]
        types = batch.token_type_ids[start:stop].tolist()
        segment: tuple[Kind, Kind] = ("first", "second")
        tokens = [
            Token(word, "special" if word in ("[CLS]", "[SEP]") else segment[type_])
            for word, type_ in zip(words, types, strict=True)
        ]
        name = tuple(ROWS)[int(batch.labels["nsp"][place])]
        rows.append((name, tokens))
        length = first[1] + 2
        record.equal(f"{name}: the sequence", ROWS[name], " ".join(words))
        record.equal(
            f"{name}: 0 up to the first [SEP], 1 after it",
            f"{length}, {len(words) - length}",
            f"{types.count(0)}, {types.count(1)}",
        )
    return rows


def lesson_total_loss(record: LessonRecorder) -> None:
    tokenizer = word_tokenizer(*(sentence for document in STORY for sentence in document))
    texts = TextsInMemory.encode(STORY, tokenizer)
    objective = MaskedLanguageModelingAndNextSentence(make_recipe(MaskedLanguageModelingAndNextSentence, tokenizer, 20))
    batch = _batch(objective, texts)
    model = small_network(tokenizer, "pretraining").requires_grad_(True)
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
    record.bars("Losses of an untrained network", [(name, means[key]) for name, key in names.items()], ".3f")
    norms = [float(one.norm()) for one in each]
    record.answer(
        f"Not for these weights: the gradient norm of masked LM is {norms[0]:.2f}, that of next sentence prediction "
        f"{norms[1]:.2f}. A pair has one binary label per sequence; masked LM has several predictions among thousands "
        "of tokens."
    )


def _batch(objective: Any, texts: Any) -> Any:
    """One batch with both kinds of pairs."""

    bounds = {number: sentence_bounds(texts.sentence_lengths_of(number)) for number in range(len(texts))}
    for seed in range(50):
        examples = objective.plan(bounds, generator(seed, "lesson pairs"))
        if len({one.is_random for one in examples}) == 2:
            return objective.batch(texts, examples, generator(seed, "lesson masks"))
    raise AssertionError("fifty batches had pairs of only one kind")


QUESTION = "the dog sleeps at night"
SENTENCES = (  # what follows 'the dog' is known only from the words after it
    "the dog sleeps at night",
    "the dog eats at noon",
    "the dog runs in the park",
    "the cat sleeps in the sun",
    "the cat eats a fish",
)
TEXT = "the animal did not cross the street because it was too tired to keep on walking that day"


def lesson_both_sides(record: LessonRecorder) -> None:
    tokenizer = word_tokenizer(TEXT)
    ids = tokenizer(TEXT).ids
    place = 8  # "it" would follow "because"; the position to predict
    guesses: dict[str, tuple[Any, Any, Any]] = {}  # the text unchanged, with an earlier word changed, with a later one
    causal: dict[str, Any] = {"attention": "causal", "type_vocab_size": 0, "pooler": False}
    for name, head, switches in (("BERT", "mlm", {}), ("GPT-2", "clm", causal)):
        model = small_network(tokenizer, head, **switches)

        def predict(row: list[int], model: Any = model, name: str = name) -> Any:
            read = place if name == "BERT" else place - 1  # GPT-2 predicts at the previous token
            hidden = model.encode(Batch.from_sequences([row])).hidden[read : read + 1]
            return model.mlm_logits(hidden).softmax(dim=-1).detach()

        masked = tokenizer(TEXT.replace("because", "[MASK]")).ids
        hidden_ids = masked if name == "BERT" else list(ids)
        earlier, later = list(hidden_ids), list(hidden_ids)
        earlier[place - 2], later[place + 2] = ids[2], ids[2]
        guesses[name] = (predict(hidden_ids), predict(earlier), predict(later))
    moved = {
        name: tuple(float((one - before).abs().sum()) for one in others) for name, (before, *others) in guesses.items()
    }
    record.holds(
        "BERT: P(x[MASK] | X), an earlier word changes",
        "both sides",
        f"the prediction changes by {moved['BERT'][0]:.3f}",
        moved["BERT"][0] > 1e-4,
    )
    record.holds(
        "BERT: a later word changes", "both sides", f"changes by {moved['BERT'][1]:.3f}", moved["BERT"][1] > 1e-4
    )
    record.holds(
        "GPT-2: P(y_i | y_<i), an earlier word changes",
        "the left side",
        f"changes by {moved['GPT-2'][0]:.3f}",
        moved["GPT-2"][0] > 1e-4,
    )
    before, _, later = guesses["GPT-2"]
    record.same("GPT-2: a later word changes", "nothing", before, later, said="moves by")
    words = [f"{n}" for n in range(1, 7)]
    for name, switches in (("BERT", {}), ("GPT-2", causal)):
        model = small_network(tokenizer, None, **switches)
        weights = model.encode(Batch.from_sequences([ids[:6]]), attentions=True).attentions
        assert weights is not None
        shown = [[one if one > 0 else None for one in row] for row in weights[0][0][0].tolist()]
        record.show(Grid(words, words, shown, f"Attention pattern: {name}"))
    record.answer(
        f"It would see the target. A changed later word changes BERT's prediction by {moved['BERT'][1]:.3f}, so the "
        "word itself must be masked in its input. GPT-2 needs no mask token, because a prediction never depends on "
        "its target."
    )


def lesson_side_by_side(record: LessonRecorder, text: str) -> None:
    words = [word.lower() for word in words_of(text)]
    known = list(dict.fromkeys(" ".join(SENTENCES).split()))
    new = [word for word in words if word not in known]
    if new:
        raise InputError(f"The models were not trained on {', '.join(new)}. Use these words: {', '.join(known)}.")
    _side_by_side(record, " ".join(words))


def _side_by_side(record: LessonRecorder, text: str) -> None:
    """Trains a masked and a causal model on the same sentences, and predicts every word of the text with both."""
    tokenizer = Tokenizer.train_from_iterator(SENTENCES, "word", 100)
    documents = [[sentence] for sentence in SENTENCES] * 8
    sizes: dict[str, Any] = {"steps": 150, "max_length": 16}
    masked = pretrain_small(documents, tokenizer, "mlm", mask_rate=0.25, **sizes)
    causal = pretrain_small(documents, tokenizer, "clm", **sizes)
    found = predict_side_by_side(masked, causal, text)
    for name, distributions in (("P(x[MASK] | X)", found.masked), ("P(y_i | y_<i)", found.causal)):
        sums = distributions.sum(dim=1)
        record.same(f"{name}: each word's probabilities sum to", "1", sums, sums.new_ones(sums.shape), said="1 within")
    record.equal("words that both models predict", len(found.words), len(found.masked), law=True)
    if text == QUESTION:
        place = found.words.index("sleeps")
        both, left = (float(one[place, found.ids[place]]) for one in (found.masked, found.causal))
        record.holds(
            "'sleeps' in 'the dog sleeps at night'",
            "right context helps",
            f"bidirectional {both:.2f}, causal {left:.2f}",
            both > 0.5 > left,
        )
        place = found.words.index("night")
        both, left = (float(one[place, found.ids[place]]) for one in (found.masked, found.causal))
        record.holds(
            "'night', the last word",
            "both predict it",
            f"bidirectional {both:.2f}, causal {left:.2f}",
            min(both, left) > 0.5,
        )
    rows = []
    for place, (word, token) in enumerate(zip(found.words, found.ids, strict=True)):
        cells = []
        for distributions in (found.masked, found.causal):
            best = int(distributions[place].argmax())
            cells += [f"{float(distributions[place, token]):.3f}", f"{tokenizer.tokens[best]}"]
        rows.append((word, *cells))
    columns = ["word", "bidirectional: P(word)", "top prediction", "causal: P(word)", "its top prediction"]
    record.show(Table(columns, rows, title="The same text through both models"))
    losses = [found.loss(one) for one in (found.masked, found.causal)]
    record.answer(
        f"Mean −log P of a word: {losses[0]:.2f} with both sides, {losses[1]:.2f} with the left side only. The masked "
        "model reads the text once for each word, with that word masked; the causal one reads it once. Both read the "
        f"same {len(SENTENCES)} sentences, 150 steps. predict_side_by_side does the same with your own models."
    )


def lesson_slower_start(record: LessonRecorder, rate: float) -> None:
    rng = generator(0, "lesson text")
    texts = TextsInMemory([[rng.integers(5, 900, 126).tolist()] for _ in range(60)])
    recipe = MaskedRecipe.of(2, 3, Masker(4, frozenset(range(5)), 900, rate), 128)
    examples = [Example(number, 0, 126) for number in range(60)]
    share = {}
    for name, objective in (("masked", MaskedLanguageModeling(recipe)), ("left to right", NextTokenPrediction(recipe))):
        batch = objective.batch(texts, examples, generator(0, "lesson masks"))
        share[name] = objective.counts(batch)[objective.words] / batch.num_tokens
    record.near("predicted tokens per input token: masked LM", rate, share["masked"], 0.01, digits=3)
    words = share["masked"] * 128 / 126  # without [CLS] and [SEP]
    record.near("predicted words per word of the text", rate, words, 0.01, digits=3, law=True)
    record.holds("causal LM", "every word", f"{share['left to right']:.3f}", share["left to right"] > 0.98, law=True)
    ratio = share["left to right"] / share["masked"]
    record.near("predictions per step: causal LM to masked LM", 1 / rate, ratio, 0.35, digits=1)
    steps = np.arange(0, 5001, 500).tolist()
    lines = [
        Series(name, steps, [part * 16 * 128 * step / 1e6 for step in steps], smooth=False)
        for name, part in share.items()
    ]
    record.charts(Chart("Predictions, millions, with 16 texts of 128 tokens per step", lines))
    record.answer(
        f"Because of the number of predictions: a causal language model makes {ratio:.1f} times as many on the same "
        "text. At equal tokens (docs/results/ablations.md, three seeds) it is ahead at every checkpoint up to 3,000 "
        "steps; the masked model, which uses both sides, is ahead from 3,500 on."
    )
