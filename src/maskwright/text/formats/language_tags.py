"""Target-language tags for multilingual translation: a source begins with <to-fr> (Johnson et al. 2017, section 3).

One model learns several directions and zero-shot ones: A to C from A to B and B to C. Published multilingual Marian
models use codes such as >>fr<< from their vocabulary instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from ...core.errors import InputError
from ..readers.tables import Row

_TAG = re.compile(r"<to-([A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})?)>")
_CODE = re.compile(r">>(.*?)<<")
_MAX_LISTED = 8


def tag(language: str) -> str:
    """Returns the tag of a language: <to-fr> for "fr". Raises InputError for an invalid language code."""
    made = f"<to-{language}>"
    if _TAG.fullmatch(made) is None:
        raise InputError(
            f"'{language}' is not a language code: use two to eight letters (fr), optionally with a region (pt-BR)."
        )
    return made


def with_language_tag(text: str, language: str, codes: Collection[str] = ()) -> str:
    """Prefix `text` with the tag of the target language; codes: languages for which a Marian model has codes."""
    return f">>{language}<< {text}" if language in codes else f"{tag(language)} {text}"


def language_of(text: str, codes: Collection[str] = ()) -> str | None:
    """Returns the target language of a source; None without a tag (with `codes`, without a tag or code).

    A code is only recognized at the start of the text, as in a Marian tokenizer.
    """
    found = _TAG.match(text.lstrip()) or (_CODE.match(text) if codes else None)
    return None if found is None else found[1]


def languages_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns the sorted target languages of tagged training rows; empty if no row has a tag.

    Raises InputError if only some rows have a tag: the others would be trained without a language.
    """
    found = [language_of(row.text) for row in rows]
    known = tuple(sorted({language for language in found if language is not None}))
    without = next((row for row, language in zip(rows, found, strict=True) if language is None), None)
    if known and without is not None:
        raise InputError(
            f"{without.file}, line {without.line:,}: the source has no language tag, but others have. Begin each "
            f"source with one of {_listed([tag(language) for language in known])}."
        )
    return known


def check_languages(rows: Iterable[Row], known: Sequence[str], codes: Collection[str] = ()) -> None:
    """Raise InputError for a source with an unknown target language, or with none if there are several to choose from.

    codes: the subset of `known` that is selected by codes.
    """
    known = sorted({*known, *codes})
    for row in rows if known else ():
        language = language_of(row.text, codes)
        if language is None:
            spelled = [with_language_tag("", one, codes).strip() for one in known]
            raise InputError(
                f"{row.file}, line {row.line:,}: the source has no target language (use --to "
                f"{known[0]}, or a source that begins with one of {_listed(spelled)})."
            )
        if language not in known:
            raise InputError(
                f"{row.file}, line {row.line:,}: the model cannot translate to '{language}', only to {_listed(known)}."
            )


def _listed(known: Sequence[str]) -> str:
    """Returns the first few languages, and how many more there are."""
    more = len(known) - _MAX_LISTED
    return ", ".join(known[:_MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")
