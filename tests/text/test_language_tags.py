"""Language tags: what a source asks for, and what is said where it asks for nothing that is known."""

from __future__ import annotations

import pytest

from maskwright.core.errors import InputError
from maskwright.text.formats.targets import check_languages, language_of, languages_of, tag
from maskwright.text.readers.tables import Row


def rows(*texts: str) -> list[Row]:
    return [Row(text, None, "x", number, "a.tsv") for number, text in enumerate(texts, start=2)]


def test_a_tag_is_read_where_a_source_begins():
    assert tag("fr") == "<to-fr>" and language_of("<to-fr> ein Hund") == "fr"
    assert language_of("<to-pt-BR> x") == "pt-BR" and language_of("ein <to-fr> Hund") is None


def test_training_knows_its_languages_or_says_which_line_has_none():
    assert languages_of(rows("<to-fr> a", "<to-de> b", "<to-fr> c")) == ("de", "fr")
    assert languages_of(rows("a", "b")) == ()
    with pytest.raises(InputError, match=r"a.tsv, line 3: the source has no language tag.*<to-fr>"):
        languages_of(rows("<to-fr> a", "b"))


def test_an_unknown_or_a_missing_language_is_said():
    check_languages(rows("<to-xx> a"), ())
    check_languages(rows("<to-fr> a"), ("de", "fr"))
    with pytest.raises(InputError, match="cannot translate to 'xx', only to de, fr"):
        check_languages(rows("<to-xx> a"), ("de", "fr"))
    with pytest.raises(InputError, match="line 2: the source has no target language"):
        check_languages(rows("a"), ("de", "fr"))
    with pytest.raises(InputError, match="is not a language code"):
        tag("f r")
