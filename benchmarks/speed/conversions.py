"""A model folder in the formats of other runtimes, converted once and kept in the contest's work folder.

settings: model, work (a folder), calibration (texts that are not those of the contest), max_length.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Settings = dict[str, Any]
OPSET = 17
SECOND_PRODUCTS = r".*layer\.\d+/output/dense/.*"  # of the feed-forward networks: their inputs have outliers


def onnx_graph(settings: Settings) -> Path:
    """The encoder as an ONNX graph with free batch and length."""
    import torch
    from transformers import AutoModel

    path = Path(settings["work"]) / "model.onnx"
    if path.exists():
        return path
    model = AutoModel.from_pretrained(settings["model"], attn_implementation="eager").eval()

    class LastLayer(torch.nn.Module):
        """Only the last layer leaves the graph."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids):  # type: ignore[no-untyped-def]
            # Masks are made here, as added scores: the library's own making of masks does not survive the export.
            added = (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
            return self.model(
                input_ids=input_ids, attention_mask=added, token_type_ids=token_type_ids
            ).last_hidden_state

    # Three tensors of their own: an exporter merges two inputs that are one object, and gives wrong vectors.
    example = (torch.randint(5, 100, (2, 9)), torch.ones(2, 9, dtype=torch.int64), torch.zeros(2, 9, dtype=torch.int64))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    free = {0: "batch", 1: "seq"}
    partial = path.with_suffix(".partial")
    with torch.inference_mode():
        torch.onnx.export(
            LastLayer(),
            example,
            str(partial),
            input_names=names,
            output_names=["last_hidden_state"],
            dynamic_axes=dict.fromkeys([*names, "last_hidden_state"], free),
            opset_version=OPSET,
            dynamo=False,
        )
    partial.rename(path)
    return path


def onnx_dynamic_int8(settings: Settings) -> Path:
    """Weights in int8 a channel, activations quantized as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source, path = onnx_graph(settings), Path(settings["work"]) / "dynamic-int8.onnx"
    if not path.exists():
        quantize_dynamic(str(source), str(path), per_channel=True, weight_type=QuantType.QInt8)
    return path


def openvino_static_int8(settings: Settings) -> Path:
    """The graph for OpenVINO by NNCF, its own quantizer, with its preset for Transformers; ranges from the calibration
    texts. settings["float_products"]: whether the second products of the feed-forward networks stay in float32."""
    import nncf
    import openvino
    from tokenizers import Tokenizer

    is_mixed = settings.get("float_products", False)
    source, path = onnx_graph(settings), Path(settings["work"]) / f"static-int8{'-float' if is_mixed else ''}.xml"
    if path.exists():
        return path
    tokenizer = Tokenizer.from_file(str(Path(settings["model"]) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(min(settings["max_length"], 128))

    def inputs(row: Any) -> dict[str, np.ndarray]:
        ids = np.array([row.ids], dtype=np.int64)
        return {name: ids if name == "input_ids" else (ids * 0 + int("mask" in name)) for name in names}

    graph = openvino.Core().read_model(source)
    names = [next(iter(port.get_names())) for port in graph.inputs]
    rows = tokenizer.encode_batch(settings["calibration"])
    quantized = nncf.quantize(
        graph,
        nncf.Dataset(rows, inputs),
        preset=nncf.QuantizationPreset.MIXED,
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(rows),
        ignored_scope=nncf.IgnoredScope(patterns=[SECOND_PRODUCTS]) if is_mixed else None,
    )
    openvino.save_model(quantized, path)
    return path


def ctranslate_folder(settings: Settings) -> Path:
    """CTranslate2's own format, in float32; it quantizes when it loads."""
    import ctranslate2

    class Converter(ctranslate2.converters.TransformersConverter):
        """Newer configurations of transformers no longer say that positions are absolute, and the converter asks."""

        def load_model(self, *names, **options):  # type: ignore[no-untyped-def]
            model = super().load_model(*names, **options)
            if not hasattr(model.config, "position_embedding_type"):
                model.config.position_embedding_type = "absolute"
            return model

    folder = Path(settings["work"]) / "ctranslate2"
    if not folder.exists():
        Converter(settings["model"]).convert(str(folder), quantization="float32")
    return folder
