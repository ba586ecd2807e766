"""How tags spell entities: B-PER I-PER (BIO), with ends and single words of their own (BIOES, also spelt BILOU), or
I-PER alone (IO).

`spans` reads tags as conlleval and seqeval's default mode do, `strict_spans` as seqeval's strict mode: there, an entity
that is not spelt as its scheme says is none (Ramshaw & Marcus 1995; Tjong Kim Sang & Veenstra 1999).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

OUTSIDE = "O"
SCHEMES = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU", "IO": "I"}
_LETTERS = {  # of the first word of an entity, those between, the last, and an only one
    "BIO": ("B", "I", "I", "B"),
    "BIOES": ("B", "I", "E", "S"),
    "BILOU": ("B", "I", "L", "U"),
    "IO": ("I", "I", "I", "I"),
}
_PLAIN = {"L": "E", "U": "S"}  # BILOU's letters, in those of BIOES
_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)


class Entity(NamedTuple):
    """Words `start` to `end` (exclusive) are one thing of this type."""

    type: str
    start: int
    end: int


def split_tag(tag: str) -> tuple[str, str]:
    """(prefix, type) of a tag, BILOU's letters as those of BIOES; ("O", "") for O and whatever has no prefix."""
    found = _TAG.fullmatch(tag)
    return (_PLAIN.get(found[1], found[1]), found[2]) if found else (OUTSIDE, "")


def find_scheme(tags: Iterable[str]) -> str | None:
    """The scheme in which tags are spelt, a name of SCHEMES; None for tags that are names by themselves, as of words.

    Tags have a scheme when there is an O or a B- among them and most others have a prefix.
    """
    different = set(tags)
    found = [match for tag in different if (match := _TAG.fullmatch(tag))]
    prefixes = {match[1] for match in found}
    others = len(different - {OUTSIDE}) - len(found)
    if not found or others >= len(found) or not (OUTSIDE in different or "B" in prefixes):
        return None
    if prefixes & set("LU") and not prefixes & set("ES"):
        return "BILOU"
    if prefixes & set("ESLU"):
        return "BIOES"
    return "BIO" if "B" in prefixes else "IO"


def scheme_tags(scheme: str, types: Iterable[str]) -> list[str]:
    """Every tag of a scheme over entity types, O first."""
    return [OUTSIDE, *(f"{prefix}-{type}" for type in sorted(set(types)) for prefix in SCHEMES[scheme])]


def spans(tags: Sequence[str]) -> list[Entity]:
    """The entities, however they are spelt: neighbours of one type, unless a prefix begins or ends one between."""
    found: list[Entity] = []
    start = 0
    before = (OUTSIDE, "")
    for place, tag in enumerate([*tags, OUTSIDE]):
        now = split_tag(tag)
        breaks = before[1] != now[1] or now[0] in "BS" or before[0] in "ES" or now[0] == OUTSIDE
        if breaks:
            if before[0] != OUTSIDE:
                found.append(Entity(before[1], start, place))
            start = place
        before = now
    return found


def strict_spans(tags: Sequence[str], scheme: str) -> list[Entity]:
    """The entities that are spelt as the scheme says; what is not is no entity."""
    if scheme == "IO":
        return spans(tags)
    has_ends = scheme != "BIO"
    pairs = [*map(split_tag, tags), (OUTSIDE, "")]
    found = []
    for start, (prefix, type) in enumerate(pairs):
        end = start + 1
        if prefix == "B":
            while pairs[end] == ("I", type):
                end += 1
            if has_ends:
                if pairs[end] != ("E", type):
                    continue
                end += 1
        elif prefix != "S" or not has_ends:
            continue
        found.append(Entity(type, start, end))
    return found


def spell(entities: Iterable[Entity], length: int, scheme: str) -> list[str]:
    """Tags of `length` words in which these entities stand, as the scheme spells them."""
    tags = [OUTSIDE] * length
    begin, inside, end, single = _LETTERS[scheme]
    for type, start, stop in entities:
        tags[start:stop] = [f"{inside}-{type}"] * (stop - start)
        tags[stop - 1] = f"{end}-{type}"
        tags[start] = f"{single if stop - start == 1 else begin}-{type}"
    return tags


def repair(tags: Sequence[str], scheme: str) -> tuple[list[str], int]:
    """The same entities, spelt as the scheme says, and how many tags that changed: (O I-PER) is (O B-PER)."""
    mended = spell(spans(tags), len(tags), scheme)
    return mended, sum(old != new for old, new in zip(tags, mended, strict=True))


@dataclass(frozen=True)
class Agreement:
    """Entities of the gold tags, of the answers, and in both."""

    gold: int = 0
    found: int = 0
    both: int = 0

    @property
    def precision(self) -> float:
        """Share of the found ones that are right; 0 where none is found."""
        return self.both / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold ones that are found; 0 where there is none."""
        return self.both / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        return 2 * self.both / (self.gold + self.found) if self.gold + self.found else 0.0


def agreement(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], read: Callable[[Sequence[str]], list[Entity]]
) -> dict[str, Agreement]:
    """How far answers agree with gold tags, sentence by sentence: by entity type, and over all under "".

    read: `spans`, or `strict_spans` of a scheme. An entity is right when type, start and end are.
    """
    counts: dict[str, list[int]] = {"": [0, 0, 0]}
    for truth, guess in zip(gold, predicted, strict=True):
        known, found = set(read(truth)), set(read(guess))
        for column, entities in enumerate((known, found, known & found)):
            for entity in entities:
                counts.setdefault(entity.type, [0, 0, 0])[column] += 1
                counts[""][column] += 1
    return {type: Agreement(*numbers) for type, numbers in counts.items()}
