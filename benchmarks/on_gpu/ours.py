"""Our side of gpu.py: a process that loads what it is asked for and answers with rates (speed/backend.py)."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

from inputs import read_texts
from measure import Steps, embedding_rates, fresh

from maskwright.api import load
from maskwright.core.progress import set_quiet
from maskwright.core.randomness import generator
from maskwright.data.shards import TokenShards
from maskwright.hub.folders import load_model
from maskwright.inference.embed import TextEncoder
from maskwright.inference.ready import compute_in, place
from maskwright.models.device import DTYPES
from maskwright.objectives.masked import MaskedLanguageModeling, MaskedRecipe, Masker
from maskwright.speed.backend import answer
from maskwright.tasks.classification import Classification
from maskwright.text.readers.tables import Row
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.job import FinetuneJob, MemoryBestModelSaver
from maskwright.train.loop import LoopSettings, train
from maskwright.train.pretraining.job import PretrainJob, choose_compiling, compile_layers

NEVER = 10**9
ROWS, FINETUNING_LENGTH = 32, 128


def opened(home: Path, length: int) -> tuple[Tokenizer, TokenShards, MaskedLanguageModeling]:
    """What was prepared for pre-training, and masked words as `maskwright pretrain --objective mlm` has them."""
    tokenizer = Tokenizer.load(home / "tokenizer")
    masker = Masker(tokenizer.mask_id, tokenizer.special_ids, tokenizer.vocab_size)  # type: ignore[arg-type]
    recipe = MaskedRecipe.of(tokenizer.cls_id, tokenizer.sep_id, masker, length)  # type: ignore[arg-type]
    return tokenizer, TokenShards.open(home / "shards", tokenizer), MaskedLanguageModeling(recipe)


class Timed:
    """A job whose steps are marked, until there are enough of them. See `train.loop.Job`."""

    def __init__(self, job: Any, steps: Steps) -> None:
        self.job, self.steps, self.model = job, steps, job.model
        self.counts, self.outcome, self.state, self.restore = job.counts, job.outcome, job.state, job.restore

    def micro_batches(self, step: int) -> list[Any]:
        """Those of the job."""
        batches: list[Any] = self.job.micro_batches(step)
        lengths = [length for batch in batches for length in batch.lengths]
        scored = sum(len(batch.labels.get("mlm", ())) for batch in batches)
        self.steps.begin(lengths, scored, 0 if scored else len(lengths))
        return batches

    def evaluate(self, step: int) -> dict[str, float]:
        """Nothing is scored."""
        return {}

    def should_stop(self) -> bool:
        """When enough steps are counted."""
        return self.steps.are_enough


def run(job: Any, seconds: float, device: torch.device, **facts: Any) -> dict[str, Any]:
    """Train with the loop of the commands, and return the speed."""
    steps = Steps(seconds, device)
    settings = LoopSettings(NEVER, 1e-4, 10_000, "linear", 0.01, 1.0, 0, NEVER, NEVER, NEVER)
    train(Timed(job, steps), settings, name="gpu")
    model = job.model
    return steps.found(model.config, **facts)


def pretrain(
    folder: str, size: str, length: int, sequences: int, seconds: float, device: str, precision: str, kind: str
) -> dict[str, Any]:
    """Masked language modeling from token shards. kind: "auto", or "plain" without compiled layers."""
    where, home = torch.device(device), Path(folder)
    fresh(where)
    tokenizer, shards, objective = opened(home, length)
    model, _ = load_model(str(home / "models" / size), "mlm", seed=0)
    model.to(where)
    compute_in(model, precision)
    model.train()
    choice = choose_compiling("auto" if kind == "auto" else "off", where, NEVER)
    failed = compile_layers(model, DTYPES[precision]) if choice.compiles else choice.why
    documents = np.arange(shards.num_documents)
    options = {"tokenizer": tokenizer, "sequences": sequences, "accumulation": 1, "seed": 0, "device": where}
    job = PretrainJob(model, objective, shards, documents, **options)
    return run(job, seconds, where, layers="compiled" if failed is None else f"plain: {failed}")


def finetune(folder: str, size: str, seconds: float, device: str, precision: str, kind: str) -> dict[str, Any]:
    """A classifier of two classes on sentences of natural lengths, 32 rows a step; the labels are drawn."""
    where, home = torch.device(device), Path(folder)
    fresh(where)
    texts = read_texts(home)
    labels = generator(0, "gpu labels").integers(0, 2, size=len(texts)).tolist()
    rows = [Row(text, None, str(label), line, "texts") for line, (text, label) in enumerate(zip(texts, labels))]  # noqa: B905
    model, _ = load_model(str(home / "models" / size), "classification", labels=("0", "1"), seed=0)
    model.to(where)
    compute_in(model, precision)
    task = Classification(("0", "1"))
    examples = task.examples(rows, model.tokenizer, FINETUNING_LENGTH, file="texts")
    job = FinetuneJob(model, task, examples, None, MemoryBestModelSaver(), batch_size=ROWS, seed=0, device=where)
    return run(job, seconds, where)


def embed(
    folder: str, size: str, seconds: float, device: str, precision: str, kind: str, requests: list[int]
) -> dict[str, Any]:
    """Texts to mean vectors: all in one call, and requests of a few texts at a time."""
    where, home = torch.device(device), Path(folder)
    fresh(where)
    texts = read_texts(home)
    encoder = TextEncoder(place(load(str(home / "models" / size)), device, precision))
    lengths = [len(ids) for ids in encoder.tokenizer.encode_ids(texts, encoder.max_length)[0]]
    return embedding_rates(encoder.vectors, texts, lengths, encoder.model.config, requests, seconds, where)


def cleared(measure: Any) -> Any:
    """The same, after which nothing of it is held."""

    def measured(**settings: Any) -> Any:
        try:
            return measure(**settings)
        finally:
            gc.collect()
            fresh(torch.device(settings["device"]))

    return measured


if __name__ == "__main__":
    set_quiet(True)
    answer({"pretrain": cleared(pretrain), "finetune": cleared(finetune), "embed": cleared(embed)})
