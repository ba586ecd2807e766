"""The recipe of a multi-task fine-tuning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from ....core import registry
from ....core.config import DATA, check, default_of, fit_types, option, settings_of
from ....core.util import plural
from ....tasks.specs import spec_of
from ... import settings
from ...schedules import Schedule
from ..config import DEFAULT_TASK, FinetuneConfig

_SAME = settings_of(FinetuneConfig)


@dataclass(frozen=True)
class MultiTaskConfig:
    """Everything that decides a multi-task fine-tuning. Validated on construction: ConfigError names the setting.

    multi_task: labeled files, one per task: of the type `task`, or of the type in its prefix, as in
    "regression:pairs.tsv"; dev: a dev file for each, in the same order; empty to hold out a tenth of each file. The
    other settings are those of FinetuneConfig and apply to every task; class_weight and multi_label to classification,
    crf to tagging.
    """

    COMMAND: ClassVar[str] = "finetune"

    multi_task: tuple[str, ...] = option(
        help="Multi-task training instead of --train: labeled files, one per task, with a shared encoder.",
        metavar="[TASK:]FILE ...",
        default_help="none: one task",
        panel=DATA,
    )
    output: Path = option(help=settings.OUTPUT)
    task: str = option(DEFAULT_TASK, _SAME["task"])
    model: str | None = option(None, _SAME["model"])
    preset: str | None = option(None, _SAME["preset"])
    tokenizer: Path | None = option(None, _SAME["tokenizer"])
    dev: tuple[Path, ...] = option((), _SAME["dev"])
    columns: dict[str, str] = option({}, settings.COLUMNS)
    epochs: int = option(3, settings.EPOCHS)
    lr: float = option(5e-5, settings.LR)
    batch_size: int = option(32, settings.BATCH_SIZE)
    accumulation: int = option(None, settings.ACCUMULATION)
    max_length: int = option(128, settings.MAX_LENGTH)
    warmup: float = option(0.1, settings.WARMUP)
    schedule: Schedule = option("linear", settings.SCHEDULE)
    weight_decay: float = option(0.01, settings.WEIGHT_DECAY)
    clip_norm: float = option(1.0, settings.CLIP_NORM)
    patience: int = option(0, _SAME["patience"])
    seeds: int = option(1, settings.SEEDS)
    average_seeds: bool = option(False, _SAME["average_seeds"])
    freeze_encoder: bool = option(False, _SAME["freeze_encoder"])
    class_weight: Literal["balanced"] | None = option(None, _SAME["class_weight"])
    multi_label: bool | None = option(None, _SAME["multi_label"])
    crf: bool = option(False, _SAME["crf"])
    skip_bad_rows: bool = option(False, settings.SKIP_BAD_ROWS)
    checkpoint_every: int = option(0, _SAME["checkpoint_every"])
    log_every: int = option(10, settings.LOG_EVERY)
    log: tuple[str, ...] = option((), settings.LOG)
    tensorboard: bool = option(False, settings.TENSORBOARD)
    seed: int = option(0, settings.SEED)
    device: settings.Device = option("auto", settings.DEVICE)
    precision: settings.Precision = option("auto", settings.PRECISION)

    def __post_init__(self) -> None:
        settings.fill_accumulation(self)
        fit_types(self)
        settings.check_log(self)
        check(
            len(self.multi_task) >= 2,
            f"--multi-task needs two files or more, and has {len(self.multi_task)}; for one task use --train.",
        )
        check(
            len(self.dev) in (0, len(self.multi_task)),
            f"--dev has {plural(len(self.dev), 'file')} for {len(self.multi_task)} tasks: pass one for each, in the "
            "same order, or none.",
        )
        files = Counter((kind, path.resolve()) for kind, path in map(self._split, self.multi_task))
        same = [f"{path} ({kind})" for (kind, path), count in files.items() if count > 1]
        check(not same, f"--multi-task has {', '.join(same)} twice: each file must be a separate task.")
        kinds = {part.task for part in self.parts().values()}  # the checks of each part are ours
        frozen = sorted(kind for kind in kinds if spec_of(kind).freezes_encoder)
        check(
            not frozen,
            f"--multi-task trains a shared encoder, and {''.join(frozen[:1])} freezes its encoder: fine-tune "
            f"{''.join(frozen[:1])} separately.",
        )
        for name in _OF_SOME:
            check(
                not getattr(self, name) or any(_SAME[name].is_for(kind) for kind in kinds),
                f"Setting '{name}' is for {' and '.join(_SAME[name].tasks)}, and no task has that type.",
            )

    @property
    def dependent_defaults(self) -> dict[str, Any]:
        """The defaults that depend on the number of processes."""
        return settings.SINGLE_PROCESS

    def parts(self) -> dict[str, FinetuneConfig]:
        """The fine-tuning recipe of each task, by name."""
        shared = {setting.name for setting in fields(FinetuneConfig)} & {setting.name for setting in fields(self)}
        values = {name: getattr(self, name) for name in shared - {"dev", "task"}}
        found = {}
        split = [self._split(entry) for entry in self.multi_task]
        for number, (name, (kind, path)) in enumerate(zip(names([path for _, path in split]), split, strict=True)):
            others = {setting: _UNSET[setting] for setting in _OF_SOME if not _SAME[setting].is_for(kind)}
            dev = self.dev[number] if self.dev else None
            found[name] = FinetuneConfig(**{**values, **others, "train": path, "dev": dev, "task": kind})
        return found

    def resolved(self, device: str, precision: str) -> MultiTaskConfig:
        """The recipe with every automatic setting resolved and every path absolute."""
        parts = [part.resolved(device, precision) for part in self.parts().values()]
        return replace(
            self,
            device=parts[0].device,
            precision=parts[0].precision,
            output=parts[0].output,
            tokenizer=parts[0].tokenizer,
            model=parts[0].model,
            multi_task=tuple(
                str(part.train) if part.task == self.task else f"{part.task}:{part.train}" for part in parts
            ),
            dev=tuple(part.dev for part in parts if part.dev is not None),
        )

    def _split(self, entry: str) -> tuple[str, Path]:
        """Task type and file of one entry."""
        kind, colon, path = entry.partition(":")
        if colon and path and kind in registry.names("task"):
            return kind, Path(path)
        is_kind = bool(colon) and re.fullmatch(r"[\w-]{2,}", kind) is not None and not Path(entry).exists()
        check(not is_kind, f"--multi-task {entry}: " + registry.unknown_name("task", kind, registry.names("task")))
        return self.task, Path(entry)


# Settings that only some tasks have, and their values for the others.
_OF_SOME = [one.name for one in fields(MultiTaskConfig) if one.name in _SAME and _SAME[one.name].tasks]
_UNSET = {one.name: default_of(one) for one in fields(MultiTaskConfig)}


def names(paths: Sequence[Path]) -> list[str]:
    """A unique name for each file, for folders and the log: its stem, else with its folder, else with a number.

    Names that differ only in case count as equal, because some file systems ignore case.
    """
    own = [_plain(path.name.partition(".")[0]) for path in paths]
    if not _are_apart(own):
        folders = [_plain(_folder(path)) for path in paths]
        own = folders if _are_apart(folders) else [f"{a}-{b}" for a, b in zip(folders, own, strict=True)]
    if not _are_apart(own):
        own = [f"{name}-{number}" for number, name in enumerate(own, start=1)]
    return own


def _folder(path: Path) -> str:
    """The name of a file's folder, without resolving links except for "../a.tsv"."""
    folder = path.absolute().parent
    return folder.resolve().name if folder.name == ".." else folder.name


def _are_apart(found: Sequence[str]) -> bool:
    return len({name.casefold() for name in found}) == len(found)


def _plain(name: str) -> str:
    plain = re.sub(r"[^\w-]+", "-", name).strip("-") or "task"
    return f"{plain}-task" if plain.casefold() == "eval" else plain  # the log calls dev scores eval_...
