"""What pages with a file share: its errors, the samples of the package, and the files that were opened last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..core.errors import InputError, RowError, RowErrors

Content = TypeVar("Content")


class LastOpened(Generic[Content]):
    """The contents of at most `most` files, each as a model reads it."""

    def __init__(self, most: int) -> None:
        self.most = most
        # With the object whose `id` is in the key, so that no other object can have this `id`.
        self._kept: OrderedDict[tuple[Hashable, ...], tuple[Any, Content]] = OrderedDict()

    def get(self, model: Any, key: Hashable, read: Callable[[], Content]) -> Content:
        """Returns the content for a model and a key, read if it is not kept."""
        whole = (id(model), key)
        if whole not in self._kept:
            self._kept[whole] = (model, read())
        self._kept.move_to_end(whole)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return self._kept[whole][1]


@contextmanager
def naming_the_file(path: Path, name: str = "The file") -> Iterator[None]:
    """Errors say `name` for an uploaded file, whose path means nothing to the user."""
    try:
        yield
    except RowErrors as error:
        raise RowErrors([RowError("the file", row.line, row.column, row.reason) for row in error.rows]) from None
    except InputError as error:
        raise InputError(str(error).replace(str(path), name)) from None


def sample(name: str) -> Path:
    """Returns the path of a sample of the package."""
    return Path(str(resources.files(__package__) / "samples" / name))
