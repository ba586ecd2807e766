"""Embed texts with an exported folder by onnxruntime, numpy and tokenizers alone: script.py FOLDER TEXT ..."""

import json
import sys
from pathlib import Path

sys.modules["torch"] = sys.modules["maskwright"] = None  # importing either fails

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

folder, *texts = sys.argv[1:]
spec = json.loads(Path(folder, "maskwright.json").read_text(encoding="utf-8"))["export"]
graph, before = spec["graphs"]["model"], spec["preprocessing"]
tokenizer = Tokenizer.from_file(f"{folder}/{before['tokenizer']}")
tokenizer.enable_truncation(spec["max_length"])
tokenizer.enable_padding(pad_id=before["padding"]["id"])
rows = tokenizer.encode_batch(texts)
fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
names = [one["name"] for one in graph["inputs"]]
inputs = {name: np.array([getattr(row, fields[name]) for row in rows], dtype="int64") for name in names}
session = onnxruntime.InferenceSession(f"{folder}/{graph['file']}")
outputs = dict(zip([one["name"] for one in graph["outputs"]], session.run(None, inputs), strict=True))
print(json.dumps(outputs.get("sentence_embedding", outputs.get("logits")).tolist()))
