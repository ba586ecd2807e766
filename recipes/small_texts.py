"""Training files of the small models: stories, tagged sentences, questions, topics."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from made_names import person
from small_world import FACTS, KINDS, Named, StatedFact, lore, state_fact

Lines = Callable[[random.Random, int], Iterator[str]]


def split(ending: str, lines: Lines, count: int, num_dev: int = 200) -> Callable[[random.Random], dict[str, str]]:
    """What writes train.ENDING with `count` rows and dev.ENDING with others: file name -> content."""

    def texts(draw: random.Random) -> dict[str, str]:
        return {f"{part}.{ending}": "".join(lines(draw, rows)) for part, rows in (("train", count), ("dev", num_dev))}

    return texts


def story(draw: random.Random) -> list[StatedFact]:
    """One or two facts, mostly about one person."""
    about = person(draw)
    facts = draw.sample(FACTS, draw.randint(1, 2))
    return [state_fact(draw, fact, about if draw.random() < 0.7 else None) for fact in facts]


def stories(draw: random.Random) -> dict[str, str]:
    """The corpus: documents of stories with constant facts, one sentence per line."""
    documents = []
    for _ in range(4000):
        sentences = [stated.text for stated in story(draw)] + [lore(draw) for _ in range(3)]
        draw.shuffle(sentences)
        documents.append("\n".join(sentences) + "\n")
    return {"corpus.txt": "\n".join(documents)}


def tagged(draw: random.Random, count: int) -> Iterator[str]:
    """One word and its tag per line, a blank line after each story: people, places and dates, tagged B- and I-."""
    for _ in range(count):
        words = [word for stated in story(draw) for word in _tagged_words(stated)]
        yield "".join(f"{word}\t{tag}\n" for word, tag in words) + "\n"


def _tagged_words(stated: StatedFact) -> Iterator[tuple[str, str]]:
    end = 0
    for start, stop, slot in (*stated.named, Named(len(stated.text), len(stated.text), "")):
        yield from ((word, "O") for word in _words(stated.text[end:start]))
        kind = KINDS.get(slot)
        for index, word in enumerate(_words(stated.text[start:stop])):
            yield word, f"{'I' if index else 'B'}-{kind}" if kind else "O"
        end = stop


def _words(text: str) -> list[str]:
    return text.replace(".", " .").split()


def questions(draw: random.Random, count: int) -> Iterator[str]:
    """Questions on stories; of every fifth the story says nothing."""
    for number in range(count):
        facts = draw.sample(FACTS, draw.randint(2, 4))
        people = [person(draw) for _ in facts]
        stories = [state_fact(draw, fact, who) for fact, who in zip(facts, people, strict=True)]
        asked = draw.choice(stories)
        if number % 5 == 0:
            stories.remove(asked)
        context = " ".join(one.text for one in stories)
        question, slot = draw.choice(list(asked.fact.questions.items()))
        answers = []
        if asked in stories:
            start = context.index(asked.text) + next(one.start for one in asked.named if one.slot == slot)
            answers = [{"text": asked.values[slot], "answer_start": start}]
        row = {"id": str(number), "question": question.format(**asked.values), "context": context, "answers": answers}
        yield json.dumps(row) + "\n"


def topics(draw: random.Random, count: int) -> Iterator[str]:
    """Sentences with what they are about."""
    for _ in range(count):
        stated = state_fact(draw, draw.choice(FACTS))
        yield json.dumps({"text": stated.text, "label": stated.fact.topic}) + "\n"
