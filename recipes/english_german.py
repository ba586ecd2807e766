"""Synthetic pairs for a small translation model: English sentences and their German translations with the verb at the
end.

"Yesterday the old fisher sold the red boat at the lake." is "Gestern hat der alte Fischer am See das rote Boot
verkauft.": the verb is last, the place precedes the object, and articles and adjectives mark subject and object. There
are far more such sentences than training pairs, so a correct translation is not memorized.
"""

from __future__ import annotations

import random

# English: German and its article in the nominative; in the accusative only "der" becomes "den".
WHO = {
    "fisher": "der Fischer",
    "teacher": "der Lehrer",
    "gardener": "der Gärtner",
    "cook": "der Koch",
    "king": "der König",
    "dog": "der Hund",
    "bird": "der Vogel",
    "woman": "die Frau",
    "queen": "die Königin",
    "cat": "die Katze",
    "cow": "die Kuh",
    "child": "das Kind",
    "girl": "das Mädchen",
    "horse": "das Pferd",
}
WHAT = {
    "letter": "der Brief",
    "apple": "der Apfel",
    "table": "der Tisch",
    "key": "der Schlüssel",
    "ball": "der Ball",
    "flower": "die Blume",
    "lamp": "die Lampe",
    "bag": "die Tasche",
    "clock": "die Uhr",
    "book": "das Buch",
    "boat": "das Boot",
    "bread": "das Brot",
    "picture": "das Bild",
    "bicycle": "das Fahrrad",
}
HOW = {"old": "alt", "small": "klein", "big": "groß"}
HOW_WHO = HOW | {"young": "jung", "hungry": "hungrig", "tired": "müde"}
HOW_WHAT = HOW | {"new": "neu", "red": "rot", "green": "grün", "white": "weiß"}
# English with adverb of time; German participle and infinitive. Done to things, or to anyone.
DONE = {
    ("sell", "sold"): ("verkauft", "verkaufen"),
    ("buy", "bought"): ("gekauft", "kaufen"),
    ("paint", "painted"): ("gemalt", "malen"),
    ("bring", "brought"): ("gebracht", "bringen"),
    ("carry", "carried"): ("getragen", "tragen"),
    ("lose", "lost"): ("verloren", "verlieren"),
}
DONE_TO_ANYONE = {
    ("see", "saw"): ("gesehen", "sehen"),
    ("find", "found"): ("gefunden", "finden"),
    ("look for", "looked for"): ("gesucht", "suchen"),
    ("forget", "forgot"): ("vergessen", "vergessen"),
}
WHERE = {
    "at the lake": "am See",
    "at the river": "am Fluss",
    "in the garden": "im Garten",
    "in the village": "im Dorf",
    "in the city": "in der Stadt",
    "in the kitchen": "in der Küche",
    "at the market": "auf dem Markt",
}
PAST = {"yesterday": "gestern", "today": "heute", "in the morning": "am Morgen"}
FUTURE = {"tomorrow": "morgen", "soon": "bald", "today": "heute"}


def pairs(draw: random.Random) -> dict[str, str]:
    """Line-aligned files of both languages: file name -> content."""
    files = {}
    for part, count in (("train", 6000), ("dev", 200)):
        rows = [pair(draw) for _ in range(count)]
        for place, language in enumerate(("en", "de")):
            files[f"{part}.{language}.txt"] = "".join(row[place] + "\n" for row in rows)
    return files


def pair(draw: random.Random) -> tuple[str, str]:
    """One sentence: past or future, the time in front or not, a place or none."""
    who, der_who = _noun(draw, WHO, HOW_WHO)
    if draw.random() < 0.4:
        what, den_what = _noun(draw, WHO, HOW_WHO, accusative=True)
        done = DONE_TO_ANYONE
    else:
        what, den_what = _noun(draw, WHAT, HOW_WHAT, accusative=True)
        done = DONE | DONE_TO_ANYONE
    (do, did), (participle, infinitive) = draw.choice(list(done.items()))
    is_past = draw.random() < 0.6
    time, zeit = draw.choice(list((PAST if is_past else FUTURE).items()))
    where, wo = draw.choice(list(WHERE.items())) if draw.random() < 0.6 else ("", "")
    doing = did if is_past else f"will {do}"
    hat, end = ("hat", participle) if is_past else ("wird", infinitive)
    if draw.random() < 0.5:
        return _sentence(time, who, doing, what, where), _sentence(zeit, hat, der_who, wo, den_what, end)
    return _sentence(who, doing, what, where, time), _sentence(der_who, hat, zeit, wo, den_what, end)


def _noun(
    draw: random.Random, nouns: dict[str, str], adjectives: dict[str, str], accusative: bool = False
) -> tuple[str, str]:
    """A noun with its article and perhaps an adjective, in both languages."""
    english, german = draw.choice(list(nouns.items()))
    article, noun = german.split()
    is_den = accusative and article == "der"
    article = "den" if is_den else article
    if draw.random() < 0.4:
        return f"the {english}", f"{article} {noun}"
    how, wie = draw.choice(list(adjectives.items()))
    return f"the {how} {english}", f"{article} {wie.removesuffix('e')}{'en' if is_den else 'e'} {noun}"


def _sentence(*parts: str) -> str:
    text = " ".join(part for part in parts if part)
    return text[0].upper() + text[1:] + "."
