"""Pairs of a source and its target: read from files, with tags of target languages, and with parse trees as targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import InputError, RowError, RowErrors
from ...core.progress import warn
from ...core.util import plural
from ..formats.files import file_format, read_lines
from .corpus import CorpusFacts, Document, read_documents
from .tables import Row, Table, read_texts, shown

if TYPE_CHECKING:
    from ..tokenizers.tokenizer import Tokenizer


def read_parallel(source: Path | str, target: Path | str, *, skip_bad_rows: bool = False) -> Table:
    """Read rows whose `text` is a line of `source` and whose `label` is the same line of `target`, plain or compressed.

    A pair with an empty side is a bad row; blank lines at the end of both files are ignored. Warns if both files are
    the same. Raises RowErrors with every bad row unless they are skipped, and InputError if one file has more lines
    than the other (never skipped, since all pairs from some line on would be misaligned).
    """
    if Path(source).absolute() == Path(target).absolute():
        warn(f"{source} is both source and target: this trains an autoencoder, not a translation model.")
    rows: list[Row] = []
    bad: list[RowError] = []
    blank: list[RowError] = []  # fully blank pairs are errors only if text follows
    first, second = shown(source), shown(target)
    for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
        if left is None or right is None:
            short, long = (first, second) if left is None else (second, first)
            if number == 1:
                raise InputError(f"{short} is empty, and {long} is not: each line needs a translation.")
            raise InputError(
                f"{short} ends after line {number - 1:,}, but {long} continues: line {number:,} has no translation. "
                "Line n of one file must be the translation of line n of the other: check for a missing or split line "
                "above it."
            )
        faults = [
            RowError(file, number, None, line.fault or "the line is empty")
            for file, line in ((first, left), (second, right))
            if line.fault or not line.text.strip()
        ]
        if len(faults) == 2 and not (left.fault or right.fault):
            blank += faults
            continue
        bad += [*blank, *faults]
        blank = []
        if not faults:
            rows.append(Row(left.text.strip(), None, right.text.strip(), number, first))
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    if not rows:
        raise InputError(f"{first} and {second} contain no pair of lines.")
    skipped = {one.line: RowError(first, one.line, one.column, one.reason) for one in bad}  # one per pair
    return Table(rows, list(skipped.values()), {"text": "line", "label": "line"})


# -- Reads text-to-text pairs (translation, summarization), and creates summary pairs from a dump of articles --------


ROLES = {"source": "text", "target": "text_pair"}  # table roles of source and target


def read_pairs(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    need_target: bool = True,
    skip_bad_rows: bool = False,
) -> Table:
    """Read rows whose `text` is the source and whose `label` is the target.

    A table has the columns source and target (or those in `columns`); without a header, the first two. In .txt each
    document is an article whose first line is the target and the rest the source (`lead_pairs`); skipped one-line
    documents are logged. Raises RowErrors for rows without a target, InputError if no column contains one, and other
    reading errors.
    """
    if need_target and file_format(path, default="txt") == "txt":
        facts = CorpusFacts()
        found = list(lead_pairs(read_documents(path, skip_bad_rows=skip_bad_rows, facts=facts)))
        if not found:
            raise InputError(f"{path} has no document of two or more lines: the first one is the summary of the rest.")
        if short := facts.documents - len(found):
            what = plural(short, "one-line document was", "one-line documents were")
            warn(f"{path}: {what} skipped.")
        return Table(found, facts.bad_rows, {"text": "document", "label": "first line"})
    mapping = {ROLES.get(role, role): name for role, name in (columns or {}).items()}
    table = read_texts(path, columns=mapping or None, skip_bad_rows=skip_bad_rows, label_is_text=True)
    if need_target and not (table.has_pair or table.has_label):
        raise InputError(f"{path} has no column for the target: specify both with --columns source=NAME,target=NAME.")
    rows = [Row(row.text, None, row.text_pair or row.label, row.line, row.file) for row in table.rows]
    bad = [RowError(row.file, row.line, "target", "is missing") for row in rows if need_target and not row.label]
    if bad and not skip_bad_rows:
        raise RowErrors(bad)
    good = [row for row in rows if row.label or not need_target]
    if not good:
        raise InputError(f"{path} contains no row with a target.")
    return Table(good, [*table.skipped, *bad], table.columns, groups=table.groups)


def lead_pairs(documents: Iterable[Document]) -> Iterator[Row]:
    """Yields articles with their leads: the first line of a document as target, all following lines as source.

    Encyclopedia articles begin with a summary. A one-line document yields no pair.
    """
    for document in documents:
        lead, *rest = document.sentences
        if rest:
            yield Row("\n".join(rest), None, lead, document.line, document.file)


# -- Target-language tags for multilingual translation: a source begins with <to-fr> (Johnson et al. 2017, section 3) -
#
# One model learns several directions and zero-shot ones: A to C from A to B and B to C. Published multilingual Marian
# models use codes such as >>fr<< from their vocabulary instead.


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
