"""What cannot be exported or opened ends in one sentence with exit code 2, and writes nothing."""

from __future__ import annotations

import shutil

import pytest

from export.small_models import small
from maskwright.core.storage import accept
from maskwright.models.build import build
from maskwright.models.presets import preset

SMALL = {"vocab_size": 150, "hidden_size": 16, "num_hidden_layers": 1, "max_position_embeddings": 32}


def refused(found, said: str) -> None:
    """The command ended as a wrong input does."""
    code, out, err = found
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1 and said in err, err


@pytest.mark.parametrize(
    ("name", "head", "changes", "said"),
    [
        ("bert-tiny", "tagging-crf", {"num_attention_heads": 2}, "the CRF"),
        ("bilstm-small", None, {}, "a recurrent network"),
        ("seq2seq-small", "seq2seq", {"num_decoder_layers": 1}, "a recurrent network"),
        ("bert-tiny", "classification", {"num_attention_heads": 2, "top_layers": 1}, "top_layers"),
        ("bert-tiny", None, {"num_attention_heads": 2, "attention": "big_bird", "block_size": 4}, "sparse pattern"),
        ("transformer-mini", None, {"num_attention_heads": 2, "num_decoder_layers": 1}, "without a head"),
    ],
)
def test_a_network_without_a_graph(maskwright, tmp_path, name, head, changes, said):
    model = build(preset(name, **SMALL | changes), head, labels=["O", "B-A"] if head == "tagging-crf" else None)
    model.tokenizer = small("bert-tiny").tokenizer
    model.save(tmp_path / "model")
    refused(maskwright("export", tmp_path / "model", "-o", tmp_path / "out", "--quiet"), said)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def custom(onnx, graph):
    """An operator of another domain."""
    graph.graph.node[0].domain = "com.example"


def old(onnx, graph):
    """An old version of the operators."""
    graph.opset_import[0].version = 9


def outside(onnx, graph):
    """Weights of a file outside of the folder."""
    tensor = next(one for one in graph.graph.initializer if len(one.raw_data) > 64)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../secret.bin")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (custom, "custom operator, com.example"),
        (old, "opset 9, which is too old"),
        (outside, "outside of its folder"),
    ],
)
def test_a_graph_that_is_not_ours(maskwright, exported_encoder, tmp_path, change, said):
    onnx = pytest.importorskip("onnx")
    folder = tmp_path / "changed"
    shutil.copytree(exported_encoder, folder)
    graph = onnx.load(folder / "onnx" / "model.onnx")
    change(onnx, graph)
    (folder / "onnx" / "model.onnx").write_bytes(graph.SerializeToString())
    (tmp_path / "secret.bin").write_bytes(bytes(1 << 16))
    refused(maskwright("embed", folder, "a text", "--quiet"), "model.onnx")  # its hash
    accept(folder)
    refused(maskwright("embed", folder, "a text", "--quiet"), said)


def test_a_graph_that_is_missing(maskwright, exported_encoder, tmp_path):
    folder = tmp_path / "without"
    shutil.copytree(exported_encoder, folder)
    (folder / "onnx" / "model.onnx").unlink()
    refused(maskwright("embed", folder, "a text", "--quiet"), "model.onnx")
    accept(folder)
    refused(maskwright("embed", folder, "a text", "--quiet"), "model.onnx is missing")


def test_a_text_beyond_the_length_of_the_graph(maskwright, exported_encoder):
    refused(maskwright("embed", exported_encoder, "a text", "--max-length", "41", "--quiet"), "supports 3 to 40")
