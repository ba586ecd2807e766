"""Columns and cells of a table: which column is text, text pair or label, and what their cells mean.

Column names of well-known benchmarks are recognized; `--columns text=body,label=y` maps others. Without a header, two
columns are text and label, three are text, text pair and label, or the label comes first; any other number needs
positions (`--columns text=3,label=1`, counted from 0). Labels may also be columns of 0 and 1, one for each class.

A label cell is one label, or a list of labels: a JSON list, a list as Python or numpy prints it, Label Studio's
`{"choices": [...]}`, or `a|b`. A class has one spelling: Unicode NFC, and 1 for 1.0. What only the whole column shows
(lists, their separator, indicators of 0 and 1, class names) is decided in `LabelColumn`: a class name may hold a comma,
so a text is split at one only if the labels of the column show that it is a list, and only where several labels are
expected; otherwise the question is asked in one sentence.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import InputError

# In order of precedence: a table with `text` and `sentence1` is read by `text`.
TEXT_NAMES: tuple[tuple[str, ...], ...] = (
    ("text", "text_pair"),
    ("text",),
    ("sentence1", "sentence2"),
    ("#1 String", "#2 String"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "context"),
    ("sentence",),
    ("source", "target"),
    ("prompt",),
    ("data",),
)
LABEL_NAMES = ("label", "labels", "score", "gold_label", "is_duplicate", "Quality")
# A cell "quality" alone does not make a header: it may be a text.
KNOWN_NAMES = frozenset(name.casefold() for names in (*TEXT_NAMES[:-1], LABEL_NAMES[:-1]) for name in names)


LABEL_SEPARATOR = "|"
NO_LABELS = LABEL_SEPARATOR  # an empty list, where an empty cell may be a missing label
_CHOICES = frozenset({"choices"})  # the only key of Label Studio's object
_WHOLE = re.compile(r"[-+]?\d+\.0+")
_ITEM = re.compile(
    r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[-+]?\d+(?:\.\d*)?|True|False)(?=[\s,\])}])\s*,?""", re.DOTALL
)


@dataclass(frozen=True)
class Rules:
    """Label validation rules.

    need_label: a label is required; numeric: it must be a finite number; labels: allowed values (None: any);
    multi_label: zero or more labels in a list or separated by `|`, None for as the cells have it (then an empty cell is
    "" and an empty list NO_LABELS, because only the column shows whether the label is missing); span: minimum and
    maximum of a number (None: any); is_text: labels are texts, which stay as they are.
    """

    need_label: bool = True
    numeric: bool = False
    labels: Collection[str] | None = None
    multi_label: bool | None = False
    span: tuple[float, float] | None = None
    is_text: bool = False


