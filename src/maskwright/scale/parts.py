"""Parts of a result, each with a note that it is finished; a rerun makes only those that are missing.

The name of a part has a digest of everything that decides its content. A part is finished when its note in `_done/`
exists; whoever makes it again writes the same content.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..core.errors import InputError, MaskwrightError, RowError, RowErrors, RunError
from ..core.progress import note
from ..core.util import plural
from .paths import names_in, read_json, write

DONE = "_done"
ATTEMPTS, PAUSE_SECONDS = 4, 2.0  # of a part whose reading or writing fails, as on a busy object store

Items = Mapping[str, dict[str, Any]]
"""What workers get, by name of the part, in the order of the input: "name", "uri" of the input, and what they need."""


class Worker(ABC):
    """Makes parts in a folder; made once in each worker process."""

    def __init__(self, output: str) -> None:
        self.output = output

    @abstractmethod
    def make_part(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
        """Write a part. Returns its facts, with "name"."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Ray Data's function of a batch: items as JSON in the column "item"; facts as JSON in "facts"."""
        return {"facts": np.array([json.dumps(self.compute(json.loads(item))) for item in batch["item"]], dtype=object)}

    def compute(self, item: dict[str, Any]) -> dict[str, Any]:
        """Make one part. Returns its facts, or its bad rows ("bad_rows"), or why it failed ("error")."""
        name = item["name"]
        for attempt in range(1, ATTEMPTS + 1):
            try:
                facts = self.make_part(name, item)
                write(_note_of(self.output, name), json.dumps(facts).encode())
                return facts
            except RowErrors as error:
                return {"name": name, "bad_rows": [asdict(row) for row in error.rows], "rows": error.num_good}
            except MaskwrightError as error:
                return {"name": name, "error": str(error)}
            except OSError as error:
                if attempt == ATTEMPTS:
                    return {"name": name, "error": f"{item['uri']} failed {ATTEMPTS} times: {error}"}
                time.sleep(PAUSE_SECONDS * attempt)
        raise AssertionError("every attempt returns or fails")


def complete(
    output: str, items: Items, compute: Callable[[list[dict[str, Any]]], dict[str, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Let `compute` make the parts of a folder that are missing. Returns the facts of all, in the order of the items.

    Raises RunError when the folder has parts of other inputs or settings, RowErrors or InputError when parts failed.
    """
    names = names_in(output)
    others = sorted(name for name in names if name.startswith("part-") and name not in items and ".tmp-" not in name)
    if others:
        raise RunError(
            f"{output} has results of other inputs, settings or another model ({others[0]}): choose another folder."
        )
    finished = noted(output) & set(names)
    missing = [item for name, item in items.items() if name not in finished]
    if len(missing) < len(items):
        note(f"{len(items) - len(missing)} of {plural(len(items), 'part')} were finished before.")
    facts = {name: read_note(output, name) for name in items if name in finished}
    if missing:
        facts |= compute(missing)
    _raise_errors(facts.values())
    return [facts[name] for name in items]


def noted(output: str) -> set[str]:
    """The parts that have been finished."""
    return {name.removesuffix(".json") for name in names_in(f"{output}/{DONE}")}


def read_note(output: str, name: str) -> dict[str, Any]:
    """The facts of a finished part."""
    return read_json(_note_of(output, name))


def _note_of(output: str, name: str) -> str:
    return f"{output}/{DONE}/{name}.json"


def _raise_errors(facts: Iterable[dict[str, Any]]) -> None:
    """Raise RowErrors for all bad rows, or InputError for failed parts; nothing if there are none."""
    facts = list(facts)
    if failed := [one["error"] for one in facts if "error" in one]:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise InputError(f"{failed[0]}{more}")
    if bad := [RowError(**row) for one in facts for row in one.get("bad_rows", ())]:
        raise RowErrors(bad, sum(one["rows"] for one in facts))
