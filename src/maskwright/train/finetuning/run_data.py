"""The data of a fine-tuning run: labeled rows, read and held out, and what its report reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import registry
from ...core.errors import InputError
from ...core.progress import note, warn
from ...core.util import plural
from ...hub.folders import LoadReport
from ...tasks.base import AnyTable, Task, TaskData
from ...tasks.specs import check_content, spec_of
from ...tasks.split import hold_out
from ...text.readers.tables import Table
from ...text.readers.tagged import Sentence
from .config import FinetuneConfig

DEV_SHARE = 0.1


@dataclass(frozen=True)
class LabeledData:
    """The rows of a run. from_train: whether dev was held out from train; skipped: number of skipped bad rows."""

    train: list[Any]
    dev: list[Any]
    from_train: bool
    skipped: int


@dataclass(frozen=True, kw_only=True)
class RunData(TaskData):
    """Task, rows and settings of a run, for its report.

    is_split: whether dev was held out from train; num_skipped: number of skipped bad rows; loaded: the loaded and new
    weights of the model.
    """

    config: FinetuneConfig
    is_split: bool
    num_skipped: int
    loaded: LoadReport


def read_data(config: FinetuneConfig) -> LabeledData:
    """Read train and dev; without dev, hold out a tenth of train (`tasks.split`)."""
    cls: type[Task] = registry.resolve("task", config.task_name)
    train_table = _table(config, cls, config.train, config.train_target)
    if config.dev is not None:
        dev_table = _table(config, cls, config.dev, config.dev_target, like=train_table)
        return LabeledData(train_table.rows, dev_table.rows, False, train_table.num_skipped + dev_table.num_skipped)
    rows = train_table.rows
    if len(rows) < 10:
        noun = "sentence" if isinstance(rows[0], Sentence) else "row"
        raise InputError(
            f"{config.train} has {plural(len(rows), noun)}; 10 are needed to hold out a dev split. Pass --dev FILE."
        )
    lines = getattr(train_table, "groups", None)
    groups = [lines[row.line] for row in rows] if lines else None
    try:
        dev = hold_out(cls.strata(rows), cls.texts_apart(rows), DEV_SHARE, config.seed, groups)
    except InputError as error:
        raise InputError(f"{config.train}: {error} Pass --dev FILE.") from None
    are = "is" if len(dev) == 1 else "are"
    note(f"No --dev: {len(dev):,} of {len(rows):,} training rows {are} held out.")
    return LabeledData(
        [row for number, row in enumerate(rows) if number not in dev],
        [row for number, row in enumerate(rows) if number in dev],
        True,
        train_table.num_skipped,
    )


def _table(
    config: FinetuneConfig, cls: type[Task], path: Path, target: Path | None = None, like: AnyTable | None = None
) -> AnyTable:
    """like: the training rows, if their form is that of the dev rows as well."""
    spec = spec_of(config.task_name)
    own = {name: getattr(config, name) for name in spec.read_settings}
    if target is None and not config.columns:
        reader = check_content(path, config.task_name)
        own |= {"reader": reader} if len(spec.reads) > 1 else {}
    if isinstance(like, Table) and "multi_label" in own:
        own["like"] = like
    table = cls.read(
        path if target is None else (path, target),  # type: ignore[arg-type]  # of translation alone
        columns=config.roles or None,
        skip_bad_rows=config.skip_bad_rows,
        **own,
    )
    if table.num_skipped:
        warn(f"{path}: {plural(table.num_skipped, 'bad row is', 'bad rows are')} skipped.")
    return table


# -- A few held-out rows that a model folder carries, so that the studio opens on texts of the model's task ----------


MAX_EXAMPLES = 3
MAX_TEXT, MAX_PAIR = 200, 1_000  # characters


def held_out_examples(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return up to three short rows, one of each label first: {"text", "text_pair", "label"}, without empty entries.

    rows: `AnyRow`s that the model was not trained on.
    """
    short = [row for row in rows if 0 < len(row.text) <= MAX_TEXT and len(row.text_pair or "") <= MAX_PAIR]
    firsts: dict[str, Any] = {}
    for row in short:
        firsts.setdefault(str(row.label), row)
    others = [row for row in short if firsts[str(row.label)] is not row]
    return [_shown(row) for row in [*firsts.values(), *others][:MAX_EXAMPLES]]


def _shown(row: Any) -> dict[str, Any]:
    label = row.label if isinstance(row.label, (str, int, float)) else None
    facts = {"text": row.text, "text_pair": row.text_pair, "label": label}
    return {name: value for name, value in facts.items() if value is not None}