def json_kind(value: Any) -> str:
    """Describes the type of a JSON value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}.get(
        type(value), f"a value of type {type(value).__name__}"
    )


def read_text(cell: Any) -> tuple[str | None, str | None]:
    """Returns a text cell as (text, None), or (None, reason)."""
    if cell is None:
        return None, "the text is missing"
    if not isinstance(cell, str):
        return None, f"is {json_kind(cell)}, not text"
    if not cell.strip():
        return None, "the text is empty"
    if "\0" in cell:
        return None, "the text contains a NUL character"
    if not cell.isascii():
        try:
            cell.encode("utf-8")
        except UnicodeEncodeError as error:
            return None, f"character {error.start + 1} is a lone surrogate, which is not valid text"
    return cell, None


def read_label(cell: Any, rules: Rules) -> tuple[str | None, str | None]:
    """Returns a label cell as (label, None), or (None, reason); (None, None) if missing and not required.

    Several labels are joined with `|`.
    """
    label, reason = _label_as_text(cell, rules)
    if reason is not None:
        return None, reason
    if not label:
        if cell is not None and (rules.multi_label or (rules.multi_label is None and rules.need_label)):
            return "", None
        return None, "the label is missing" if rules.need_label else None
    if rules.numeric:
        return label, number_error(label, rules.span)
    if rules.labels is not None:
        parts = label.split(LABEL_SEPARATOR) if rules.multi_label else [label]
        unknown = [part for part in parts if part not in rules.labels]
        if unknown:
            return None, unknown_label(unknown[0], rules.labels)
    return label, None


def unknown_label(label: str, labels: Collection[str]) -> str:
    """The reason why a label is none of `labels`."""
    known = ", ".join(sorted(labels)[:10]) + (", ..." if len(labels) > 10 else "")
    return f"unknown label '{label[:60]}' (known: {known})"


def one_spelling(label: str) -> str:
    """Returns the spelling of a class that stands for its others: Unicode NFC, and 1 for 1.0."""
    if not label.isascii():
        return unicodedata.normalize("NFC", label)
    return label.partition(".")[0] if _WHOLE.fullmatch(label) else label


def list_in(cell: Any) -> list[Any] | None:
    """Returns the list in a cell, None for one label: a list, an object of choices, or the text of one of them."""
    if isinstance(cell, dict) and cell.keys() == _CHOICES:
        return cell["choices"] if isinstance(cell["choices"], list) else [cell["choices"]]
    if not isinstance(cell, str):
        return cell if isinstance(cell, list) else None
    text = cell.strip()
    if not text or text[0] not in "[({" or text[-1] not in "])}":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        text = text.removeprefix("{'choices':").removesuffix("}").strip() if text.startswith("{'choices':") else text
        return _python_list(text)
    found = list_in(value) if isinstance(value, (list, dict)) else None
    return None if found is None or any(isinstance(one, (list, dict)) for one in found) else found


def _python_list(text: str) -> list[Any] | None:
    """The list that Python or numpy (without commas) printed, or a tuple or set of texts; None for other text."""
    items, place = [], 1
    while (found := _ITEM.match(text, place)) is not None:
        items.append(found[1])
        place = found.end()
    is_texts = bool(items) and all(item[0] in "'\"" for item in items)
    if text[place:].strip() not in ("]", *((")", "}") if is_texts else ())):
        return None
    return [_python_item(item) for item in items]


def _python_item(text: str) -> Any:
    if text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text == "True" if text[0] in "TF" else float(text) if "." in text else int(text)


def _label_as_text(cell: Any, rules: Rules) -> tuple[str, str | None]:
    """Returns the label as text ("" if missing), and the reason if it is invalid."""
    is_plain = rules.numeric or rules.is_text
    cells = None if is_plain else list_in(cell)
    if cells is not None:
        return _joined_labels(cells, rules)
    if isinstance(cell, float) and math.isnan(cell):
        return "", "the label is missing (NaN)" if rules.need_label else None
    if cell is not None and not isinstance(cell, (str, int, float)):
        return "", f"is {json_kind(cell)}, not a label"
    text = "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell).strip()
    if not text or is_plain:
        return text, read_text(text)[1] if text else None
    parts = [part.strip() for part in text.split(LABEL_SEPARATOR)] if rules.multi_label else [text]
    if not all(parts):
        return "", f"a label between two '{LABEL_SEPARATOR}' is empty"
    return LABEL_SEPARATOR.join(map(one_spelling, parts)), read_text(text)[1]


def _joined_labels(cells: list[Any], rules: Rules) -> tuple[str, str | None]:
    """Joins a list of labels to one text."""
    if rules.multi_label is False and len(cells) != 1:
        return "", "is a list of labels: pass --multi-label to read each as a label"
    parts = []
    for cell in cells:
        if isinstance(cell, (list, dict)):
            return "", f"a label in a list is {json_kind(cell)}"
        part, reason = _label_as_text(cell, replace(rules, multi_label=False, is_text=isinstance(cell, str)))
        if reason is not None:
            return "", reason
        if not part or LABEL_SEPARATOR in part:
            return "", f"a label in a list must not be empty or contain '{LABEL_SEPARATOR}'"
        parts.append(one_spelling(part))
    return LABEL_SEPARATOR.join(parts) or ("" if rules.multi_label or not rules.need_label else NO_LABELS), None


def number_error(label: str, span: tuple[float, float] | None = None) -> str | None:
    """Returns why a label is not a finite number within `span` (minimum, maximum; None: any), or None if it is."""
    try:
        value = float(label) if "_" not in label else math.nan
    except ValueError:
        comma = ": write a decimal point" if re.fullmatch(r"[-+]?\d+,\d+", label) else ""
        return f"'{label[:60]}' is not a number{comma}"
    if not math.isfinite(value):
        return f"'{label[:60]}' is not a finite number"
    if span is not None and not span[0] <= value <= span[1]:
        return f"{label[:60]} is not between {span[0]:g} and {span[1]:g}"
    return None


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


# -- which column is text, text pair and label ---------------------------------------------------------------

ROLES = ("text", "text_pair", "label")
MORE_ROLES = ("group", "classes")
# Columns of Label Studio's tables besides the data and the answers.
_EXPORT_NAMES = frozenset(("annotation_id", "annotator", "created_at", "updated_at", "lead_time", "id", "agreement"))
_CELL_BITS = {**_BITS, "0.0": False, "1.0": True}


@dataclass(frozen=True)
class Columns:
    """Column mapping of a table.

    names: role ("text", "text_pair", "label") -> column name ("column 2" without a header); is_inferred: the roles were
    inferred only from the number of columns; flags: columns of 0 and 1 that are the labels; group: column whose values
    keep rows together; classes: names for indicators and class numbers; remarks: sentences about what was detected;
    header: names of all columns in order.
    """

    names: dict[str, str]
    is_inferred: bool = False
    flags: tuple[str, ...] = ()
    group: str | None = None
    classes: tuple[str, ...] = ()
    remarks: list[str] = field(default_factory=list)
    header: Sequence[str] = ()

    @property
    def used(self) -> list[str]:
        """The names of all columns that are read."""
        plain = [name for role, name in self.names.items() if not (role == "label" and self.flags)]
        return list(dict.fromkeys([*plain, *self.flags, *((self.group,) if self.group else ())]))

    def flagged(self, named: Mapping[str, Any]) -> list[str]:
        """Returns the `flags` that are 1 in a row. Raises ValueError for another value than 0 and 1."""
        values = {name: as_bit(named.get(name)) for name in self.flags}
        for name, value in values.items():
            if value is None:
                raise ValueError(f"the column {name} is '{str(named.get(name))[:60]}', not 0 or 1")
        return [name for name, value in values.items() if value]


def as_bit(cell: Any) -> bool | None:
    """The value of a cell of 0 or 1, None for any other."""
    return _CELL_BITS.get(str(cell).strip().casefold())


def is_header(cells: Sequence[str], mapping: Mapping[str, str] | None) -> bool:
    """Whether the first row is a header: `mapping` uses names, or the row contains a recognized name."""
    if any(not str(name).strip().isdecimal() for role, name in (mapping or {}).items() if role != "classes"):
        return True
    return any(cell.strip().casefold() in KNOWN_NAMES for cell in cells)


@dataclass(frozen=True)
class Flags:
    """Labels as columns of 0 and 1. find: returns the names of such columns; multi_label: whether several labels are
    expected, None for as the data has it; known: names that such a column may have (None: any).
    """

    find: Callable[[], Sequence[str]]
    multi_label: bool | None = None
    known: Collection[str] | None = None


def with_names(
    header: Sequence[str],
    mapping: Mapping[str, str] | None,
    where: str,
    need_label: bool,
    others: list[str],
    flags: Flags | None = None,
) -> Columns:
    """Returns the column mapping of a table with these names. `mapping` (role -> name) precedes recognized names.

    Raises InputError if text, a required label or one of `others` has no column, or if a used name is duplicated.
    """
    wanted = check_mapping(mapping)
    classes, group = classes_in(wanted), wanted.pop("group", None)
    given = _flags_in(wanted, header, where)
    names = {role: _find(header, name, where) for role, name in wanted.items()}
    remarks: list[str] = []
    if "text" not in names:
        names = {**_recognized_text(header, where), **names}
    if "label" not in names:
        label = next((name for name in LABEL_NAMES if _has(header, name)), None)
        names |= {} if label is None else {"label": _find(header, label, where)}
    if "text" in names and "label" not in names and need_label and not given and flags is not None:
        given = _detected_flags(flags, header, names, where, remarks)
    if given:
        names["label"] = LABEL_SEPARATOR.join(given)
    for role in ("text", "label") if need_label else ("text",):
        if role not in names:
            raise InputError(
                f"{where} has no column for the {role}: the columns are {_listing(header)}. Specify one with "
                f"--columns {role}=NAME."
            )
    for name in others:
        if _find(header, name, where) != name:
            raise InputError(f"{where} has no column '{name}' to filter rows by.")
    group = None if group is None else _find(header, group, where)
    return Columns(names, flags=given, group=group, classes=classes, remarks=remarks, header=header)


def classes_in(mapping: dict[str, str]) -> tuple[str, ...]:
    """Removes the class names A|B|C from a mapping and returns them. Raises InputError for invalid ones."""
    names = tuple(name.strip() for name in mapping.pop("classes", "").split(LABEL_SEPARATOR))
    if names == ("",):
        return ()
    if not all(names) or len(set(names)) < max(len(names), 2):
        raise InputError("--columns classes= needs two or more different class names, as in 'classes=A|B|C'.")
    return names


def _flags_in(wanted: dict[str, str], header: Sequence[str], where: str) -> tuple[str, ...]:
    """Removes the label from a mapping and returns its columns, if it names several, A|B|C."""
    label = wanted.get("label", "")
    if LABEL_SEPARATOR not in label or _has(header, label):
        return ()
    del wanted["label"]
    return tuple(_find(header, name.strip(), where) for name in label.split(LABEL_SEPARATOR))


def _detected_flags(
    flags: Flags, header: Sequence[str], names: Mapping[str, str], where: str, remarks: list[str]
) -> tuple[str, ...]:
    """The columns of 0 and 1, if several labels are expected; asks if that is not known."""
    found = [name for name in flags.find() if name not in names.values() and name.casefold() not in _EXPORT_NAMES]
    known = [name for name in found if flags.known is not None and name in flags.known]
    found = known or found
    if len(found) < 2 or flags.multi_label is False:
        return ()
    listed = ", ".join(f"'{name[:40]}'" for name in found[:10]) + (", ..." if len(found) > 10 else "")
    if flags.multi_label is None:
        raise InputError(
            f"{where} has no column for the label, but {len(found)} columns of 0 and 1 ({listed}): pass --multi-label "
            f"to read each as a label, or --columns label=NAME."
        )
    remarks.append(f"{where}: the labels are the columns of 0 and 1: {listed}.")
    return tuple(found)


def position_names(header: Sequence[str], mapping: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """Replace positions in `mapping` by header names, unless a column name consists of those digits."""
    ready = {}
    for role, name in check_mapping(mapping).items():
        is_position = name.isdecimal() and not _has(header, name) and role != "classes"
        ready[role] = header[_position(name, len(header), where)] if is_position else name
    return ready


def without_header(
    width: int, mapping: Mapping[str, str] | None, where: str, need_label: bool, is_label_first: bool = False
) -> Columns:
    """Returns the column mapping of a table of `width` columns without a header, named by `numbered`."""
    every = numbered(width)
    mapping = check_mapping(mapping)
    classes, group = classes_in(mapping), mapping.pop("group", None)
    if mapping:
        names = {role: every[_position(name, width, where)] for role, name in mapping.items()}
    elif width == 1 and not need_label:
        names = {"text": every[0]}
    elif width in (2, 3):
        roles = ("text", "text_pair")[: width - 1]
        names = dict(zip(("label", *roles) if is_label_first else (*roles, "label"), every, strict=True))
    else:
        raise InputError(
            f"{where} has {width} {'column' if width == 1 else 'columns'} and no header with recognized names: "
            "add a header, or map columns by position (from 0), for example --columns text=3,label=1."
        )
    if "text" not in names or (need_label and "label" not in names):
        raise InputError(f"{where} has no header: specify the positions of text and label with --columns.")
    remarks = []
    if is_label_first and not mapping:
        texts = " and ".join(name for role, name in names.items() if role != "label")
        remarks.append(f"{where} has no header: column 1 is read as the label, {texts} as the text.")
    group = None if group is None else every[_position(group, width, where)]
    return Columns(names, not mapping, group=group, classes=classes, remarks=remarks, header=every)


def numbered(width: int) -> list[str]:
    """Names for the columns of a table without a header."""
    return [f"column {place}" for place in range(1, width + 1)]


def is_label_first(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first rows of a table without a header have the label in their first column, not in the last.

    Labels are shorter than texts, and repeat.
    """
    width = len(rows[0]) if rows else 0
    columns = list(zip(*(row for row in rows if len(row) == width), strict=True))
    if width < 2 or len(columns[0]) < 2:
        return False
    distinct, characters, words = (
        [count(columns[place]) for place in (0, -1)]
        for count in (
            lambda cells: len(set(cells)),
            lambda cells: sum(map(len, cells)),
            lambda cells: sum(len(cell.split()) for cell in cells),
        )
    )
    return characters[0] * 2 <= characters[1] and distinct[0] <= distinct[1] and words[0] <= words[1]


