"""Exported folders that several tests look at."""

from __future__ import annotations

import pytest

from export.small_models import small, small_translator
from maskwright.export.config import ExportConfig
from maskwright.export.export import export_model
from maskwright.models.model import SentenceSettings


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory):
    """A small sentence encoder as a model folder."""
    folder = tmp_path_factory.mktemp("encoder") / "model"
    model = small("bert-tiny")
    model.sentence = SentenceSettings("mean", True, 24)
    model.save(folder)
    return folder


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory):
    """A small classifier of three classes as a model folder."""
    folder = tmp_path_factory.mktemp("classifier") / "model"
    small("roberta-base", "classification").save(folder, facts={"task": "classification"})
    return folder


@pytest.fixture(scope="session")
def exported_encoder(encoder_folder):
    """The sentence encoder as an ONNX graph."""
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    return export_model(ExportConfig(model=str(encoder_folder), output=encoder_folder.parent / "exported")).folder


@pytest.fixture(scope="session")
def exported_classifier(classifier_folder):
    """The classifier as an ONNX graph."""
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    return export_model(ExportConfig(model=str(classifier_folder), output=classifier_folder.parent / "exported")).folder


@pytest.fixture(scope="session")
def generators(tmp_path_factory):
    """Folders of a causal model and of its graph."""
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    folder = tmp_path_factory.mktemp("generator")
    small("gpt2", "clm", num_hidden_layers=1).save(folder / "model")
    return folder / "model", export_model(ExportConfig(model=str(folder / "model"), output=folder / "out")).folder


@pytest.fixture(scope="session")
def translators(tmp_path_factory):
    """Folders of an encoder-decoder and of its graphs."""
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    folder = tmp_path_factory.mktemp("translator")
    small_translator(num_hidden_layers=1, num_decoder_layers=1).save(folder / "model", facts={"task": "translation"})
    return folder / "model", export_model(ExportConfig(model=str(folder / "model"), output=folder / "out")).folder
