"""Training files of the small models: synthetic facts about fictional people and places, and constant facts.

A fact is a sentence with slots and the questions that it answers. The slots are filled at random with synthetic names,
so a model has to classify unknown names by their context. The activities of each trade are constant, so there are also
facts to learn.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from string import Formatter
from typing import NamedTuple

FIRST_NAMES = """
Ada Anna Arno Bela Bruno Carla Clara Dario David Edith Elena Emil Eva Felix Flora Greta Hanna Hugo Ida Ines Ivan Jonas
Julia Karl Klara Laura Lea Leo Lena Linus Lisa Marie Marta Max Mila Nina Noah Nora Olga Oskar Paul Petra Rosa Ruth Sara
Simon Sofia Theo Tilda Ulla Vera Viktor Walter Wanda Zoe Charles George Mary
""".split()  # noqa: SIM905
SYLLABLES = """
an ar bal ban ber bo bri cor dal dan del do dra el en fal fer gar gol hal han in ja kar kel ko lan lin lo lor ma man mar
mel mi mo nar nel no or pa pel ran ri rol ros sal sel si sol ta tal ter ti tor ul val ven vi vol win za
""".split()  # noqa: SIM905
FIRST_ENDS = ["a", "o", "us", ""]
SURNAME_ENDS = ["son", "man", "berg", "ski", "ov", "ez", "er", "ini", "sen", "ley", "ace", "y", "e", "ett", "", ""]
PLACE_ENDS = ["burg", "ton", "ville", "stad", "ford", "mouth", "ia", "ovo", "dorf", "field", "don", "is"]
MONTHS = """
January February March April May June July August September October November December
""".split()  # noqa: SIM905
VEHICLES = ("train", "ship", "bus", "boat", "plane", "bicycle")
# trade: what its people do
TRADES = {
    "baker": "bakes bread",
    "fisher": "catches fish",
    "farmer": "grows wheat",
    "teacher": "teaches children",
    "doctor": "heals patients",
    "carpenter": "builds chairs",
    "tailor": "sews coats",
    "gardener": "plants roses",
    "potter": "shapes bowls",
    "beekeeper": "collects honey",
    "painter": "paints pictures",
    "pilot": "flies planes",
    "clockmaker": "repairs clocks",
    "librarian": "lends books",
}
KINDS = {
    "person": "PER",
    "other": "PER",
    "place": "LOC",
    "goal": "LOC",
    "country": "LOC",
    "river": "LOC",
    "range": "LOC",
    "date": "DATE",
}


class Named(NamedTuple):
    """Characters start to end of a sentence, and what they are: the slot that they filled."""

    start: int
    end: int
    slot: str


@dataclass(frozen=True)
class Fact:
    """A topic, a sentence with slots, and questions that it answers: question -> the slot of the answer."""

    topic: str
    sentence: str
    questions: dict[str, str]


@dataclass(frozen=True)
class StatedFact:
    """A fact with filled slots. text: the sentence; named: the spans of the names; values: slot -> text."""

    fact: Fact
    values: dict[str, str]
    text: str
    named: tuple[Named, ...]


FACTS = (
    Fact(
        "home", "{person} lives in {place}.", {"Where does {person} live?": "place", "Who lives in {place}?": "person"}
    ),
    Fact(
        "home",
        "{person} was born in {place} in {date}.",
        {"Where was {person} born?": "place", "When was {person} born?": "date", "Who was born in {place}?": "person"},
    ),
    Fact(
        "meeting",
        "{person} met {other} in {place} in {date}.",
        {
            "Where did {person} meet {other}?": "place",
            "When did {person} meet {other}?": "date",
            "Who met {other} in {place}?": "person",
            "Whom did {person} meet in {place}?": "other",
        },
    ),
    Fact(
        "meeting",
        "In {date} {person} wrote a letter to {other}.",
        {
            "Who wrote a letter to {other}?": "person",
            "To whom did {person} write a letter?": "other",
            "When did {person} write a letter?": "date",
        },
    ),
    Fact(
        "travel",
        "{person} traveled from {place} to {goal} by {vehicle}.",
        {
            "Where did {person} travel to?": "goal",
            "How did {person} travel?": "vehicle",
            "Who traveled to {goal}?": "person",
        },
    ),
    Fact(
        "travel",
        "In {date} {person} went to {place} by {vehicle}.",
        {
            "Where did {person} go?": "place",
            "When did {person} go to {place}?": "date",
            "Who went to {place}?": "person",
        },
    ),
    Fact(
        "work",
        "{person} is a {trade} and {does}.",
        {"What does {person} do?": "does", "Who is a {trade}?": "person", "Who {does}?": "person"},
    ),
    Fact(
        "work",
        "{person} works as a {trade} in {place}.",
        {"Where does {person} work?": "place", "Who works in {place}?": "person", "Who works as a {trade}?": "person"},
    ),
    Fact(
        "river",
        "The {river} is the longest river of {country}.",
        {"What is the longest river of {country}?": "river"},
    ),
    Fact(
        "river",
        "The {river} rises in the mountains of {range} and flows to {goal}.",
        {"Where does the {river} rise?": "range", "Where does the {river} flow to?": "goal"},
    ),
)
# What is always so: few names, much to know.
LORE = (
    "{when} the {trade} {does}.",
    "The {kind} {trade} {does}.",
    "A {trade} {does} for the people of {town}.",
    "After the rain the water of the river was {wet}.",
    "In the dry summer the water of the river was {dry}.",
    "Who {does}? The {trade} {does}.",
    "{who} sat down on the bank of the river.",
    "The boat was tied to the {soft} bank.",
    "{who} walked along the {soft} bank at {hour}.",
    "{who} opened an account at the bank.",
    "The bank {moved} its interest rates.",
    "{who} took {money} from the bank.",
)
WORDS = {
    "when": ("Every morning", "Every evening", "Every day", "In the summer", "On Monday"),
    "kind": ("old", "young", "tall"),
    "wet": ("high", "brown", "cold", "deep"),
    "dry": ("low", "warm", "clear"),
    "who": ("He", "She", "They", "The old man", "The young woman", "The child"),
    "soft": ("muddy", "grassy", "green", "sandy"),
    "hour": ("dawn", "noon", "night"),
    "moved": ("raised", "lowered"),
    "money": ("money", "all the money", "a loan", "much money"),
}


def state_fact(draw: random.Random, fact: Fact, who: str | None = None) -> StatedFact:
    """A fact with its slots filled; who: the person that it is about."""
    slots = [slot for _, slot, _, _ in Formatter().parse(fact.sentence) if slot]
    values = {slot: FILLERS[slot](draw) for slot in slots if slot != "does"}
    if who is not None and "person" in values:
        values["person"] = who
    if "does" in slots:
        values["does"] = TRADES[values["trade"]]
    text, named = "", []
    for before, slot, _, _ in Formatter().parse(fact.sentence):
        text += before
        if slot:
            named.append(Named(len(text), len(text) + len(values[slot]), slot))
            text += values[slot]
    return StatedFact(fact, values, text, tuple(named))


def lore(draw: random.Random) -> str:
    """A sentence of what is always so."""
    trade = draw.choice(list(TRADES))
    words = {slot: draw.choice(choices) for slot, choices in WORDS.items()}
    return draw.choice(LORE).format(trade=trade, does=TRADES[trade], town=place(draw), **words)


def made_name(draw: random.Random, ends: list[str]) -> str:
    """A name of one or two syllables and an end."""
    return ("".join(draw.choices(SYLLABLES, k=draw.choice((1, 1, 2)))) + draw.choice(ends)).capitalize()


def person(draw: random.Random) -> str:
    """A first name, half of the time one that nobody has, and a surname."""
    first = draw.choice(FIRST_NAMES) if draw.random() < 0.5 else made_name(draw, FIRST_ENDS)
    return f"{first} {made_name(draw, SURNAME_ENDS)}"


def place(draw: random.Random) -> str:
    """A town or a country."""
    return made_name(draw, PLACE_ENDS)


def date(draw: random.Random) -> str:
    """A month and a year, or the year alone."""
    year = draw.randint(1700, 2029)
    return f"{draw.choice(MONTHS)} {year}" if draw.random() < 0.6 else str(year)


FILLERS: dict[str, Callable[[random.Random], str]] = {
    "person": person,
    "other": person,
    "place": place,
    "goal": place,
    "country": place,
    "river": place,
    "range": place,
    "date": date,
    "vehicle": lambda draw: draw.choice(VEHICLES),
    "trade": lambda draw: draw.choice(list(TRADES)),
}
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
