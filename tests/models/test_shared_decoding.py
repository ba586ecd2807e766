"""Texts that share their steps are the texts that each decoder gives alone."""

from __future__ import annotations

import pytest
import torch

from maskwright.inference.generate import Generation, TextGenerator
from maskwright.models.decoding.causal import CausalDecoder
from maskwright.models.decoding.rules import Rules
from studio.models import write_writer

GREEDY, DRAWN = Rules(greedy=True), Rules(temperature=0.9, top_k=20, repetition_penalty=1.2)
PROMPTS = ["the cat", "where does the river rise ?", "a", "ada lovelace met", "dogs chase cats in the garden"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small causal model."""
    from maskwright.api import open_model

    return open_model(write_writer(tmp_path_factory.mktemp("models") / "writer"), "generate", "cpu", "fp32")


def settings_of(number: int) -> Generation:
    """Other lengths, rules and seeds for each text; some have several results."""
    rules = DRAWN if number % 2 else GREEDY
    count = 3 if number == 3 else 1
    return Generation(max_new_tokens=5 + 37 * (number % 3), rules=rules, num_results=count, seed=number)


def together(generator: TextGenerator, starts: dict[int, list[int]], leaving: dict[int, int] | None = None) -> dict:
    """Give each text a step in turn. starts: texts that begin before a round; leaving: round in which it ends."""
    live, found, number = {}, {}, 0
    while live or any(one >= number for one in starts):
        for one in starts.get(number, []):
            live[one] = generator.generate_steps([PROMPTS[one]], settings_of(one))
        for one in list(live):
            if (leaving or {}).get(one) == number:
                live.pop(one).close()
                continue
            try:
                with torch.inference_mode():
                    next(live[one])
            except StopIteration as end:
                found[one] = end.value
                del live[one]
        number += 1
    return found


def alone(model, number: int):
    return TextGenerator(model, max_length=48).generate([PROMPTS[number]], settings_of(number))


@pytest.mark.parametrize(
    "starts", [{0: [0, 1, 2, 3, 4]}, {0: [3], 2: [0, 1], 7: [4], 30: [2]}, {0: [4], 60: [1], 61: [0, 3]}]
)
def test_texts_join_and_leave_between_steps(model, starts):
    """Windows of 48 tokens are full and begin again in between."""
    generator = TextGenerator(model, max_length=48, shares_steps=True)
    found = together(generator, starts)
    assert sorted(found) == sorted(one for ones in starts.values() for one in ones)
    for number, texts in found.items():
        assert [one.text for one in texts[0]] == [one.text for one in alone(model, number)[0]], number
        for one, other in zip(texts[0], alone(model, number)[0], strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-3) and one.ended_by == other.ended_by


def test_five_texts_take_the_steps_of_one(model, monkeypatch):
    calls = []
    own = CausalDecoder.step
    monkeypatch.setattr(CausalDecoder, "step", lambda self, tokens: calls.append(len(tokens)) or own(self, tokens))
    settings = Generation(max_new_tokens=10, rules=GREEDY)
    generator = TextGenerator(model, shares_steps=True)
    live = [generator.generate_steps([prompt], settings) for prompt in PROMPTS]
    while live:
        for one in list(live):
            try:
                next(one)
            except StopIteration:
                live.remove(one)
    assert sum(calls) == len(PROMPTS) * 9 and len(calls) == 9


def test_an_error_reaches_each_text_once(model, monkeypatch):
    generator = TextGenerator(model, shares_steps=True)
    live = [generator.generate_steps([prompt], Generation(max_new_tokens=5)) for prompt in PROMPTS[:3]]
    for one in live:
        next(one)

    def fail(self, tokens):
        raise MemoryError

    with monkeypatch.context() as changed:
        changed.setattr(CausalDecoder, "step", fail)
        for one in live:
            with pytest.raises(MemoryError):
                next(one)
    assert generator.generate(["the cat"], Generation(max_new_tokens=3, rules=GREEDY))[0][0].num_tokens == 3
