"""Which language a text is to be written in: a source that begins with <to-fr> (Johnson et al. 2017, section 3).

One translator then learns several directions, and some that no row showed it: from A to C by A to B and B to C.
Published Marian translators of several languages have codes for it, >>fr<<, which their vocabulary lists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from ..core.errors import InputError
from .tables import Row

_TAG = re.compile(r"<to-([A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})?)>")
_CODE = re.compile(r">>(.*?)<<")
_MOST_LISTED = 8


def tag(language: str) -> str:
    """What stands before a source: <to-fr> for "fr". Raises InputError for what names no language."""
    made = f"<to-{language}>"
    if _TAG.fullmatch(made) is None:
        raise InputError(f"'{language}' names no language: two to eight letters, as fr, or with a region, as pt-BR.")
    return made


def asking(text: str, language: str, codes: Collection[str] = ()) -> str:
    """The text as a source that asks for `language`; codes: those languages that a Marian model has codes for."""
    return f">>{language}<< {text}" if language in codes else f"{tag(language)} {text}"


def language_of(text: str, codes: Collection[str] = ()) -> str | None:
    """The language that a source asks for; None without a tag, and where there are `codes`, without one of either kind.

    A code counts at the very beginning alone, as a Marian tokenizer has it.
    """
    found = _TAG.match(text.lstrip()) or (_CODE.match(text) if codes else None)
    return None if found is None else found[1]


def languages_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The languages that the rows of a training ask for by tags, sorted; none where no row has a tag.

    Raises InputError where some rows have one and others do not: those would be learnt without a language.
    """
    found = [language_of(row.text) for row in rows]
    known = tuple(sorted({language for language in found if language is not None}))
    without = next((row for row, language in zip(rows, found, strict=True) if language is None), None)
    if known and without is not None:
        raise InputError(
            f"{without.file}, line {without.line:,}: the source has no language tag, and others have: begin each with "
            f"one of {_listed([tag(language) for language in known])}."
        )
    return known


def check_languages(rows: Iterable[Row], known: Sequence[str], codes: Collection[str] = ()) -> None:
    """Raise InputError for a source that asks for a language that is not `known`, or for none where there are several
    to choose from. codes: the languages that are asked for by codes, `known` too.
    """
    known = sorted({*known, *codes})
    for row in rows if known else ():
        language = language_of(row.text, codes)
        if language is None:
            spelt = [asking("", one, codes).strip() for one in known]
            raise InputError(
                f"{row.file}, line {row.line:,}: the source does not say in which language to write (--to "
                f"{known[0]}, or a source that begins with one of {_listed(spelt)})."
            )
        if language not in known:
            raise InputError(
                f"{row.file}, line {row.line:,}: the model does not write '{language}'; it writes {_listed(known)}."
            )


def _listed(known: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(known) - _MOST_LISTED
    return ", ".join(known[:_MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")
