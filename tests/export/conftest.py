"""Model folders and exported ones that several tests look at, made once for all processes of a test run."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from export.small_models import small, small_translator
from maskwright.export.config import ExportConfig
from maskwright.export.export import export_model
from maskwright.models.model import SentenceSettings


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Makes a folder if no process has made it yet; returns its path."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def made(name: str, make: Callable[[Path], object]) -> Path:
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / name).exists():
                make(root / name)
        return root / name

    return made


@pytest.fixture(scope="session")
def exported(once):
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    return lambda folder: once(
        f"exported-{folder.name}", lambda output: export_model(ExportConfig(model=str(folder), output=output))
    )


@pytest.fixture(scope="session")
def encoder_folder(once):
    model = small("bert-tiny")
    model.sentence = SentenceSettings("mean", True, 24)
    return once("encoder", model.save)


@pytest.fixture(scope="session")
def classifier_folder(once):
    model = small("roberta-base", "classification")
    return once("classifier", lambda folder: model.save(folder, facts={"task": "classification"}))


@pytest.fixture(scope="session")
def exported_encoder(exported, encoder_folder):
    return exported(encoder_folder)


@pytest.fixture(scope="session")
def exported_classifier(exported, classifier_folder):
    return exported(classifier_folder)


@pytest.fixture(scope="session")
def generators(once, exported):
    folder = once("generator", small("gpt2", "clm", num_hidden_layers=1).save)
    return folder, exported(folder)


@pytest.fixture(scope="session")
def translators(once, exported):
    model = small_translator(num_hidden_layers=1, num_decoder_layers=1)
    folder = once("translator", lambda folder: model.save(folder, facts={"task": "translation"}))
    return folder, exported(folder)
