"""What works with every family and head, measured: the page docs/reference/families.md.

PYTHONPATH=src:tests python -m parity.coverage [FAMILY ...] [--columns ...] writes the numbers to
tests/parity/coverage.json; make reference writes the page from them.
"""

import argparse
import json
import tempfile
from importlib.util import find_spec
from pathlib import Path

import onnxruntime
import peft
import torch

from inference.samples import tokenizer
from maskwright import api
from maskwright.core.errors import InputError, MaskwrightError
from maskwright.data.batch import Batch
from maskwright.export.cached import networks_of
from maskwright.export.config import ExportConfig
from maskwright.export.export import export_model
from maskwright.export.network import most_tokens
from maskwright.export.onnx_file import write_onnx
from maskwright.export.program import trace
from maskwright.hub.adapters import attach_adapter
from maskwright.hub.folders import load_model, save_model
from maskwright.inference.ready import MIN_TEXTS, calibrate, compute_in, place
from maskwright.models.lora_config import LoraConfig
from parity.checkpoints import HEADS, SETTINGS, checkpoint, padded_rows, their_class
from parity.comparing import compare_outputs, largest

STORED = Path(__file__).with_name("coverage.json")
ROUGH = ("bf16", "int8")  # compared as part of the whole output
COLUMNS = ("open", "save", "pack", "engine", *ROUGH, "LoRA", "ONNX", "OpenVINO", "server")
TEXTS = ["the cat sat on the mat .", "dogs chase cats in the garden", "a"]
HERE = {"device": "cpu", "precision": "fp32"}
NAMES = {None: "bare"}


def cases():
    return [(name, head) for name, heads in HEADS.items() for head in heads]


def measure(name, head, columns=COLUMNS):
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        measured = _Measured(name, head, Path(folder))
        return {column: _or_reason(getattr(measured, column.lower())) for column in columns}


def _or_reason(measured):
    try:
        return float(f"{measured():.0e}")
    except MaskwrightError as error:
        return str(error)


class _Measured:
    """One method per column, each on the same checkpoint of transformers."""

    def __init__(self, name, head, folder):
        self.name, self.head, self.folder = name, head, folder
        self.vocab = {"vocab_size": tokenizer().vocab_size}
        self.theirs = checkpoint(name, head, **SETTINGS[name][0] | self.vocab)
        self.theirs.save_pretrained(folder / "theirs")
        self.ours, _ = load_model(folder / "theirs")
        self.rows = padded_rows(self.theirs.config, head)

    def _difference(self, ours, theirs):
        return max(compare_outputs(ours(**self.rows), theirs(**self.rows), self.rows, self.head).values())

    def open(self):
        return self._difference(self.ours, self.theirs)

    def save(self):
        save_model(self.ours, self.folder / "ours")
        there = their_class(self.name, self.head).from_pretrained(self.folder / "ours", attn_implementation="eager")
        return self._difference(self.ours, there.eval())

    def pack(self):
        texts = [torch.randint(6, 80, (length,)).tolist() for length in (9, 4, 17)]
        together = self.ours.encode(Batch.from_sequences(texts)).hidden.split([len(text) for text in texts])
        alone = [self.ours.encode(Batch.from_sequences([text])).hidden for text in texts]
        return max(largest(one, other) for one, other in zip(together, alone, strict=True))

    def engine(self):
        model, _ = load_model(self.folder / "theirs")
        compute_in(model, "fp32")
        return self._difference(model, self.theirs)

    def bf16(self):
        return self._rough("bf16")

    def int8(self):
        return self._rough("int8")

    def _rough(self, precision):
        """The norm of the difference of all hidden states to float32, relative to theirs."""
        self._with_tokenizer()
        model = place(load_model(self.folder / "served")[0], "cpu", precision)
        if precision == "int8":
            calibrate(model, TEXTS * MIN_TEXTS)
        batch = self.ours.tokenizer.batch(TEXTS)
        with torch.inference_mode():
            expected = self.ours.encode(batch).hidden
            return float((model.encode(batch).hidden - expected).norm() / expected.norm())

    def lora(self):
        base = str(self.folder / "theirs")
        model, report = load_model(base)
        with torch.enable_grad():
            attach_adapter(model, base, LoraConfig(rank=3, targets=("all-linear",)), report.new, 1, {})
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0, 0.3, generator=torch.Generator().manual_seed(4))
        save_model(model, self.folder / "adapter")
        there = their_class(self.name, self.head).from_pretrained(base, attn_implementation="eager")
        adapted = peft.PeftModel.from_pretrained(there, self.folder / "adapter").eval()
        return self._difference(model, adapted.base_model)  # whose wrapper drops the token types

    def onnx(self):
        return self._graph("onnx", _onnx_runtime)

    def openvino(self):
        if find_spec("openvino") is None:
            raise InputError("openvino is not installed")
        return self._graph("openvino", _open_vino)

    def _graph(self, to, run):
        """The graph in a runtime, with padding at the right, or what the export itself measures of a decoder."""
        if self.head == "clm":
            self._with_tokenizer()
            found = export_model(ExportConfig(model=str(self.folder / "served"), output=self.folder / to, to=to))
            return max(one["largest_difference"] for one in found.agreement.to_json()["outputs"].values())
        (network,) = networks_of(load_model(self.folder / "theirs")[0])
        if not (self.folder / "onnx").exists():
            write_onnx(trace(network, most_tokens(self.ours.config)), network, self.folder, 20)
        mask = torch.ones_like(self.rows["input_ids"])
        mask[..., 13:] = 0
        # As tokenizers pad: theirs of RoBERTa count positions by the ids, a graph by the mask.
        pad = self.ours.config.pad_token_id or 0
        ids = self.rows["input_ids"]
        ids = torch.where(mask == 0, pad, torch.where(ids == pad, pad + 1, ids))
        rows = self.rows | {"attention_mask": mask, "input_ids": ids}
        zeros = torch.zeros_like(mask)
        outputs = run(self.folder / "onnx/model.onnx", {name: rows.get(name, zeros).numpy() for name in network.inputs})
        found = dict(zip(network.outputs, map(torch.from_numpy, outputs), strict=True))
        given = {name: value for name, value in rows.items() if name in network.inputs}  # BigBird makes its token types
        return max(compare_outputs(found, self.theirs(**given), rows, self.head).values())

    def server(self):
        from serve.in_thread import serving

        self._with_tokenizer()
        if self.head not in ANSWERS:
            raise InputError("no route for this head")
        with serving(model=(f"m={self.folder / 'served'}",), access_log=False) as served:
            return ANSWERS[self.head](served.post, str(self.folder / "served"))

    def _with_tokenizer(self):
        if not (self.folder / "served").exists():
            self.ours.tokenizer = tokenizer()
            save_model(self.ours, self.folder / "served", facts={"task": self.head} if self.head else None)


