"""Child process of the benchmark: python -m maskwright.speed.backend maskwright|transformers.

transformers is measured for comparison only; Maskwright does not depend on it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch

from ..api import make_int8
from ..core.progress import set_quiet
from ..hub.folders import load_model
from ..inference.embed import TextEncoder
from ..inference.ready import place
from .timed import TimedEncoder, Vectors

PEER = "transformers"
PEER_PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
PEER_BATCH_SIZE = 32  # with texts sorted by length, fastest for transformers on a CPU


def open_ours(settings: dict[str, Any]) -> Vectors:
    """Load the Maskwright text encoder, with mean pooling of the last layer.

    settings: model, precision, device, max_length, calibration (texts for int8 calibration).
    """
    model, _ = load_model(settings["model"])
    placed = place(model, settings["device"], settings["precision"])
    encoder = TextEncoder(placed, max_length=settings["max_length"])
    make_int8(placed, settings["calibration"], encoder.max_length)
    return encoder.vectors


def open_peer(settings: dict[str, Any]) -> Vectors:
    """Load the same encoder with transformers: fast tokenizer, batches sorted by length, fused attention."""
    library = import_module(PEER)
    dtype = PEER_PRECISIONS[settings["precision"]]
    tokenizer = library.AutoTokenizer.from_pretrained(settings["model"])
    model = library.AutoModel.from_pretrained(settings["model"], dtype=dtype, attn_implementation="sdpa")
    model = model.eval().to(settings["device"])

    @torch.inference_mode()
    def vectors(texts: Sequence[str]) -> np.ndarray:
        """Return embeddings in the order of the texts: float32 [texts, hidden]."""
        ids = tokenizer(list(texts), truncation=True, max_length=settings["max_length"])["input_ids"]
        order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        found = np.empty((len(ids), model.config.hidden_size), dtype=np.float32)
        for begin in range(0, len(order), PEER_BATCH_SIZE):
            rows = order[begin : begin + PEER_BATCH_SIZE]
            batch = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt")
            batch = {name: values.to(settings["device"]) for name, values in batch.items()}
            hidden = model(**batch).last_hidden_state.float()  # [batch, seq, hidden]
            mask = batch["attention_mask"].unsqueeze(-1)  # [batch, seq, 1]
            found[rows] = ((hidden * mask).sum(1) / mask.sum(1)).cpu().numpy()  # [batch, hidden]
        return found

    return vectors


def main() -> None:
    """Serve the backend that the command line names."""
    set_quiet(True)
    torch.set_grad_enabled(False)
    TimedEncoder(open_peer if sys.argv[1] == PEER else open_ours).serve()


if __name__ == "__main__":
    main()
