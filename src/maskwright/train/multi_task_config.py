"""The recipe of a fine-tuning for several tasks on one encoder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from ..core import registry
from ..core.config import check, fit_types
from ..core.plural import plural
from .finetune_config import FinetuneConfig
from .optimizer import Schedule

_OF_ONE_KIND = {"class_weight": "classification", "multi_label": "classification", "crf": "tagging"}
_UNSET: dict[str, bool | None] = {"class_weight": None, "multi_label": None, "crf": False}


@dataclass(frozen=True)
class MultiTaskConfig:
    """Everything that decides a multi-task fine-tuning. Validated on construction: ConfigError names the setting.

    multi_task: labelled files, each a task of its own: of the kind `task`, or of another that stands before it, as in
    "regression:pairs.tsv"; dev: a dev file for each, in the same order, or none, and a tenth of each is set aside. The
    other settings are those of FinetuneConfig and hold for every task; class_weight and multi_label for those that
    classify, crf for those that tag.
    """

    multi_task: tuple[str, ...]
    output: Path
    task: str = "classification"
    model: str | None = None
    preset: str | None = None
    tokenizer: Path | None = None
    dev: tuple[Path, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    epochs: int = 3
    lr: float = 5e-5
    batch_size: int = 32
    accumulation: int = 1
    max_length: int = 128
    warmup: float = 0.1
    schedule: Schedule = "linear"
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    patience: int = 0
    seeds: int = 1
    average_seeds: bool = False
    freeze_encoder: bool = False
    class_weight: Literal["balanced"] | None = None
    multi_label: bool | None = None
    crf: bool = False
    skip_bad_rows: bool = False
    checkpoint_every: int = 0
    log_every: int = 10
    tensorboard: bool = False
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"

    def __post_init__(self) -> None:
        fit_types(self)
        check(
            len(self.multi_task) >= 2,
            f"--multi-task needs two files or more, and has {len(self.multi_task)}; for one task use --train.",
        )
        check(
            len(self.dev) in (0, len(self.multi_task)),
            f"--dev has {plural(len(self.dev), 'file')} for {len(self.multi_task)} tasks: give one for each, in the "
            "same order, or none.",
        )
        files = Counter((kind, path.resolve()) for kind, path in map(self._split, self.multi_task))
        same = [f"{path} ({kind})" for (kind, path), count in files.items() if count > 1]
        check(not same, f"--multi-task has {', '.join(same)} twice: each file is a task of its own.")
        kinds = {part.task for part in self.parts().values()}  # the checks of each part are ours
        check(
            "anomaly" not in kinds,
            "--multi-task trains the encoder that its tasks share, and anomaly leaves it as it is: fine-tune it alone.",
        )
        for name, kind in _OF_ONE_KIND.items():
            check(
                not getattr(self, name) or kind in kinds,
                f"Setting '{name}' is for {kind}, and no task is of that kind.",
            )

    def parts(self) -> dict[str, FinetuneConfig]:
        """Each task's name, and what it is as a fine-tuning of its own."""
        shared = {setting.name for setting in fields(FinetuneConfig)} & {setting.name for setting in fields(self)}
        values = {name: getattr(self, name) for name in shared - {"dev", "task"}}
        found = {}
        split = [self._split(entry) for entry in self.multi_task]
        for number, (name, (kind, path)) in enumerate(zip(names([path for _, path in split]), split, strict=True)):
            others = {
                setting: None if setting != "crf" else False for setting, of in _OF_ONE_KIND.items() if of != kind
            }
            dev = self.dev[number] if self.dev else None
            found[name] = FinetuneConfig(**{**values, **others, "train": path, "dev": dev, "task": kind})
        return found

    def resolved(self, device: str, precision: str) -> MultiTaskConfig:
        """The same recipe with every automatic setting decided and every path absolute."""
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
        """Kind and file of one entry."""
        kind, colon, path = entry.partition(":")
        if colon and path and kind in registry.names("task"):
            return kind, Path(path)
        is_kind = bool(colon) and re.fullmatch(r"[\w-]{2,}", kind) is not None and not Path(entry).exists()
        check(not is_kind, f"--multi-task {entry}: " + registry.unknown_name("task", kind, registry.names("task")))
        return self.task, Path(entry)


def names(paths: Sequence[Path]) -> list[str]:
    """A distinct name for each file, for folders and the log: its own, else with its folder's, else with a number.

    Names that differ in case alone are one folder on some disks, so they count as the same.
    """
    own = [_plain(path.name.partition(".")[0]) for path in paths]
    if not _are_apart(own):
        folders = [_plain(_folder(path)) for path in paths]
        own = folders if _are_apart(folders) else [f"{a}-{b}" for a, b in zip(folders, own, strict=True)]
    if not _are_apart(own):
        own = [f"{name}-{number}" for number, name in enumerate(own, start=1)]
    return own


def _folder(path: Path) -> str:
    """The name of a file's folder as it was given, not of what a link leads to; "../a.tsv" names none."""
    folder = path.absolute().parent
    return folder.resolve().name if folder.name == ".." else folder.name


def _are_apart(found: Sequence[str]) -> bool:
    return len({name.casefold() for name in found}) == len(found)


def _plain(name: str) -> str:
    plain = re.sub(r"[^\w-]+", "-", name).strip("-") or "task"
    return f"{plain}-task" if plain.casefold() == "eval" else plain  # the log calls dev scores eval_...
