"""Maps table columns to text, text pair and label.

Column names of well-known benchmarks are recognized; `--columns text=body,label=y` maps others. Without a header, two
columns are text and label, three are text, text pair and label; any other number needs positions
(`--columns text=3,label=1`, counted from 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import InputError
from .records import Record

ROLES = ("text", "text_pair", "label")
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
    ("source",),
    ("prompt",),
)
LABEL_NAMES = ("label", "score", "gold_label", "is_duplicate", "Quality")
# A cell "quality" alone does not make a header: it may be a text.
KNOWN_NAMES = frozenset(name.casefold() for names in (*TEXT_NAMES, LABEL_NAMES[:-1]) for name in names)


@dataclass(frozen=True)
class Columns:
    """Column mapping of a table.

    names: role ("text", "text_pair", "label") -> column name ("column 2" without a header); positions: column name ->
    position from 0 (csv, tsv; empty for formats with named cells); width: number of columns (csv, tsv; else 0);
    is_inferred: the roles were inferred only from the number of columns.
    """

    names: dict[str, str]
    positions: dict[str, int] = field(default_factory=dict)
    width: int = 0
    is_inferred: bool = False

    def cell(self, record: Record, name: str) -> Any:
        """Returns the cell of `record` in column `name`; None if a JSON object lacks it."""
        return record.cells[self.positions[name]] if self.width else record.named.get(name)


def is_header(cells: Sequence[str], mapping: Mapping[str, str] | None) -> bool:
    """Whether the first row is a header: `mapping` uses names, or the row contains a recognized name."""
    if any(not str(name).strip().isdecimal() for name in (mapping or {}).values()):
        return True
    return any(cell.strip().casefold() in KNOWN_NAMES for cell in cells)


def with_header(
    cells: Sequence[str], mapping: Mapping[str, str] | None, where: str, need_label: bool, others: list[str]
) -> Columns:
    """Returns the column mapping of a table with the header `cells`: role columns and `others` (names)."""
    plain = [cell.strip() for cell in cells]
    found = with_names(plain, _positions_to_names(plain, mapping, where), where, need_label, others)
    used = [*found.names.values(), *others]
    return Columns(found.names, {name: plain.index(name) for name in used}, len(plain))


def with_names(
    header: Sequence[str], mapping: Mapping[str, str] | None, where: str, need_label: bool, others: list[str]
) -> Columns:
    """Returns the column mapping of a table with named cells. `mapping` (role -> name) precedes recognized names.

    Raises InputError if text, a required label or one of `others` has no column, or if a used name is duplicated.
    """
    names = {role: _find(header, wanted, where) for role, wanted in check_mapping(mapping).items()}
    if "text" not in names:
        names = {**_recognized_text(header, where), **names}
    if "label" not in names:
        label = next((name for name in LABEL_NAMES if _has(header, name)), None)
        names |= {} if label is None else {"label": _find(header, label, where)}
    for role in ("text", "label") if need_label else ("text",):
        if role not in names:
            raise InputError(
                f"{where} has no column for the {role}: the columns are {_listing(header)}. Specify one with "
                f"--columns {role}=NAME."
            )
    for name in others:
        if _find(header, name, where) != name:
            raise InputError(f"{where} has no column '{name}' to filter rows by.")
    return Columns(names)


def without_header(cells: Sequence[str], mapping: Mapping[str, str] | None, where: str, need_label: bool) -> Columns:
    """Returns the column mapping of a table without a header, whose first row is `cells`."""
    _reject_other_delimiter(cells, where)
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
            f"{where} has {width} {'column' if width == 1 else 'columns'} and no header with recognized names: "
            "add a header, or map columns by position (from 0), for example --columns text=3,label=1."
        )
    if "text" not in positions or (need_label and "label" not in positions):
        raise InputError(f"{where} has no header: specify the positions of text and label with --columns.")
    names = {role: f"column {position + 1}" for role, position in positions.items()}
    return Columns(names, {names[role]: position for role, position in positions.items()}, width, not mapping)


def check_mapping(mapping: Mapping[str, str] | None) -> dict[str, str]:
    """Returns `mapping` as a dict. Raises InputError for an unknown role, or one column in two roles."""
    ready = {role: str(name).strip() for role, name in (mapping or {}).items()}
    for role in ready:
        if role not in ROLES:
            raise InputError(f"Unknown column role '{role}': use {', '.join(ROLES)}.")
    if len(set(ready.values())) < len(ready):
        raise InputError("One column is mapped to two roles: use a different column for each.")
    return ready


def _positions_to_names(plain: Sequence[str], mapping: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """Replace positions by header names, unless a column name consists of those digits."""
    ready = {}
    for role, name in check_mapping(mapping).items():
        is_position = name.isdecimal() and not _has(plain, name)
        ready[role] = plain[_position(name, len(plain), where)] if is_position else name
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
    return {}


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


def _reject_other_delimiter(cells: Sequence[str], where: str) -> None:
    """Raise InputError for a single column that is a header with a different delimiter."""
    separators = {";": "semicolons", "\t": "tabs", ",": "commas"}
    for separator, name in separators.items():
        parts = [part.strip().casefold() for part in cells[0].split(separator)]
        if len(cells) == 1 < len(parts) and KNOWN_NAMES.intersection(parts):
            raise InputError(
                f"The columns of {where} are separated by {name}, but .csv means commas and .tsv means tabs: "
                "rename or convert the file."
            )