def check_mapping(mapping: Mapping[str, str] | None) -> dict[str, str]:
    """Returns `mapping` as a dict. Raises InputError for an unknown role, or one column in two roles."""
    ready = {role: str(name).strip() for role, name in (mapping or {}).items()}
    for role in ready:
        if role not in (*ROLES, *MORE_ROLES):
            raise InputError(f"Unknown column role '{role}': use {', '.join((*ROLES, *MORE_ROLES))}.")
    if len(set(ready.values())) < len(ready):
        raise InputError("One column is mapped to two roles: use a different column for each.")
    return ready


def _position(name: str, width: int, where: str) -> int:
    if not name.isdecimal():
        raise InputError(f"{where} has no column '{name}': it is not in the header.")
    if int(name) >= width:
        raise InputError(f"{where} has no column {name} (counted from 0): it has {width}.")
    return int(name)


def _recognized_text(plain: Sequence[str], where: str) -> dict[str, str]:
    for names in TEXT_NAMES:
        if all(_has(plain, name) for name in names):
            return dict(zip(ROLES, (_find(plain, name, where) for name in names), strict=False))
    # Beside a column that may be the text, "source" is where it is from.
    others = [name for name in plain if name.casefold() not in ("id", *LABEL_NAMES)]
    return {"text": others[0]} if [name.casefold() for name in others] == ["source"] else {}


def _has(plain: Sequence[str], name: str) -> bool:
    return name in plain or name.casefold() in [cell.casefold() for cell in plain]


def _find(plain: Sequence[str], name: str, where: str) -> str:
    """Returns `name` as spelled in the header (case-insensitive), where it must occur exactly once."""
    hits = [index for index, cell in enumerate(plain) if cell == name]
    hits = hits or [index for index, cell in enumerate(plain) if cell.casefold() == name.casefold()]
    if not hits:
        raise InputError(f"{where} has no column '{name}': the columns are {_listing(plain)}.")
    if len(hits) > 1:
        places = " and ".join(str(index + 1) for index in hits)
        raise InputError(f"{where} has the column '{name}' more than once (columns {places}): rename or remove one.")
    return plain[hits[0]]


def _listing(plain: Sequence[str]) -> str:
    shown = ", ".join(f"'{name[:40]}'" for name in plain[:20])
    return shown + (f" and {len(plain) - 20} more" if len(plain) > 20 else "")
