"""Synthetic facts about fictional people and places, and constant facts.

A fact is a sentence with slots and the questions that it answers. The slots are filled at random with synthetic names,
so a model has to classify unknown names by their context. The activities of each trade are constant, so there are also
facts to learn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from string import Formatter
from typing import NamedTuple

from made_names import date, person, place

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
