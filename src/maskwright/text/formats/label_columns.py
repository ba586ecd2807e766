"""What only a whole column shows about its labels: lists, their separator, indicators of 0 and 1, class names.

A class name may hold a comma, so a text is split at one only if the labels of the column show that it is a list, and
only where several labels are expected; otherwise the question is asked in one sentence. What is found is said in one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ...core.errors import InputError
from .cells import LABEL_SEPARATOR, NO_LABELS, one_spelling, unknown_label

SEPARATORS = {",": "commas", "#": "#", ";": "semicolons"}
_BITS = {"0": False, "1": True, "false": False, "true": True}
Answer = tuple[str | None, str | None]  # label, or reason why it is invalid


@dataclass(frozen=True)
class LabelForm:
    """How the labels of a column are written.

    multi_label: whether a row has any number of labels; separator: in texts, besides `|`; classes: names of indicators
    or class numbers, in their order.
    """

    multi_label: bool = False
    separator: str | None = None
    classes: tuple[str, ...] = ()


@dataclass
class LabelColumn:
    """The different labels of a column, as read by `cells.read_label`, and what they mean.

    where: file, for messages; multi_label: whether several labels are expected, None for as the column has it; known:
    labels that a row may have (None: any); classes: names for indicators and class numbers; form: of the training file.
    """

    where: str
    multi_label: bool | None
    known: Collection[str] | None = None
    classes: Sequence[str] = ()
    like: LabelForm | None = None
    need_label: bool = True
    remarks: list[str] = field(default_factory=list)

    def settle(self, labels: Iterable[str]) -> tuple[LabelForm, dict[str, Answer]]:
        """Returns the form, and what replaces each label that does not stay as it is.

        Raises InputError with the setting that decides, if the column has two meanings.
        """
        given = sorted(set(labels))
        changes: dict[str, str] = {}
        classes = self._class_names(given)
        if classes:
            changes = {label: self._named(label, classes) for label in given}
        has_lists = any(LABEL_SEPARATOR in label for label in given)
        separator = None if self.multi_label is False or has_lists or classes else self._separator(given)
        is_multi = self.multi_label if self.multi_label is not None else has_lists or separator is not None
        answers: dict[str, Answer] = {}
        for label in given:
            answer = self._read(changes.get(label, label), is_multi, separator)
            if answer != (label, None):
                answers[label] = answer
        if self.multi_label is None and has_lists and self.need_label:
            self.remarks.append(f"{self.where}: rows have lists of labels, so any number of labels is learned per row.")
        return LabelForm(is_multi, separator, classes), answers

    def _read(self, label: str, is_multi: bool, separator: str | None) -> Answer:
        if not is_multi:
            if not label:
                return None, "the label is missing" if self.need_label else None
            parts = [label]
        elif label in ("", NO_LABELS):
            return "", None
        else:
            is_whole = separator is None or (self.known is not None and label in self.known)
            mark = LABEL_SEPARATOR if is_whole or LABEL_SEPARATOR in label or separator is None else separator
            parts = [one_spelling(part.strip()) for part in label.split(mark)]
            if not all(parts):
                return None, f"a label between two '{mark}' is empty"
        if self.known is not None:
            found = [_as_known(part, self.known) for part in parts]
            if None in found:
                return None, unknown_label(parts[found.index(None)], self.known)
            parts = [part for part in found if part is not None]
        return LABEL_SEPARATOR.join(parts), None

    # -- indicators and class numbers ----------------------------------------------------------------------------

    def _class_names(self, given: Sequence[str]) -> tuple[str, ...]:
        """Names of indicators or class numbers, () if the labels are names."""
        lists = [label.split(LABEL_SEPARATOR) for label in given if label and label != NO_LABELS]
        size = len(lists[0]) if lists else 0
        is_indicator = size > 1 and all(len(one) == size and all(part in _BITS for part in one) for one in lists)
        if self.classes:
            self._check_classes(lists, is_indicator, size)
            return tuple(self.classes)
        if self.like is not None and self.like.classes:
            return self.like.classes
        if is_indicator and self.need_label and not (self.known is not None and {"0", "1"} <= set(self.known)):
            raise InputError(
                f"The labels of {self.where} are lists of {size} zeros and ones without class names: name the classes "
                f"in their order, as in --columns 'classes={LABEL_SEPARATOR.join('ABCDEFGH'[: min(size, 8)])}'."
            )
        return ()

    def _check_classes(self, lists: Sequence[Sequence[str]], is_indicator: bool, size: int) -> None:
        if is_indicator and size != len(self.classes):
            raise InputError(
                f"The labels of {self.where} are lists of {size} zeros and ones, and --columns names "
                f"{len(self.classes)} classes: name {size}."
            )
        wrong = [part for one in lists for part in one if not (part in _BITS if is_indicator else _is_number(part))]
        if wrong:
            raise InputError(
                f"--columns names classes, but the labels of {self.where} are not zeros and ones, or numbers of "
                f"classes: '{wrong[0][:60]}' is a name itself. Remove classes=."
            )

    def _named(self, label: str, classes: Sequence[str]) -> str:
        parts = label.split(LABEL_SEPARATOR) if label not in ("", NO_LABELS) else []
        if len(parts) == len(classes) > 1 and all(part in _BITS for part in parts):
            names = [name for name, part in zip(classes, parts, strict=True) if _BITS[part]]
            return LABEL_SEPARATOR.join(names) or NO_LABELS
        if any(not _is_number(part) or int(part) >= len(classes) for part in parts):
            return label  # an unknown label, which is reported with its line
        return LABEL_SEPARATOR.join(classes[int(part)] for part in parts) or label

    # -- separators ----------------------------------------------------------------------------------------------

    def _separator(self, given: Sequence[str]) -> str | None:
        """The separator of lists in texts; None if the labels are single."""
        if self.like is not None:
            return self.like.separator
        for mark, name in SEPARATORS.items():
            lists = {label: [part.strip() for part in label.split(mark)] for label in given if mark in label}
            if self.known is not None:
                unknown = {label: parts for label, parts in lists.items() if label not in self.known}
                if any(all(_as_known(part, self.known) for part in parts) for parts in unknown.values()):
                    return mark
                continue
            shared = _shared(lists, given)
            if not shared:
                continue
            if self.multi_label:
                self.remarks.append(
                    f"{self.where}: the labels of a row are separated by {name}, as in '{shared[:60]}'."
                )
                return mark
            if self.need_label:
                raise InputError(
                    f"{self.where} has labels such as '{shared[:60]}', whose parts are labels of other rows: pass "
                    f"--multi-label if they are lists, or --no-multi-label if each is one class."
                )
        return None


def _shared(lists: dict[str, list[str]], given: Sequence[str]) -> str | None:
    """A list whose parts all occur in other labels, if most lists are such; otherwise the labels are names."""
    uses: dict[str, int] = {}
    for label in given:
        for part in set(lists.get(label, [label])):
            uses[part] = uses.get(part, 0) + 1
    good = [label for label, parts in lists.items() if all(parts) and all(uses[part] > 1 for part in parts)]
    return good[0] if good and 2 * len(good) > len(lists) else None


def _as_known(label: str, known: Collection[str]) -> str | None:
    """The known label that a label spells, None if there is none."""
    if label in known:
        return label
    spelled = one_spelling(label)
    return next((one for one in known if one_spelling(one) == spelled), None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 9
