"""Tagging schemes for entities: BIO (B-PER I-PER), BIOES or BILOU (with end and single-word tags), and IO (I-PER).

`spans` decodes tags like conlleval and the default mode of seqeval, `strict_spans` like the strict mode of seqeval,
which ignores entities that are invalid in the scheme (Ramshaw & Marcus 1995; Tjong Kim Sang & Veenstra 1999).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

OUTSIDE = "O"
SCHEMES = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU", "IO": "I"}
_LETTERS = {  # first word of an entity, inner words, last word, single word
    "BIO": ("B", "I", "I", "B"),
    "BIOES": ("B", "I", "E", "S"),
    "BILOU": ("B", "I", "L", "U"),
    "IO": ("I", "I", "I", "I"),
}
_PLAIN = {"L": "E", "U": "S"}  # BILOU -> BIOES
_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)


class Entity(NamedTuple):
    """An entity of a type: words `start` to `end` (exclusive)."""

    type: str
    start: int
    end: int


def split_tag(tag: str) -> tuple[str, str]:
    """Splits a tag into (prefix, type), BILOU prefixes as BIOES; ("O", "") for O and tags without a prefix."""
    found = _TAG.fullmatch(tag)
    return (_PLAIN.get(found[1], found[1]), found[2]) if found else (OUTSIDE, "")


def find_scheme(tags: Iterable[str]) -> str | None:
    """Detects the tagging scheme, a name of SCHEMES; None for plain tags such as parts of speech.

    Tags have a scheme if they include O or B- and most others have a prefix.
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
    """All tags of a scheme for the entity types, O first."""
    return [OUTSIDE, *(f"{prefix}-{type}" for type in sorted(set(types)) for prefix in SCHEMES[scheme])]


def spans(tags: Sequence[str]) -> list[Entity]:
    """Decodes entities leniently: neighbors of one type, unless a prefix begins or ends an entity between them."""
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
    """Decodes only the entities whose tags are valid in the scheme."""
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


def encode_tags(entities: Iterable[Entity], length: int, scheme: str) -> list[str]:
    """Encodes entities as the tags of `length` words in the scheme."""
    tags = [OUTSIDE] * length
    begin, inside, end, single = _LETTERS[scheme]
    for type, start, stop in entities:
        tags[start:stop] = [f"{inside}-{type}"] * (stop - start)
        tags[stop - 1] = f"{end}-{type}"
        tags[start] = f"{single if stop - start == 1 else begin}-{type}"
    return tags


def repair(tags: Sequence[str], scheme: str) -> tuple[list[str], int]:
    """Re-encodes the same entities with valid tags, (O I-PER) as (O B-PER); returns them and the number of changes."""
    repaired = encode_tags(spans(tags), len(tags), scheme)
    return repaired, sum(old != new for old, new in zip(tags, repaired, strict=True))


@dataclass(frozen=True)
class Agreement:
    """Number of gold entities, predicted entities, and correct predictions."""

    gold: int = 0
    found: int = 0
    both: int = 0

    @property
    def precision(self) -> float:
        """Correct predictions / predicted entities; 0 if nothing is predicted."""
        return self.both / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Correct predictions / gold entities; 0 if there are none."""
        return self.both / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.both / (self.gold + self.found) if self.gold + self.found else 0.0


def agreement(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], read: Callable[[Sequence[str]], list[Entity]]
) -> dict[str, Agreement]:
    """Compares predicted with gold entities: by entity type, and in total under "".

    read: `spans`, or `strict_spans` of a scheme. An entity is correct if type, start and end match.
    """
    counts: dict[str, list[int]] = {"": [0, 0, 0]}
    for truth, guess in zip(gold, predicted, strict=True):
        known, found = set(read(truth)), set(read(guess))
        for column, entities in enumerate((known, found, known & found)):
            for entity in entities:
                counts.setdefault(entity.type, [0, 0, 0])[column] += 1
                counts[""][column] += 1
    return {type: Agreement(*numbers) for type, numbers in counts.items()}
