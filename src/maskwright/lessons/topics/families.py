"""Bidirectional and causal language models: the context of a prediction, and the predictions per text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from ..inputs import number, text, words_of
from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Pre-training"
QUESTION = "the dog sleeps at night"
SENTENCES = (  # what follows 'the dog' is known only from the words after it
    "the dog sleeps at night",
    "the dog eats at noon",
    "the dog runs in the park",
    "the cat sleeps in the sun",
    "the cat eats a fish",
)
TEXT = "the animal did not cross the street because it was too tired to keep on walking that day"


def _sides(record: LessonRecorder) -> None:
    from ...data.batch import Batch
    from ...report import Grid
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(TEXT)
    ids = tokenizer(TEXT).ids
    place = 8  # "it" would follow "because"; the position to predict
    guesses: dict[str, tuple[Any, Any, Any]] = {}  # the text unchanged, with an earlier word changed, with a later one
    causal: dict[str, Any] = {"attention": "causal", "type_vocab_size": 0, "pooler": False}
    for name, head, switches in (("BERT", "mlm", {}), ("GPT-2", "clm", causal)):
        model = small_network(tokenizer.vocab_size, head, **switches)

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
        model = small_network(tokenizer.vocab_size, None, **switches)
        weights = model.encode(Batch.from_sequences([ids[:6]]), attentions=True).attentions
        assert weights is not None
        shown = [[one if one > 0 else None for one in row] for row in weights[0][0][0].tolist()]
        record.show(Grid(words, words, shown, f"Attention pattern: {name}"))
    record.answer(
        f"It would see the target. A changed later word changes BERT's prediction by {moved['BERT'][1]:.3f}, so the "
        "word itself must be masked in its input. GPT-2 needs no mask token, because a prediction never depends on "
        "its target."
    )


def _two_models(record: LessonRecorder, text: str) -> None:
    words = [word.lower() for word in words_of(text)]
    known = list(dict.fromkeys(" ".join(SENTENCES).split()))
    new = [word for word in words if word not in known]
    if new:
        raise InputError(f"The models were not trained on {', '.join(new)}. Use these words: {', '.join(known)}.")
    _side_by_side(record, " ".join(words))


def _side_by_side(record: LessonRecorder, text: str) -> None:
    """Trains a masked and a causal model on the same sentences, and predicts every word of the text with both."""
    from ...inference.side_by_side import predict_side_by_side
    from ...report import Table
    from ...text.tokenizers.tokenizer import Tokenizer
    from ...train.pretraining.job import pretrain_small

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


def _answers(record: LessonRecorder, rate: float) -> None:
    import numpy as np

    from ...core.randomness import generator
    from ...data.shards import TextsInMemory
    from ...objectives.causal import NextTokenPrediction
    from ...objectives.masked import MaskedLanguageModeling, MaskedRecipe, Masker
    from ...objectives.segments import Example
    from ...report import Chart, Curves, Series

    rng = generator(0, "lesson text")
    texts = TextsInMemory([[rng.integers(5, 900, 126).tolist()] for _ in range(60)])
    recipe = MaskedRecipe.of(2, 3, Masker(4, frozenset(range(5)), 900, rate), 128)
    examples = [Example(number, 0, 126) for number in range(60)]
    share = {}
    for name, objective in (
        ("masked", MaskedLanguageModeling(recipe)),
        ("left to right", NextTokenPrediction(recipe)),
    ):
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
    record.show(Curves([Chart("Predictions, millions, with 16 texts of 128 tokens per step", lines)], title=""))
    record.answer(
        f"Because of the number of predictions: a causal language model makes {ratio:.1f} times as many on the same "
        "text. At equal tokens (docs/results/ablations.md, three seeds) it is ahead at every checkpoint up to 3,000 "
        "steps; the masked model, which uses both sides, is ahead from 3,500 on."
    )


LESSONS = (
    Lesson(
        "both-sides",
        PART,
        APPLICATIONS,
        "BERT vs. GPT-2",
        "Bidirectional and left context",
        "A masked and a causal language model process the same sentence. The words that change a prediction are its "
        "context.",
        ("nn.attention:apply_causal_mask",),
        "What would happen if BERT's input were not masked?",
        _sides,
    ),
    Lesson(
        "side-by-side",
        PART,
        APPLICATIONS,
        "BERT vs. GPT-2: losses",
        "One text through a bidirectional and a causal language model",
        "Two networks of the same size learn from the same sentences for a few seconds: one predicts masked words "
        "from both sides, one predicts each next word from the left. Then both predict every word of one text.",
        ("inference.side_by_side:predict_side_by_side", "train.pretraining.job:pretrain_small"),
        "Which of the two models has the lower loss on a text, and why?",
        _two_models,
        (text("text", "Sentence of the words that were learned", QUESTION),),
    ),
    Lesson(
        "slower-start",
        PART,
        APPLICATIONS,
        "Question: why does BERT converge more slowly?",
        "BERT converges more slowly, and why",
        "A masked language model predicts 15% of its input tokens, a causal one all of them. The lesson counts them "
        "in the batches of both objectives for the same text.",
        ("objectives.causal:NextTokenPrediction.batch", "objectives.masked:Masker.select"),
        "Why does BERT converge more slowly, and yet end up better?",
        _answers,
        (number("rate", "Masking probability", 0.15, 0.02, 0.9, 0.01),),
    ),
)
