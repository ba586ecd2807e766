"""The contract of loggers: nothing is written before a record, then a file in the run folder tells that one was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from maskwright.core import registry
from maskwright.core.errors import MissingExtraError


def begins_with_a_record(name: str, folder: Path) -> None:
    """A logger that is made, checked and closed leaves the folder empty; with a record it has its file."""
    logger = registry.resolve("logger", name)(folder, {"lr": 1.0})
    try:
        logger.check()
    except MissingExtraError as error:
        assert error.extra == name
        return
    logger.close(False)
    assert not list(folder.iterdir()) and logger.path.parent == folder
    logger.append({"step": 1, "time": 1.0, "loss": 2.0, "names": ["a"]})
    logger.close(True)
    assert logger.path.is_file()


LOGGER: dict[str, Callable[[str, Path], None]] = {
    "files": begins_with_a_record,
}
