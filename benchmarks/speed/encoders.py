"""The inference backends, each in a separate process: python benchmarks/speed/encoders.py NAME.

Each backend is a function from texts to mean-pooled vectors of the last layer, float32 [texts, hidden], with its best
settings: rows sorted by length, weights prepared on loading, the given number of threads. `ours` runs
`maskwright.Embedder`. The packages of a backend are imported on opening, so that a missing one only disables that
backend.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import conversions  # noqa: E402

from maskwright.speed.backend import TimedEncoder, Vectors  # noqa: E402

Settings = dict[str, Any]
Hidden = Callable[[np.ndarray, np.ndarray], np.ndarray]  # ids, mask: int64 [batch, seq] -> float [batch, seq, hidden]


def ours(settings: Settings) -> Vectors:
    """`maskwright.Embedder`, as anyone calls it; with "executor", on the graph that `--executor` computes by."""
    import maskwright as mw
    from maskwright.core.progress import set_quiet
    from maskwright.export.executors import executed

    set_quiet(True)
    model = settings["model"]
    if "executor" in settings:
        model, _ = executed(model, settings["executor"], settings["precision"], head="none")
    embedder = mw.Embedder(
        model,
        pooling="mean",
        normalize=False,
        max_length=settings["max_length"],
        precision=settings["precision"],
    ).fit(settings["calibration"])  # used by int8 alone
    return lambda texts: np.asarray(embedder.transform(list(texts)))


def padded_batches(settings: Settings, hidden: Hidden, in_order: bool = False) -> Vectors:
    """Vectors by a function on padded batches: the fast tokenizer, rows sorted by length, the mean over each row.

    in_order: batches in the order of arrival instead.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(settings["model"]) / "tokenizer.json"))
    tokenizer.enable_truncation(settings["max_length"])
    tokenizer.no_padding()

    def vectors(texts: Sequence[str]) -> np.ndarray:
        ids = [row.ids for row in tokenizer.encode_batch_fast(list(texts))]
        order = list(range(len(ids))) if in_order else sorted(range(len(ids)), key=lambda row: len(ids[row]))
        found: list[np.ndarray] = [np.empty(0)] * len(ids)
        for start in range(0, len(order), settings["batch"]):
            rows = order[start : start + settings["batch"]]
            longest = max(len(ids[row]) for row in rows)
            batch = np.zeros((len(rows), longest), dtype=np.int64)
            mask = np.zeros_like(batch)
            for place, row in enumerate(rows):
                batch[place, : len(ids[row])] = ids[row]
                mask[place, : len(ids[row])] = 1
            states = hidden(batch, mask)  # [batch, seq, hidden]
            means = np.einsum("bsh,bs->bh", states, mask.astype(np.float32)) / mask.sum(1, keepdims=True)
            for place, row in enumerate(rows):
                found[row] = means[place]
        return np.stack(found).astype(np.float32)

    return vectors


