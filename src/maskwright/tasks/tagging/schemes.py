"""Tagging schemes for entities, and the ways in which files write their tags.

A scheme marks the first word of an entity, B-PER I-PER (BIO), also its last and single words (BIOES, BILOU, BMEWO,
BMES), none of them (IO), or the first only where entities of one type touch (IOB1; Ramshaw & Marcus 1995; Tjong Kim
Sang & Veenstra 1999). Files write these tags with the type last or first, in lower case, without types, or as types
alone; `Notation` reads and writes them. All functions here take tags as `Notation.read` returns them: O, and B-PER.

`spans` decodes tags like conlleval and the default mode of seqeval, `strict_spans` like the strict mode of seqeval,
which ignores entities that are invalid in the scheme.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...text.words import MISSING

OUTSIDE = "O"
SCHEMES = {  # prefixes of the first word of an entity, inner words, the last word, a single word
    "BIO": "BIIB",
    "BIOES": "BIES",
    "BILOU": "BILU",
    "BMEWO": "BMEW",
    "BMES": "BMES",
    "IO": "IIII",
    "IOB1": "BIII",  # B only after another entity of the type
}
UNTYPED = "ENT"  # type of the entities of tags without types
MISSING_TAGS = (MISSING, "-", "_")  # of words without annotation, where the other tags have a scheme
_PLAIN = {"L": "E", "U": "S", "M": "I", "W": "S"}  # prefixes of all schemes -> those of BIOES
_TAG = re.compile(r"([BIESLUMW])-(.+)", re.DOTALL)
_PREFIX = "([BIESLUMW])"


class Entity(NamedTuple):
    """An entity of a type: words `start` to `end` (exclusive)."""

    type: str
    start: int
    end: int


def split_tag(tag: str) -> tuple[str, str]:
    """Splits a tag into (prefix of BIOES, type); ("O", "") for O and tags without a prefix."""
    found = _TAG.fullmatch(tag)
    return (_PLAIN.get(found[1], found[1]), found[2]) if found else (OUTSIDE, "")


def scheme_tags(scheme: str, types: Iterable[str]) -> list[str]:
    """All tags of a scheme for the entity types, O first."""
    prefixes = dict.fromkeys(SCHEMES[scheme])
    return [OUTSIDE, *(f"{prefix}-{type}" for type in sorted(set(types)) for prefix in prefixes)]


# -- how files write tags ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """A way to write tags. type: where the type of an entity is: "first", "last", "alone", "none"."""

    type: str
    separator: str
    pattern: re.Pattern[str]


_FORMS = (
    *(_Form("last", mark, re.compile(f"{_PREFIX}{re.escape(mark)}(?P<type>.+)", re.I | re.S)) for mark in "-_:/|"),
    *(_Form("first", mark, re.compile(f"(?P<type>.+){re.escape(mark)}{_PREFIX}", re.I | re.S)) for mark in "-_:/|"),
    _Form("none", "", re.compile(_PREFIX, re.I)),
)
_TYPES_ALONE = _Form("alone", "", re.compile(r"(?P<type>.+)", re.S))


@dataclass(frozen=True)
class Notation:
    """The scheme of the tags of a file or a model (a name of SCHEMES), and how they are written.

    is_lower: whether prefixes are lower case; outside: how O is written.
    """

    scheme: str
    form: _Form
    is_lower: bool = False
    outside: str = OUTSIDE

    def read(self, tag: str) -> str | None:
        """Returns a tag as O, B-PER with the prefix of any scheme, or MISSING; None if it is none of these."""
        if tag in MISSING_TAGS:
            return MISSING
        if tag in (OUTSIDE, OUTSIDE.lower()):
            return OUTSIDE
        found = self.form.pattern.fullmatch(tag)
        if found is None:
            return None
        prefix = "I" if self.form is _TYPES_ALONE else found[1 if self.form.type != "first" else 2].upper()
        return f"{prefix}-{found['type'] if self.form.type != 'none' else UNTYPED}"

    def write(self, tag: str) -> str:
        """Returns a tag that `read` has returned as the file writes it."""
        if tag == OUTSIDE:
            return self.outside
        prefix, _, type = tag.partition("-")
        prefix = prefix.lower() if self.is_lower else prefix
        if self.form.type == "last":
            return prefix + self.form.separator + type
        if self.form.type == "first":
            return type + self.form.separator + prefix
        return prefix if self.form.type == "none" else type

    @property
    def description(self) -> str:
        """The scheme in words, with an example if the tags are not written as B-PER."""
        name = "IOB1, where entities begin with I-" if self.scheme == "IOB1" else self.scheme
        if self.form.type == "none":
            return f"{name} without types of entities"
        if self.form is _TYPES_ALONE:
            return f"{name}, types without prefixes"
        example = f"{SCHEMES[self.scheme][0]}-PER"
        written = self.write(example)
        return name if (written, self.outside) == (example, OUTSIDE) else f"{name}, written as {written}"


def find_notation(
    tags: Iterable[str], rows: Iterable[Sequence[str]] = (), scheme: str | None = None
) -> Notation | None:
    """Detects how tags are written; None for plain tags such as parts of speech.

    Tags are those of entities if O and a tag with B are among them, or if most of them have a prefix and O or B is
    among them. Without prefixes, they are types of entities if O is the most common tag, and most have several letters.
    rows: tags by sentence, to tell IOB1 from BIO; scheme: a known one, which decides what the tags leave open.
    """
    counts = Counter(tags)
    for mark in MISSING_TAGS:
        counts.pop(mark, None)
    upper, lower = (counts.pop(tag, 0) for tag in (OUTSIDE, OUTSIDE.lower()))
    matches = [{tag: match for tag in counts if (match := form.pattern.fullmatch(tag))} for form in _FORMS]
    best = max(range(len(_FORMS)), key=lambda index: len(matches[index]))  # the first of equal ones
    form, found = _FORMS[best], matches[best]
    written = {own[2 if form.type == "first" else 1] for own in found.values()}
    is_lower = bool(written) and all(prefix.islower() for prefix in written)
    outside = OUTSIDE.lower() if lower > upper or (is_lower and not upper) else OUTSIDE
    prefixes = {prefix.upper() for prefix in written}
    num_found = sum(counts[tag] for tag in found)
    has_most = num_found > sum(counts.values()) - num_found and ("B" in prefixes or upper + lower > 0)
    if form.type == "none" and "B" not in prefixes:
        has_most = prefixes == {"I"} and len(found) == len(counts)
    if has_most or ("B" in prefixes and upper + lower > 0):
        notation = Notation("BIO", form, is_lower, outside)
        return replace(notation, scheme=scheme or _scheme_of(prefixes, notation, rows))
    is_common = counts and upper + lower >= max(counts.values()) > 0
    is_long = scheme == "IO" or sum(len(tag) == 1 for tag in counts) * 2 < len(counts)
    if is_common and is_long and "B" not in prefixes and scheme in (None, "IO"):
        return Notation("IO", _TYPES_ALONE, False, outside)
    return None


def _scheme_of(prefixes: Collection[str], notation: Notation, rows: Iterable[Sequence[str]]) -> str:
    if {"M", "W"} & set(prefixes):
        return "BMEWO" if "W" in prefixes and "S" not in prefixes else "BMES"
    if {"E", "S", "L", "U"} & set(prefixes):
        return "BIOES" if {"E", "S"} & set(prefixes) else "BILOU"
    if "B" not in prefixes:
        return "IO"
    return "IOB1" if "I" in prefixes and _is_iob1(notation, rows) else "BIO"


def _is_iob1(notation: Notation, rows: Iterable[Sequence[str]]) -> bool:
    """Whether entities begin with I-, except those that follow one of their type."""
    read = Reading(notation)
    begins_inside = False
    for tags in rows:
        type_before = ""
        for tag in tags:
            prefix, type = split_tag(read[tag])
            if prefix == "B" and type != type_before:
                return False
            begins_inside |= prefix == "I" and type != type_before
            type_before = type
    return begins_inside


class Reading(dict[str, str]):
    """Tag -> `Notation.read` of it; the tag itself if it fits not."""

    def __init__(self, notation: Notation) -> None:
        self.notation = notation

    def __missing__(self, tag: str) -> str:
        read = self.notation.read(tag)
        self[tag] = tag if read is None else read
        return self[tag]


# -- entities ----------------------------------------------------------------------------------------------


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
    if scheme in ("IO", "IOB1"):
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
    """Encodes entities, in order, as the tags of `length` words in the scheme."""
    tags = [OUTSIDE] * length
    begin, inside, end, single = tuple(SCHEMES[scheme])
    for type, start, stop in entities:
        first = single if stop - start == 1 else begin
        if scheme == "IOB1":
            first = begin if start and split_tag(tags[start - 1])[1] == type else inside
        tags[start:stop] = [f"{inside}-{type}"] * (stop - start)
        tags[stop - 1] = f"{end}-{type}"
        tags[start] = f"{first}-{type}"
    return tags


def repair(tags: Sequence[str], scheme: str) -> tuple[list[str], int]:
    """Re-encodes the same entities with valid tags, (O I-PER) as (O B-PER); returns them and the number of changes."""
    repaired = encode_tags(spans(tags), len(tags), scheme)
    if MISSING in tags:
        repaired = [MISSING if tag == MISSING else new for tag, new in zip(tags, repaired, strict=True)]
    return repaired, sum(old != new for old, new in zip(tags, repaired, strict=True))


@dataclass(frozen=True)
class Agreement:
    """Number of gold entities, predicted entities, and correct predictions."""

    gold: int = 0
    found: int = 0
    both: int = 0

    @property
    def precision(self) -> float:
        return self.both / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.both / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.both / (self.gold + self.found) if self.gold + self.found else 0.0


def agreement(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], read: Callable[[Sequence[str]], list[Entity]]
) -> dict[str, Agreement]:
    """Compares predicted with gold entities: by entity type, and in total under "".

    read: `spans`, or `strict_spans` of a scheme. An entity is correct if type, start and end match. Predictions for
    words without a gold tag (MISSING) do not count.
    """
    counts: dict[str, list[int]] = {"": [0, 0, 0]}
    for truth, guess in zip(gold, predicted, strict=True):
        shown = [MISSING if one == MISSING else tag for one, tag in zip(truth, guess, strict=True)]
        known, found = set(read(truth)), set(read(shown))
        for column, entities in enumerate((known, found, known & found)):
            for entity in entities:
                counts.setdefault(entity.type, [0, 0, 0])[column] += 1
                counts[""][column] += 1
    return {type: Agreement(*numbers) for type, numbers in counts.items()}
