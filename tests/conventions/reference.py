"""The generated reference: its pages below docs/reference, of which those of commands, settings and names are written
here, because they are not stored in the repository.
"""

import importlib.util
from types import ModuleType

from conventions.sources import REPOSITORY


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", REPOSITORY / "tools" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = generator()
PAGES: dict[str, str] = REFERENCE.pages()
REFERENCE.write_pages(PAGES, only=REFERENCE.BUILT)
