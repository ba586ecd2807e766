"""Synthetic names of people and places, composed of syllables."""

from __future__ import annotations

import random

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
