"""Tokens a second of greedy generation beside transformers' generate, with the same weights, on one pinned thread.

python benchmarks/generate.py            all rows of the table in docs/generation.md
python benchmarks/generate.py --quick    small networks and few tokens

Both sides hold a cache of keys and values and write the same tokens. They take turns, and what is reported is the ratio
of processor times: other work on the machine slows both.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from maskwright.hub.folders import load_model
from maskwright.models.decoding.causal import CausalDecoder, pack_weights
from maskwright.models.decoding.rules import Rules
from maskwright.models.decoding.search import grow
from maskwright.models.model import build
from maskwright.models.presets import preset

PROMPT_TOKENS = 32
NETWORKS = {  # vocabulary, layers, hidden
    "gpt2": (50_257, 12, 768),
    "6 layers of 512": (16_000, 6, 512),
    "4 layers of 256": (8_000, 4, 256),
}


def main() -> None:
    """Measure and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--only", choices=list(NETWORKS), help="one network")
    options.add_argument("--tokens", type=int, default=48)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    names = ["4 layers of 256"] if chosen.quick else [chosen.only] if chosen.only else list(NETWORKS)
    tokens, rounds = (8, 2) if chosen.quick else (chosen.tokens, chosen.rounds)
    print("| network | texts | number format | ours, tokens/s | transformers, tokens/s | ratio | same tokens |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        for dtype in (torch.float32, torch.bfloat16):
            for texts in (1, 16):
                print(measure(name, dtype, texts, tokens, rounds), flush=True)


def measure(name: str, dtype: torch.dtype, texts: int, tokens: int, rounds: int) -> str:
    """One row of the table."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    vocab, layers, hidden = NETWORKS[name]
    network = preset(
        "gpt2",
        vocab_size=vocab,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        initializer_range=0.1,
    )
    with tempfile.TemporaryDirectory() as folder:
        build(network, "clm").save(Path(folder) / "model")
        ours, _ = load_model(Path(folder) / "model")
        theirs = transformers.GPT2LMHeadModel.from_pretrained(Path(folder) / "model", dtype=dtype).eval()
    theirs.generation_config.eos_token_id = None
    ours.compute_dtype = dtype
    pack_weights(ours)
    draws = torch.Generator().manual_seed(0)
    prompts = torch.randint(0, network.vocab_size, (texts, PROMPT_TOKENS), generator=draws)
    rows = prompts.tolist()

    def run_ours() -> list[list[int]]:
        grown = grow(CausalDecoder(ours, rows, tokens), rows, Rules(greedy=True), max_new_tokens=tokens)
        return [one.ids for one in grown]

    def run_theirs() -> list[list[int]]:
        with torch.inference_mode():
            found = theirs.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
            )
        return found[:, PROMPT_TOKENS:].tolist()

    same = run_ours() == run_theirs()
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for side, run in (("ours", run_ours), ("theirs", run_theirs)):
            start = time.process_time()
            run()
            times[side].append(time.process_time() - start)
    own, other = median(times["ours"]), median(times["theirs"])
    ratio = median(b / a for a, b in zip(times["ours"], times["theirs"], strict=True))
    rate = [f"{texts * tokens / seconds:,.0f}" for seconds in (own, other)]
    form = str(dtype).removeprefix("torch.")
    return f"| {name} | {texts} | {form} | {rate[0]} | {rate[1]} | {ratio:.1f} | {'yes' if same else 'no'} |"


if __name__ == "__main__":
    main()
