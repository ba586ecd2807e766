"""Maps table columns to text, text pair and label.

Column names of well-known benchmarks are recognized; `--columns text=body,label=y` maps others. Without a header, two
columns are text and label, three are text, text pair and label, or the label comes first; any other number needs
positions (`--columns text=3,label=1`, counted from 0). Labels may also be columns of 0 and 1, one for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import InputError
from .cells import KNOWN_NAMES, LABEL_NAMES, LABEL_SEPARATOR, TEXT_NAMES
from .records import Record

ROLES = ("text", "text_pair", "label")
MORE_ROLES = ("group", "classes")
# Columns of Label Studio's tables besides the data and the answers.
_EXPORT_NAMES = frozenset(("annotation_id", "annotator", "created_at", "updated_at", "lead_time", "id", "agreement"))
_BITS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


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

    def label(self, record: Record) -> Any:
        """Returns the label cell of `record`, or the list of the columns that are 1. Raises ValueError for others."""
        if not self.flags:
            return record.named.get(self.names["label"])
        values = {name: as_bit(record.named.get(name)) for name in self.flags}
        for name, value in values.items():
            if value is None:
                raise ValueError(f"{name} is '{str(record.named.get(name))[:60]}', not 0 or 1")
        return [name for name, value in values.items() if value]


def as_bit(cell: Any) -> bool | None:
    """The value of a cell of 0 or 1, None for any other."""
    return _BITS.get(str(cell).strip().casefold())


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