def _onnx_runtime(path, inputs):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)


def _open_vino(path, inputs):
    import openvino

    precise = {"INFERENCE_PRECISION_HINT": openvino.Type.f32}
    found = openvino.Core().compile_model(path, "CPU", precise)(inputs)
    return [found[number].copy() for number in range(len(found))]


def _of_vectors(post, folder):
    expected = api.open_embedder(folder, normalize=True, **HERE).vectors(TEXTS)
    return float(abs(torch.tensor(post("/embed", {"inputs": TEXTS}).json()) - torch.from_numpy(expected)).max())


def _of_classes(post, folder):
    expected = api.open_predictor(folder, **HERE).predict(TEXTS)
    found = post("/predict", {"inputs": [[text] for text in TEXTS]}).json()
    pairs = zip(found, expected, strict=True)
    return max(abs(row["score"] - other["probabilities"][row["label"]]) for one, other in pairs for row in one)


def _of_numbers(post, folder):
    expected = api.open_predictor(folder, **HERE).predict(TEXTS)
    found = [post("/predict", {"inputs": text}).json() for text in TEXTS]
    return max(abs(one[0]["score"] - other["score"]) for one, other in zip(found, expected, strict=True))


def _of_tags(post, folder):
    expected = api.open_predictor(folder, **HERE).predict(TEXTS)
    found = post("/tag", {"inputs": TEXTS}).json()
    pairs = zip(found, expected, strict=True)
    both = [pair for one, other in pairs for pair in zip(one, other["entities"], strict=True)]
    return max((abs(row["score"] - entity["score"]) for row, entity in both), default=0.0)


def _of_answers(post, folder):
    question, context = "who ?", "dogs chase cats in the garden"
    expected = api.open_answerer(folder, **HERE).answer([(question, context)], 1)[0]
    found = post("/answer", {"inputs": {"question": question, "context": context}}).json()
    return abs(found["score"] - expected.answer["score"])


def _of_masks(post, folder):
    text = "the [MASK] sat on the mat ."
    expected = api.open_mask_filler(folder, **HERE).fill([text], 4)[0].masks[0].candidates
    found = post("/fill-mask", {"inputs": text, "parameters": {"top_k": 4}}).json()
    return max(abs(row["score"] - one.score) for row, one in zip(found, expected, strict=True))


ANSWERS = {
    None: _of_vectors, "classification": _of_classes, "regression": _of_numbers, "tagging": _of_tags,
    "qa": _of_answers, "mlm": _of_masks, "pretraining": _of_masks,
}  # fmt: skip


def main():
    """Measure the families given, all by default, and store the numbers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*", default=list(HEADS))
    parser.add_argument("--columns", nargs="+", default=COLUMNS)
    options = parser.parse_args()
    for name in options.families:
        measured = {NAMES.get(head, head): measure(name, head, options.columns) for head in HEADS[name]}
        found = json.loads(STORED.read_text()) if STORED.is_file() else {}
        for head, values in measured.items():
            whole = found.get(name, {}).get(head, {}) | values
            found.setdefault(name, {})[head] = {column: whole[column] for column in COLUMNS if column in whole}
        STORED.write_text(json.dumps({name: found[name] for name in HEADS if name in found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
