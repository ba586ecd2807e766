"""Which column of a table is the text, its pair and the label.

The names of the well-known benchmarks are recognised; `--columns text=body,label=y` names others. Without a
header, two columns are text and label, three are text, pair and label; any other number must be told by
position (`--columns text=3,label=1`, counted from 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import InputError
from .records import Record

ROLES = ("text", "text_pair", "label")
# In the order in which they are looked for: a table with `text` and `sentence1` is read by `text`.
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
    ("source",),
    ("prompt",),
)
LABEL_NAMES = ("label", "score", "gold_label", "is_duplicate", "Quality")
# The word "quality" alone makes no header: it may well be a text.
KNOWN_NAMES = frozenset(name.casefold() for names in (*TEXT_NAMES, LABEL_NAMES[:-1]) for name in names)


@dataclass(frozen=True)
class Columns:
    """Where the cells of a table are.

    names: role ("text", "text_pair", "label") -> column name ("column 2" in a table without a header);
    positions: column name -> position from 0 (csv, tsv; empty where cells have names of their own);
    width: number of columns (csv, tsv; else 0); is_guessed: nothing but the number of columns told the roles.
    """

    names: dict[str, str]
    positions: dict[str, int] = field(default_factory=dict)
    width: int = 0
    is_guessed: bool = False

    def cell(self, record: Record, name: str) -> Any:
        """The cell of `record` in the column `name`; None where a JSON object lacks it."""
        return record.cells[self.positions[name]] if self.width else record.named.get(name)


def is_header(cells: Sequence[str], mapping: Mapping[str, str] | None) -> bool:
    """Whether the first row names columns: `mapping` has names, or the row holds a recognised one."""
    if any(not str(name).strip().isdecimal() for name in (mapping or {}).values()):
        return True
    return any(cell.strip().casefold() in KNOWN_NAMES for cell in cells)


def with_header(
    cells: Sequence[str], mapping: Mapping[str, str] | None, where: str, need_label: bool, others: list[str]
) -> Columns:
    """Columns of a table whose first row is `cells`: those with a role, and `others` (names)."""
    plain = [cell.strip() for cell in cells]
    found = with_names(plain, _positions_to_names(plain, mapping, where), where, need_label, others)
    used = [*found.names.values(), *others]
    return Columns(found.names, {name: plain.index(name) for name in used}, len(plain))


def with_names(
    header: Sequence[str], mapping: Mapping[str, str] | None, where: str, need_label: bool, others: list[str]
) -> Columns:
    """Columns of a table whose cells have names. `mapping` (role -> name) goes before the recognised names.

    Raises InputError when the text, a label that is needed, or one of `others` has no column, or when a name
    that is used stands twice.
    """
    names = {role: _find(header, wanted, where) for role, wanted in check_mapping(mapping).items()}
    if "text" not in names:
        names = {**_recognised_text(header, where), **names}
    if "label" not in names:
        label = next((name for name in LABEL_NAMES if _has(header, name)), None)
        names |= {} if label is None else {"label": _find(header, label, where)}
    for role in ("text", "label") if need_label else ("text",):
        if role not in names:
            raise InputError(
                f"{where} has no column for the {role}: the columns are {_listing(header)}; say which one "
                f"with --columns {role}=NAME."
            )
    for name in others:
        if _find(header, name, where) != name:
            raise InputError(f"{where} has no column '{name}' to choose rows by.")
    return Columns(names)


def without_header(cells: Sequence[str], mapping: Mapping[str, str] | None, where: str, need_label: bool) -> Columns:
    """Columns of a table without a header, whose first row is `cells`."""
    _refuse_other_separator(cells, where)
    width = len(cells)
    mapping = check_mapping(mapping)
    if mapping:
        positions = {role: _position(name, width, where) for role, name in mapping.items()}
    elif width == 1 and not need_label:
        positions = {"text": 0}
    elif width == 2:
        positions = {"text": 0, "label": 1}
    elif width == 3:
        positions = {"text": 0, "text_pair": 1, "label": 2}
    else:
        raise InputError(
            f"{where} has {width} {'column' if width == 1 else 'columns'} and no header with names that are "
            "known: add a header, or say which column is what by position (from 0), for example "
            "--columns text=3,label=1."
        )
    if "text" not in positions or (need_label and "label" not in positions):
        raise InputError(f"{where} has no header: --columns must say where the text and the label are.")
    names = {role: f"column {position + 1}" for role, position in positions.items()}
    return Columns(names, {names[role]: position for role, position in positions.items()}, width, not mapping)


def check_mapping(mapping: Mapping[str, str] | None) -> dict[str, str]:
    """`mapping` as a dict; a role that does not exist, or one column in two roles, is an InputError."""
    ready = {role: str(name).strip() for role, name in (mapping or {}).items()}
    for role in ready:
        if role not in ROLES:
            raise InputError(f"There is no column role '{role}': use {', '.join(ROLES)}.")
    if len(set(ready.values())) < len(ready):
        raise InputError("One column was named for two roles: each role needs its own.")
    return ready


def _positions_to_names(plain: Sequence[str], mapping: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """Replace positions by the header's names, where no column has the digits as its name."""
    ready = {}
    for role, name in check_mapping(mapping).items():
        is_position = name.isdecimal() and not _has(plain, name)
        ready[role] = plain[_position(name, len(plain), where)] if is_position else name
    return ready


def _position(name: str, width: int, where: str) -> int:
    if not name.isdecimal():
        raise InputError(f"{where} has no column '{name}': its first row does not name it.")
    if int(name) >= width:
        raise InputError(f"{where} has no column {name} (counted from 0): it has {width}.")
    return int(name)


def _recognised_text(plain: Sequence[str], where: str) -> dict[str, str]:
    for names in TEXT_NAMES:
        if all(_has(plain, name) for name in names):
            return dict(zip(ROLES, (_find(plain, name, where) for name in names), strict=False))
    return {}


def _has(plain: Sequence[str], name: str) -> bool:
    return name in plain or name.casefold() in [cell.casefold() for cell in plain]


def _find(plain: Sequence[str], name: str, where: str) -> str:
    """`name` as it is written in the header (upper and lower case may differ), which must hold it once."""
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


def _refuse_other_separator(cells: Sequence[str], where: str) -> None:
    """Raise InputError for a single column that is a header with another separator."""
    separators = {";": "semicolons", "\t": "tabs", ",": "commas"}
    for separator, name in separators.items():
        parts = [part.strip().casefold() for part in cells[0].split(separator)]
        if len(cells) == 1 < len(parts) and KNOWN_NAMES.intersection(parts):
            raise InputError(
                f"The columns of {where} are separated by {name}: .csv means commas and .tsv means tabs; "
                "name or write the file so."
            )
