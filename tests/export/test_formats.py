"""OpenVINO models and torch programs, the checks of a graph file, and folders that maskwright does not open."""

from __future__ import annotations

import pytest

from export.small_models import small
from maskwright.api import load
from maskwright.core.errors import ModelFolderError
from maskwright.export.config import ExportConfig
from maskwright.export.export import export_model
from maskwright.export.graph_checks import check_onnx


@pytest.mark.slow
@pytest.mark.parametrize("head", [None, "choice"])
def test_a_torch_program_agrees(head, tmp_path):
    small("bert-tiny", head).save(tmp_path / "model")
    config = ExportConfig(model=str(tmp_path / "model"), output=tmp_path / "out", to="torch")
    found = export_model(config)
    assert (found.folder / "torch" / "model.pt2").is_file() and not (found.folder / "onnx").exists()
    assert found.agreement.num_texts >= 64


@pytest.mark.slow
def test_an_openvino_model_agrees(encoder_folder, tmp_path):
    pytest.importorskip("openvino", reason="openvino is not installed")
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    found = export_model(ExportConfig(model=str(encoder_folder), output=tmp_path / "out", to="openvino"))
    assert found.agreement.runtime.startswith("OpenVINO")
    assert (found.folder / "openvino_model.bin").is_file() and not (found.folder / "onnx").exists()


@pytest.mark.slow
def test_a_torch_program_is_not_opened(tmp_path):
    small("bert-tiny").save(tmp_path / "model")
    export_model(ExportConfig(model=str(tmp_path / "model"), output=tmp_path / "out", to="torch"))
    with pytest.raises(ModelFolderError, match="which maskwright does not open"):
        load(tmp_path / "out")


@pytest.fixture
def graph(exported_encoder):
    """The content of an exported graph, to change."""
    onnx = pytest.importorskip("onnx")
    return onnx.load(exported_encoder / "onnx" / "model.onnx")


def saved(graph, path):
    """Write a changed graph."""
    path.write_bytes(graph.SerializeToString())
    return path


def test_a_custom_operator_is_refused(graph, tmp_path):
    graph.graph.node[0].domain = "com.example"
    with pytest.raises(ModelFolderError, match="custom operator, com.example"):
        check_onnx(saved(graph, tmp_path / "model.onnx"))


def test_an_old_opset_is_refused(graph, tmp_path):
    graph.opset_import[0].version = 9
    with pytest.raises(ModelFolderError, match="opset 9, which is too old"):
        check_onnx(saved(graph, tmp_path / "model.onnx"))


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "model.onnx_data"])
def test_external_data_must_be_in_the_folder(graph, tmp_path, location):
    tensor = next(one for one in graph.graph.initializer if len(one.raw_data) > 64)
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value=location)
    with pytest.raises(ModelFolderError, match="reads its weights from"):
        check_onnx(saved(graph, tmp_path / "model.onnx"))


def test_a_file_that_is_no_graph_is_refused(tmp_path):
    pytest.importorskip("onnx")
    (tmp_path / "model.onnx").write_bytes(b"\xff\xfe not a graph")
    with pytest.raises(ModelFolderError, match="is not an ONNX graph"):
        check_onnx(tmp_path / "model.onnx")
