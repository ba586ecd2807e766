"""One server with a small model of each kind for all tests that do not change it."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folders of small models by name."""
    from studio.models import (
        write,
        write_answerer,
        write_classifier,
        write_masked,
        write_tagger,
        write_translator,
        write_writer,
    )

    folder = tmp_path_factory.mktemp("models")
    return {
        "vectors": write(folder / "vectors", None),
        "topics": write_classifier(folder / "topics"),
        "entails": write(
            folder / "entails", "classification", {"task": "classification"}, labels=["entailment", "contradiction"]
        ),
        "names": write_tagger(folder / "names"),
        "reader": write_masked(folder / "reader"),
        "answers": write_answerer(folder / "answers"),
        "writer": write_writer(folder / "writer"),
        "translator": write_translator(folder / "translator"),
    }


@pytest.fixture(scope="session")
def served(models):
    """The server."""
    from serve.in_thread import serving

    with serving(model=tuple(f"{name}={folder}" for name, folder in models.items()), access_log=False) as found:
        yield found
