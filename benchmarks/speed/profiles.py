"""Profile the three main paths with torch's profiler: python benchmarks/speed/profiles.py --model FOLDER.

Bulk inference, pre-training and fine-tuning, each with the code that users run. Each operator's own time counts for one
kind of work; the rest of the wall-clock time is time without operators (Python, the tokenizer, waiting). The profiler
has an overhead per operator, so fractions are reported, not rates.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from training import SETTINGS  # noqa: E402

from maskwright.core.progress import set_quiet  # noqa: E402
from maskwright.core.util import usable_cores  # noqa: E402
from maskwright.speed.bench import built_in_texts  # noqa: E402
from maskwright.speed.probe import matrix_ceiling  # noqa: E402

OUTSIDE = "no operator: Python, tokenizer, waiting"
# What an operator's name contains -> the kind of work, the first that fits.
KINDS = {
    "matrix products": ("linear_pointwise", "::mm", "::addmm", "::linear"),
    "attention's products, soft-max": ("::bmm", "::baddbmm", "scaled_dot_product", "::softmax", "::_softmax"),
    "vocabulary loss without its products": ("_VocabularyLoss", "::argmax", "::amax", "::scatter"),
    "layer norm": ("layer_norm",),
    "activation": ("gelu", "tanh"),
    "dropout": ("Dropout", "::random_", "bitwise"),
    "optimizer and gradient norm": ("adam", "_foreach", "linalg_vector_norm", "Optimizer"),
    "rounding to int8": ("::addcmul", "::round", "::clamp"),
    "embedding rows": ("embedding", "::index", "sparse", "coalesce"),
    "copies and casts": ("::copy_", "::cat", "::contiguous", "::clone", "::to", "::fill_", "::zero_"),
}


def kind_of(name: str) -> str:
    """The kind of work of an operator."""
    return next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), "other operators")


def shares(run: Callable[[], Any]) -> dict[str, float]:
    """Shares of the clock's time by kind of work while `run` runs."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        started = time.perf_counter()
        run()
        seconds = time.perf_counter() - started
    spent: dict[str, float] = {}
    for event in found.key_averages():
        kind = kind_of(event.key)
        spent[kind] = spent.get(kind, 0.0) + event.self_cpu_time_total / 1e6
    spent[OUTSIDE] = max(seconds - sum(spent.values()), 0.0)
    whole = sum(spent.values())
    return {kind: own / whole for kind, own in sorted(spent.items(), key=lambda item: -item[1])}


def inference(model: str, precision: str) -> dict[str, float]:
    """`maskwright.Embedder` on 2,000 sentences."""
    import maskwright as mw

    texts = built_in_texts(2_000)
    embedder = mw.Embedder(model, precision=precision).fit(texts[:64])
    embedder.transform(texts)
    return shares(lambda: embedder.transform(texts))


def pre_training(vocab_size: int) -> dict[str, float]:
    """The steps of `maskwright pretrain` (masked words, bert-mini, 32 x 128 tokens), as pretrain.py times them."""
    import pretrain

    options = argparse.Namespace(
        preset="bert-mini", vocab_size=vocab_size, precision="bf16", length=128, sequences=32, steps=12, warm_up=2
    )
    found: dict[str, float] = {}
    pretrain.measure_maskwright(options, lambda run: found.update(shares(run)))
    return found


def fine_tuning(model: str) -> dict[str, float]:
    """`maskwright.TextClassifier.fit` on 1,024 sentences, one epoch, from the texts on."""
    from finetune import maskwright

    texts = built_in_texts(1_024)
    labels = [number % 2 for number in range(len(texts))]
    maskwright(model, texts[:64], labels[:64])
    return shares(lambda: maskwright(model, texts, labels))


def paths(model: str) -> dict[str, dict[str, float]]:
    """Shares of every path."""
    return {
        "inference, MiniLM, fp32": inference(model, "fp32"),
        "inference, MiniLM, bf16": inference(model, "bf16"),
        "inference, MiniLM, int8": inference(model, "int8"),
        "pre-training, mini, 8k": pre_training(8_000),
        "pre-training, mini, 30k": pre_training(30_522),
        "fine-tuning, MiniLM": fine_tuning(model),
    }


def operations() -> dict[str, float]:
    """Operations for a token that are needed: of inference at 32 tokens, of a training step at 128."""
    import maskwright as mw
    from maskwright.speed.workload import forward_flops, training_flops

    scored = round(0.15 * 126)  # of 128 tokens, two of which are special
    found = {"base inference": forward_flops(mw.preset("bert-base"), [32]) / 32}
    for setting, (preset, vocab_size, _) in SETTINGS.items():
        found[setting] = training_flops(mw.preset(preset, vocab_size=vocab_size), [128], scored) / 128
    return found


def ceilings() -> dict[str, float]:
    """Operations a second of plain matrix products here, the best of ten seconds."""
    cpu = torch.device("cpu")
    return {name: matrix_ceiling(768, 3072, name, cpu, seconds=10.0) for name in ("fp32", "bf16")}


def main() -> None:
    """Print the shares, the operations and the ceilings as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=usable_cores())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    set_quiet(True)
    print(json.dumps({"paths": paths(options.model), "operations": operations(), "ceilings": ceilings()}))


if __name__ == "__main__":
    main()
