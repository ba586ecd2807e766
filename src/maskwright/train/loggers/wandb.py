"""Weights & Biases. Without WANDB_MODE=online the run is written to `wandb/` in the run folder, for `wandb sync`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .base import scalars, settings
from .tracker import Tracker


class WandbLogger(Tracker):
    """A run of Weights & Biases."""

    name: ClassVar[str] = "wandb"
    _open: Any = None

    def begin(self, run: str | None) -> str:
        """Open the run once; a resumed training continues the same one."""
        if self._open is None:
            import wandb

            run = run or secrets.token_hex(8)
            mode: Any = os.environ.get("WANDB_MODE", "offline")  # wandb checks it
            self._open = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "maskwright"),
                dir=str(self.folder),
                id=run,
                name=os.environ.get("WANDB_NAME", str(self.folder)),
                resume="allow",
                mode=mode,
                config=settings(self.recipe),
                reinit="create_new",
                settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
            )
        return str(self._open.id)

    def send(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Log each record at its step."""
        for record in records:
            self._open.log(scalars(record), step=record["step"])

    def end(self, is_finished: bool) -> None:
        """Write what is pending."""
        if self._open is not None:
            self._open.finish(exit_code=0 if is_finished else 1)
            self._open = None
