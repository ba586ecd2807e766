"""Trees as strings that a translator can write: (S (NP dogs )NP (VP chase (NP cats )NP )VP )S.

Vinyals et al. 2015, section 2: parsing is translation from a sentence to its bracket string. A closing bracket names
what it closes, so a string that a network wrote can be checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ..core.errors import InputError

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

MOST_OPENED = 16
LONGEST_LABEL = 32  # its bracket counted
_UNFINISHED = "\ufffd"  # how the first bytes of a character decode
_HELD_UP = re.compile(rf"\s\s$|{_UNFINISHED}{{4}}$")  # more of either can follow for ever
_PIECES = re.compile(r"\(|\)|[^\s()]+")


def linearised(tree: str) -> str:
    """A tree in the usual brackets, "(S (NP (NNS dogs)) (VP (VBP chase) (NP (NNS cats))))", as such a string.

    A label right above a word, its part of speech, is left out, and so is an empty label at the root. Raises InputError
    for brackets that do not match.
    """
    pieces = _PIECES.findall(tree)
    written: list[str] = []
    open_nodes: list[tuple[str, int, bool]] = []  # label, where it begins, whether a node stands in it
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
            raise InputError(f"There is text outside of the tree's brackets: {tree[:80]}")
        elif piece != ")":
            written.append(piece)
        else:
            _close(written, open_nodes, tree)
            if not open_nodes and place < len(pieces):
                raise InputError(f"The tree goes on behind its end: {tree[:80]}")
    if open_nodes or not written:
        raise InputError(f"The brackets of a tree do not match: {tree[:80]}")
    return " ".join(written)


def _close(written: list[str], open_nodes: list[tuple[str, int, bool]], tree: str) -> None:
    """Close the innermost node; one that holds a single word and stands in another is that word."""
    label, start, has_nodes = open_nodes.pop()
    inside = len(written) - start - bool(label)
    if not inside:
        raise InputError(f"A bracket holds no word: {tree[:80]}")
    if label and open_nodes and not has_nodes and inside == 1:
        del written[start]
    elif label:
        written.append(f"){label}")
    if open_nodes:
        open_nodes[-1] = (*open_nodes[-1][:2], True)


def fault_of(written: str, source: str | None = None) -> str | None:
    """What is wrong with a bracket string, in words; None where it is well-formed: every bracket is closed by its own,
    there is one root, no bracket is empty, and, where `source` is given, its words stand in their order.
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
            fault = f"{piece} closes nothing but brackets"
        elif closes and (not open_labels or open_labels.pop() != piece[1:]):
            fault = f"{piece} closes no ({piece[1:]} that is open"
        elif not closes and not open_labels:
            fault = f"'{piece}' stands outside of all brackets"
        elif not closes:
            words.append(piece)
        if fault is not None:
            return fault
        was_opened = opens
    if open_labels:
        return f"({open_labels[-1]} is never closed"
    if roots != 1:
        return f"there are {roots} trees" if roots else "there is no tree"
    is_other = source is not None and words != source.split()
    return "its words are not those of the sentence" if is_other else None


def may_become_tree(written: str, words: Sequence[str], *, is_whole: bool = False) -> bool:
    """Whether something can be put behind `written` so that it is a well-formed tree of `words`, or it is one.

    So that every such text ends, no more than MOST_OPENED brackets may open behind one another, and labels are short.
    is_whole: its last piece cannot be continued either, as where each token is a whole word.
    """
    pieces = written.split()
    is_open = bool(pieces) and not is_whole and not written[-1].isspace()
    whole = pieces.pop() if is_open else ""
    last = whole.rstrip(_UNFINISHED)
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
            is_fit = num_opened <= MOST_OPENED and len(piece) <= LONGEST_LABEL
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
    if whole != last:  # the first bytes of a character that the next word has there
        return label is not None and next_word.startswith(last) and not next_word[len(last) :][:1].isascii()
    can_open = bool(left) and last[:1] in ("", "(") and num_opened < MOST_OPENED and len(last) <= LONGEST_LABEL
    can_close = label is not None and not num_opened and f"){label}".startswith(last)
    can_go_on = label is not None and bool(left) and next_word.startswith(last)
    return can_open or (can_close and (len(open_labels) > 1 or not left)) or can_go_on


class OnlyTrees:
    """Lets only such tokens come that what is written can still become a tree of the words of its source.

    tokenizer: of what is written; sources: by the number of the text; end_ids: tokens that end a text, and may come
    where it is a tree. The rule is an `allowed.Allows`.
    """

    def __init__(self, tokenizer: Tokenizer, sources: Sequence[str], end_ids: Collection[int]) -> None:
        self.tokenizer, self.sources, self.end_ids = tokenizer, sources, end_ids

    def __call__(self, text: int, ids: list[int]) -> Callable[[int], bool]:
        """Says of a token whether it may come behind `ids`."""
        source = self.sources[text]
        words, is_whole = source.split(), self.tokenizer.kind == "word"

        def may_come(token: int) -> bool:
            """Whether the text ends well here, or can still do so behind this token."""
            if token in self.end_ids:
                return fault_of(self.tokenizer.decode(ids), source) is None
            if token in self.tokenizer.special_ids:  # it adds nothing, and could do so for ever
                return False
            written = self.tokenizer.decode([*ids, token])
            goes_on = not _HELD_UP.search(written)
            return goes_on and may_become_tree(written, words, is_whole=is_whole)

        return may_come
