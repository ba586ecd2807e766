"""Target-language tags for multilingual translation: a source begins with <to-fr> (Johnson et al. 2017, section 3).

One model learns several directions and zero-shot ones: A to C from A to B and B to C. Published multilingual Marian
models use codes such as >>fr<< from their vocabulary instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ...core.errors import InputError
from ..readers.tables import Row

if TYPE_CHECKING:
    from ..tokenizers.tokenizer import Tokenizer


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


# -- linearized parse trees: (S (NP dogs )NP (VP chase (NP cats )NP )VP )S (Vinyals et al. 2015, section 2) ------

MAX_OPEN = 16  # brackets opened in a row
MAX_LABEL = 32  # characters, including the bracket
_INCOMPLETE_CHARACTER = "\ufffd"  # result of decoding an incomplete character
_REPEATABLE_END = re.compile(rf"\s\s$|{_INCOMPLETE_CHARACTER}{{4}}$")  # either could repeat forever
_PIECES = re.compile(r"\(|\)|[^\s()]+")


def linearized(tree: str) -> str:
    """Linearize a tree in the usual brackets, "(S (NP (NNS dogs)) (VP (VBP chase) (NP (NNS cats))))".

    Part-of-speech labels directly above a word are dropped, and so is an empty root label. Raises InputError for
    unbalanced brackets.
    """
    pieces = _PIECES.findall(tree)
    written: list[str] = []
    open_nodes: list[tuple[str, int, bool]] = []  # label, start, whether it has a child node
    place = 0
    while place < len(pieces):
        piece = pieces[place]
        place += 1
        if piece == "(":
            label = pieces[place] if place < len(pieces) and pieces[place] not in "()" else ""
            place += bool(label)
            open_nodes.append((label, len(written), False))
            written += [f"({label}"] if label else []
        elif not open_nodes:
            raise InputError(f"Text outside the tree's brackets: {tree[:80]}")
        elif piece != ")":
            written.append(piece)
        else:
            _close(written, open_nodes, tree)
            if not open_nodes and place < len(pieces):
                raise InputError(f"Text after the end of the tree: {tree[:80]}")
    if open_nodes or not written:
        raise InputError(f"Unbalanced brackets in tree: {tree[:80]}")
    return " ".join(written)


def _close(written: list[str], open_nodes: list[tuple[str, int, bool]], tree: str) -> None:
    """Close the innermost node; a nested node with a single word is replaced by that word."""
    label, start, has_nodes = open_nodes.pop()
    inside = len(written) - start - bool(label)
    if not inside:
        raise InputError(f"Bracket without a word: {tree[:80]}")
    if label and open_nodes and not has_nodes and inside == 1:
        del written[start]
    elif label:
        written.append(f"){label}")
    if open_nodes:
        open_nodes[-1] = (*open_nodes[-1][:2], True)


def bracket_error(written: str, source: str | None = None) -> str | None:
    """Returns why a bracket string is not well-formed, or None if it is: brackets are balanced with matching labels,
    there is one root, no bracket is empty, and its words equal those of `source` in order, if given.
    """
    open_labels: list[str] = []
    words: list[str] = []
    roots, was_opened, fault = 0, False, None
    for piece in written.split():
        opens, closes = (len(piece) > 1 and piece[0] == bracket for bracket in "()")
        if opens:
            roots += not open_labels
            open_labels.append(piece[1:])
        elif closes and was_opened:
            fault = f"{piece} closes a bracket without words"
        elif closes and (not open_labels or open_labels.pop() != piece[1:]):
            fault = f"{piece} has no matching open ({piece[1:]}"
        elif not closes and not open_labels:
            fault = f"'{piece}' is outside all brackets"
        elif not closes:
            words.append(piece)
        if fault is not None:
            return fault
        was_opened = opens
    if open_labels:
        return f"({open_labels[-1]} is never closed"
    if roots != 1:
        return f"it has {roots} trees" if roots else "it has no tree"
    is_other = source is not None and words != source.split()
    return "its words differ from the sentence" if is_other else None


def may_become_tree(written: str, words: Sequence[str], *, is_whole: bool = False) -> bool:
    """Whether `written` is, or can be continued to, a well-formed tree of `words`.

    To guarantee termination, at most MAX_OPEN brackets may open in a row, and label length is limited. is_whole: its
    last word cannot be extended either (for word-level tokenizers).
    """
    pieces = written.split()
    is_open = bool(pieces) and not is_whole and not written[-1].isspace()
    whole = pieces.pop() if is_open else ""
    last = whole.rstrip(_INCOMPLETE_CHARACTER)
    open_labels: list[str] = []
    num_words, num_opened, is_closed = 0, 0, False
    for piece in pieces:
        opens, closes = (len(piece) > 1 and piece[0] == bracket for bracket in "()")
        left = len(words) - num_words
        if is_closed or (opens and not left) or (not opens and ((num_opened and closes) or not open_labels)):
            return False
        num_opened = num_opened + 1 if opens else 0
        is_fit = opens or closes or (bool(left) and words[num_words] == piece)
        if opens:
            is_fit = num_opened <= MAX_OPEN and len(piece) <= MAX_LABEL
            open_labels.append(piece[1:])
        elif closes:
            is_closed = len(open_labels) == 1
            is_fit = open_labels.pop() == piece[1:] and not (is_closed and left)
        if not is_fit:
            return False
        num_words += not (opens or closes)
    left = len(words) - num_words
    if not is_open or is_closed:
        return not is_open
    label = open_labels[-1] if open_labels else None
    next_word = words[num_words] if left else ""
    if whole != last:  # incomplete character of the next word
        return label is not None and next_word.startswith(last) and not next_word[len(last) :][:1].isascii()
    can_open = bool(left) and last[:1] in ("", "(") and num_opened < MAX_OPEN and len(last) <= MAX_LABEL
    can_close = label is not None and not num_opened and f"){label}".startswith(last)
    can_go_on = label is not None and bool(left) and next_word.startswith(last)
    return can_open or (can_close and (len(open_labels) > 1 or not left)) or can_go_on


class BracketConstraint:
    """Constrains decoding to tokens whose continuation can still become a tree of the source's words.

    tokenizer: of the output; sources: source texts by index; end_ids: end-of-sequence tokens, allowed once the tree is
    complete. Implements `allowed.Allows`.
    """

    def __init__(self, tokenizer: Tokenizer, sources: Sequence[str], end_ids: Collection[int]) -> None:
        self.tokenizer, self.sources, self.end_ids = tokenizer, sources, end_ids

    def __call__(self, text: int, ids: list[int]) -> Callable[[int], bool]:
        """Returns a predicate for tokens that may follow `ids`."""
        source = self.sources[text]
        words, is_whole = source.split(), self.tokenizer.word_markers.words == "whole"

        def is_allowed_next(token: int) -> bool:
            """Whether the output may end here or can still be completed after this token."""
            if token in self.end_ids:
                return bracket_error(self.tokenizer.decode(ids), source) is None
            if token in self.tokenizer.special_ids:  # it adds no text, and could repeat forever
                return False
            written = self.tokenizer.decode([*ids, token])
            goes_on = not _REPEATABLE_END.search(written)
            return goes_on and may_become_tree(written, words, is_whole=is_whole)

        return is_allowed_next
