"""Readers from both sides and writers from the left: what each sees, and what each learns from a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..lesson import APPLICATIONS, Lesson
from ..sheet import tiny

if TYPE_CHECKING:
    from ..sheet import Sheet

PART = "Pre-training"
TEXT = "the animal did not cross the street because it was too tired to go on walking that day"


def _sides(sheet: Sheet) -> None:
    from ...data.batch import Batch
    from ...train.report import Grid
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(TEXT)
    ids = tokenizer(TEXT).ids
    place = 8  # "it" would follow "because"; what is to be guessed there
    moved: dict[str, tuple[float, float]] = {}
    causal: dict[str, Any] = {"attention": "causal", "type_vocab_size": 0, "pooler": False}
    for name, head, switches in (("BERT", "mlm", {}), ("GPT-2", "clm", causal)):
        model = small_network(tokenizer.vocab_size, head, **switches)

        def guess(row: list[int], model: Any = model, name: str = name) -> Any:
            read = place if name == "BERT" else place - 1  # GPT-2 guesses at the token before
            hidden = model.encode(Batch.from_sequences([row])).hidden[read : read + 1]
            return model.mlm_logits(hidden).softmax(dim=-1).detach()

        masked = tokenizer(TEXT.replace("because", "[MASK]")).ids
        hidden_ids = masked if name == "BERT" else list(ids)
        earlier, later = list(hidden_ids), list(hidden_ids)
        earlier[place - 2], later[place + 2] = ids[2], ids[2]
        before = guess(hidden_ids)
        moved[name] = (float((guess(earlier) - before).abs().sum()), float((guess(later) - before).abs().sum()))
    sheet.holds(
        "BERT: P(x[MASK] | X), an earlier word changes",
        "both sides",
        f"the guess moves by {moved['BERT'][0]:.3f}",
        moved["BERT"][0] > 1e-4,
    )
    sheet.holds("BERT: a later word changes", "both sides", f"moves by {moved['BERT'][1]:.3f}", moved["BERT"][1] > 1e-4)
    sheet.holds(
        "GPT-2: P(y_i | y_<i), an earlier word changes",
        "the left side",
        f"moves by {moved['GPT-2'][0]:.3f}",
        moved["GPT-2"][0] > 1e-4,
    )
    sheet.holds(
        "GPT-2: a later word changes", "nothing", f"moves by {tiny(moved['GPT-2'][1])}", moved["GPT-2"][1] < 1e-6
    )
    words = [f"{n}" for n in range(1, 7)]
    for name, switches in (("BERT", {}), ("GPT-2", causal)):
        model = small_network(tokenizer.vocab_size, None, **switches)
        weights = model.encode(Batch.from_sequences([ids[:6]]), attentions=True).attentions
        assert weights is not None
        shown = [[one if one > 0 else None for one in row] for row in weights[0][0][0].tolist()]
        sheet.show(Grid(words, words, shown, f"Who sees whom: {name}"))
    sheet.answer(
        f"It would see the answer. A changed later word moves BERT's guess by {moved['BERT'][1]:.3f}, so the word "
        "itself must be hidden from its input; GPT-2 needs no mask token because a guess never sees what it is to "
        "say."
    )


def _answers(sheet: Sheet) -> None:
    import numpy as np

    from ...core.randomness import generator
    from ...data.in_memory import TextsInMemory
    from ...objectives.causal import NextTokenPrediction
    from ...objectives.masking import Masker
    from ...objectives.pretraining import MaskedLanguageModelling, Recipe
    from ...objectives.segments import Example
    from ...train.report import Chart, Curves, Series

    rng = generator(0, "lesson text")
    texts = TextsInMemory([[rng.integers(5, 900, 126).tolist()] for _ in range(60)])
    recipe = Recipe(2, 3, Masker(4, frozenset(range(5)), 900), 128)
    examples = [Example(number, 0, 126) for number in range(60)]
    share = {}
    for name, objective in (
        ("masked", MaskedLanguageModelling(recipe)),
        ("left to right", NextTokenPrediction(recipe)),
    ):
        batch = objective.batch(texts, examples, generator(0, "lesson masks"))
        share[name] = objective.counts(batch)[objective.words] / batch.num_tokens
    sheet.near("words to guess of all that are read: masked", 0.15, share["masked"], 0.01, digits=3)
    sheet.holds("left to right", "every word", f"{share['left to right']:.3f}", share["left to right"] > 0.98)
    ratio = share["left to right"] / share["masked"]
    sheet.near("answers in a step: left to right to masked", 1 / 0.15, ratio, 0.35, digits=1)
    steps = np.arange(0, 5001, 500).tolist()
    lines = [
        Series(name, steps, [part * 16 * 128 * step / 1e6 for step in steps], smooth=False)
        for name, part in share.items()
    ]
    sheet.show(Curves([Chart("Answers seen, millions, at 16 texts of 128 tokens a step", lines)], title=""))
    sheet.answer(
        f"Because of the answers: a left-to-right model gets {ratio:.1f} times as many from the same text. With whole "
        "runs at equal tokens (docs/ablations.md, three seeds) it is ahead at every checkpoint up to 3,000 steps, "
        "and the masked model, which sees both sides, from 3,500 on."
    )


LESSONS = (
    Lesson(
        "both-sides",
        PART,
        APPLICATIONS,
        "BERT vs. GPT-2",
        "One reads both sides, one only the left",
        "The same sentence through a masked and a left-to-right network. Which words may change a guess shows what "
        "each of them conditions on.",
        ("nn.attention:hide_later",),
        "What would happen if BERT's input were not masked?",
        _sides,
    ),
    Lesson(
        "slower-start",
        PART,
        APPLICATIONS,
        "Question: why does BERT converge more slowly?",
        "BERT converges more slowly, and why",
        "A masked model guesses 15 % of what it reads, a left-to-right model all of it. Counted on the batches of both "
        "objectives for the same text.",
        ("objectives.causal:NextTokenPrediction.batch", "objectives.masking:Masker.select"),
        "Why does BERT converge more slowly, and yet end up better?",
        _answers,
    ),
)