def transformers_model(settings: Settings) -> Vectors:
    """transformers' model, with sdpa if it has it: as it comes, in bfloat16, compiled, or in dynamic int8."""
    import torch
    from transformers import AutoModel

    torch.set_grad_enabled(False)
    dtype = torch.bfloat16 if settings["precision"] == "bf16" else torch.float32
    model = AutoModel.from_pretrained(settings["model"], dtype=dtype).eval()
    if settings["precision"] == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    run = torch.compile(model, dynamic=True) if settings.get("compiled") else model

    def hidden(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            states = run(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).last_hidden_state
            return states.float().numpy()

    return padded_batches(settings, hidden, in_order=bool(settings.get("in_order")))


def sentence_transformers(settings: Settings) -> Vectors:
    """sentence-transformers' `encode`, which sorts by itself."""
    import torch
    from sentence_transformers import SentenceTransformer

    with_precision = {"model_kwargs": {"dtype": torch.bfloat16}} if settings["precision"] == "bf16" else {}
    model = SentenceTransformer(settings["model"], device="cpu", **with_precision)
    model.max_seq_length = settings["max_length"]
    while len(model) > 2:  # what follows the pooling, such as scaling to length 1, is not compared
        del model[len(model) - 1]
    return lambda texts: model.encode(list(texts), batch_size=settings["batch"], show_progress_bar=False)


def onnx_runtime(settings: Settings) -> Vectors:
    """ONNX Runtime on the exported graph, float32 or dynamic int8."""
    import onnxruntime

    path = conversions.onnx_graph(settings)
    if settings["precision"] == "int8":
        path = conversions.onnx_dynamic_int8(settings)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = settings["threads"]
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = {one.name for one in session.get_inputs()}

    def hidden(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        found: np.ndarray = session.run(None, {name: inputs[name] for name in names})[0]
        return found

    return padded_batches(settings, hidden)


def open_vino(settings: Settings) -> Vectors:
    """OpenVINO on the exported graph: float32, bfloat16, or static int8 by NNCF, calibrated on other text."""
    request = open_vino_request(settings)

    def hidden(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        request.infer({0: ids, 1: mask, 2: np.zeros_like(ids)})
        return np.array(request.get_output_tensor(0).data, dtype=np.float32)

    return padded_batches(settings, hidden)


def open_vino_request(settings: Settings) -> Any:
    """A request of input_ids, attention_mask and token_type_ids; with "counters", it keeps the time of each layer."""
    import openvino

    is_int8 = settings["precision"] == "int8"
    path = conversions.openvino_static_int8(settings) if is_int8 else conversions.onnx_graph(settings)
    core = openvino.Core()
    kinds = {"fp32": openvino.Type.f32, "bf16": openvino.Type.bf16, "int8": openvino.Type.f32}
    compiled = core.compile_model(
        core.read_model(path),
        "CPU",
        {
            "INFERENCE_NUM_THREADS": settings["threads"],
            "INFERENCE_PRECISION_HINT": kinds[settings["precision"]],
            "PERFORMANCE_HINT": "LATENCY",
            "PERF_COUNT": bool(settings.get("counters")),
        },
    )
    return compiled.create_infer_request()


def ctranslate(settings: Settings) -> Vectors:
    """CTranslate2 on its converted folder, float32 or int8."""
    import ctranslate2

    kind = {"fp32": "float32", "int8": "int8"}[settings["precision"]]
    folder = conversions.ctranslate_folder(settings)
    encoder = ctranslate2.Encoder(str(folder), device="cpu", compute_type=kind, intra_threads=settings["threads"])

    def hidden(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        rows = [row[: int(length)].tolist() for row, length in zip(ids, mask.sum(1), strict=True)]
        return np.array(encoder.forward_batch(rows).last_hidden_state, dtype=np.float32)

    return padded_batches(settings, hidden)


# name -> how it is opened, what it is opened with, and what the page calls it
CONTENDERS: dict[str, tuple[Callable[[Settings], Vectors], Settings, str]] = {
    "transformers": (
        transformers_model,
        {"precision": "fp32", "in_order": True},
        "transformers fp32, batches of 32 in the order of arrival (baseline)",
    ),
    "transformers-sorted": (transformers_model, {"precision": "fp32"}, "transformers fp32, sorted"),
    "transformers-bf16": (transformers_model, {"precision": "bf16"}, "transformers bf16, sorted"),
    "transformers-compiled": (
        transformers_model,
        {"precision": "bf16", "compiled": True},
        "transformers bf16, sorted, compiled",
    ),
    "transformers-int8": (transformers_model, {"precision": "int8"}, "transformers dynamic int8, sorted"),
    "sentence-transformers": (sentence_transformers, {"precision": "fp32"}, "sentence-transformers fp32"),
    "sentence-transformers-bf16": (sentence_transformers, {"precision": "bf16"}, "sentence-transformers bf16"),
    "onnxruntime": (onnx_runtime, {"precision": "fp32"}, "ONNX Runtime fp32"),
    "onnxruntime-int8": (onnx_runtime, {"precision": "int8"}, "ONNX Runtime dynamic int8"),
    "openvino": (open_vino, {"precision": "fp32"}, "OpenVINO fp32"),
    "openvino-bf16": (open_vino, {"precision": "bf16"}, "OpenVINO bf16"),
    "openvino-int8": (open_vino, {"precision": "int8"}, "OpenVINO static int8 (NNCF)"),
    "openvino-int8-mixed": (
        open_vino,
        {"precision": "int8", "float_products": True},
        "OpenVINO static int8 (NNCF), second feed-forward products in fp32",
    ),
    "ctranslate2": (ctranslate, {"precision": "fp32"}, "CTranslate2 fp32"),
    "ctranslate2-int8": (ctranslate, {"precision": "int8"}, "CTranslate2 int8"),
    "maskwright-fp32": (ours, {"precision": "fp32"}, "maskwright fp32"),
    "maskwright-bf16": (ours, {"precision": "bf16"}, "maskwright bf16"),
    "maskwright-int8": (ours, {"precision": "int8"}, "maskwright int8"),
    "maskwright-openvino": (
        ours,
        {"precision": "fp32", "executor": "openvino"},
        "maskwright --executor openvino, fp32",
    ),
    "maskwright-openvino-bf16": (
        ours,
        {"precision": "bf16", "executor": "openvino"},
        "maskwright --executor openvino, bf16",
    ),
    "maskwright-onnxruntime": (
        ours,
        {"precision": "fp32", "executor": "onnxruntime"},
        "maskwright --executor onnxruntime, fp32",
    ),
}
REFERENCE = "transformers-sorted"  # whose vectors the others must have


if __name__ == "__main__":
    opener, own_settings, _ = CONTENDERS[sys.argv[1]]
    TimedEncoder(lambda settings: opener({**settings, **own_settings})).serve()
