"""The table of all formats of annotated text.

A new one is a parser that yields `Document`s and a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..formats.files import STDIN
from .doccano_prodigy import is_doccano, is_prodigy, parse_doccano, parse_prodigy
from .document import (
    Parsed,
    Reading,
)
from .label_studio import (
    is_label_studio,
    is_label_studio_min,
    is_label_studio_table,
    parse_label_studio,
    parse_label_studio_min,
)
from .sample import Sample, sample_of
from .spacy_files import (
    is_spacy_doc,
    is_spacy_pairs,
    is_spacy_v2,
    parse_docbin,
    parse_spacy_doc,
    parse_spacy_pairs,
    parse_spacy_v2,
)
from .standoff import is_brat, is_webanno, parse_brat, parse_webanno


@dataclass(frozen=True)
class AnnotationFormat:
    """A format of annotated text: its name, how the beginning of a file shows it, and its parser."""

    name: str
    fits: Callable[[Sample], bool]
    parse: Callable[[Reading], Parsed]


def _is_coco(sample: Sample) -> bool:
    return {"images", "annotations"} <= set(sample.first)


def _refuse_coco(reading: Reading) -> Parsed:
    raise reading.wrong_project(1, "this file labels regions of images (COCO)", "images")
    yield  # a generator, as all parsers


FORMATS = (  # in the order in which a file is recognized
    AnnotationFormat("Label Studio JSON", is_label_studio, parse_label_studio),
    AnnotationFormat("Label Studio JSON-MIN", is_label_studio_min, parse_label_studio_min),
    AnnotationFormat("Label Studio CSV", is_label_studio_table, parse_label_studio_min),
    AnnotationFormat("spaCy JSON (paragraphs)", is_spacy_v2, parse_spacy_v2),
    AnnotationFormat("spaCy training pairs", is_spacy_pairs, parse_spacy_pairs),
    AnnotationFormat("Prodigy JSON lines", is_prodigy, parse_prodigy),
    AnnotationFormat("spaCy Doc JSON", is_spacy_doc, parse_spacy_doc),
    AnnotationFormat("Doccano JSON lines", is_doccano, parse_doccano),
    AnnotationFormat("spaCy DocBin", lambda sample: sample.suffix == ".spacy", parse_docbin),
    AnnotationFormat("brat", is_brat, parse_brat),
    AnnotationFormat("WebAnno TSV", is_webanno, parse_webanno),
    AnnotationFormat("COCO", _is_coco, _refuse_coco),
)


def annotation_format(path: Path | str) -> AnnotationFormat | None:
    """Returns the annotation format of a file or folder, None for any other."""
    if str(path) == STDIN or not Path(path).exists():
        return None
    return _recognized(str(path), stamp_of(Path(path)))


def stamp_of(path: Path) -> tuple[Any, ...]:
    """Changes with the content of a file, or of the files in a folder; with the text beside an .ann file."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path, path.with_suffix(".txt")]
    return tuple((str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in files if one.is_file())


@lru_cache(maxsize=16)  # a command asks several times
def _recognized(path: str, _: tuple[Any, ...]) -> AnnotationFormat | None:
    sample = sample_of(Path(path))
    return next((one for one in FORMATS if one.fits(sample)), None)
