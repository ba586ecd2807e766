"""Small models of each kind for a server, made once for a test run, under the names that it serves them by."""

from pathlib import Path

from studio.models import (
    write,
    write_answerer,
    write_classifier,
    write_masked,
    write_parts_of_speech,
    write_tagger,
    write_translator,
    write_writer,
)

WRITERS = {
    "vectors": lambda folder: write(folder, None),
    "topics": write_classifier,
    "names": write_tagger,
    "words": write_parts_of_speech,
    "reader": write_masked,
    "answers": write_answerer,
    "writer": write_writer,
    "translator": write_translator,
}


def write_models(folder: Path, *names: str) -> list[str]:
    """Write models, all by default; returns the options that serve them."""
    options = []
    for name in names or WRITERS:
        options += ["--model", f"{name}={WRITERS[name](folder / name)}"]
    return options
