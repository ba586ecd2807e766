"""Compare generation speed with transformers' generate, with the same weights on both sides, in one run.

python benchmarks/generation.py                       GPT-2 and a small one, 1 and 16 texts; translation with 5 beams
python benchmarks/generation.py --quick               small networks, few tokens
python benchmarks/generation.py --model runs/g/model  a folder instead of random weights

Ids in, ids out; both sides keep keys and values and write the same number of tokens. They take turns, and what is
reported are medians of wall-clock time. "same" is the part of the texts that both write alike: in float32 that is all
of them but for ties, in bfloat16 roundings differ.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from maskwright.hub.folders import load_model
from maskwright.inference.ready import place
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.decoding.causal import CausalDecoder
from maskwright.models.decoding.rules import Rules
from maskwright.models.decoding.search import Beams, grow
from maskwright.models.decoding.translation import translate_ids
from maskwright.models.presets import preset

PROMPT_TOKENS, BEAMS = 32, 5
GPT2 = {  # vocabulary, layers, hidden
    "gpt2, 12 x 768": (50_257, 12, 768),
    "4 x 256": (8_000, 4, 256),
}
TRANSLATORS = {  # vocabulary, layers of each side, hidden, intermediate
    "transformer-base, 6 x 512": (37_000, 6, 512, 2_048),
    "3 x 256": (8_000, 3, 256, 1_024),
}
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16}
Run = Callable[[], list[list[int]]]


def main() -> None:
    """Measure and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="small networks, 8 tokens, 2 rounds")
    options.add_argument("--model", type=Path, help="a folder: GPT-2, Marian or BART")
    options.add_argument("--only", choices=["generate", "translate"])
    options.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    options.add_argument("--tokens", type=int, default=48)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = options.parse_args()
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(chosen.threads)
    if chosen.quick:
        chosen.tokens, chosen.rounds = 8, 2
    print(f"threads: {chosen.threads}; torch {torch.__version__}; {chosen.tokens} new tokens; prompts: {PROMPT_TOKENS}")
    print("| network | format | texts | ours, tokens/s | transformers, tokens/s | ratio | same |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        for name, folder in folders(chosen, Path(scratch)):
            for form in chosen.formats:
                for texts in (1, 16):
                    print(measure(name, folder, form, texts, chosen.tokens, chosen.rounds), flush=True)


def folders(chosen: argparse.Namespace, scratch: Path) -> Iterator[tuple[str, Path]]:
    """The networks that are asked for, as model folders."""
    if chosen.model is not None:
        yield chosen.model.name, chosen.model
        return
    networks: dict[str, ModelConfig] = {}
    if chosen.only != "translate":
        for name, (vocab, layers, hidden) in GPT2.items():
            networks[name] = preset(
                "gpt2",
                vocab_size=vocab,
                num_hidden_layers=layers,
                hidden_size=hidden,
                num_attention_heads=hidden // 64,
                intermediate_size=4 * hidden,
                initializer_range=0.1,
            )
    if chosen.only != "generate":
        for name, (vocab, layers, hidden, inner) in TRANSLATORS.items():
            networks[name] = preset(
                "transformer-base",
                vocab_size=vocab,
                num_hidden_layers=layers,
                num_decoder_layers=layers,
                hidden_size=hidden,
                num_attention_heads=hidden // 64,
                intermediate_size=inner,
            )
    for name, network in networks.items():
        if chosen.quick and network.hidden_size > 256:
            continue
        folder = scratch / name.replace(" ", "").replace(",", "-")
        build(network, "seq2seq" if network.num_decoder_layers else "clm").save(folder)
        yield name, folder


def measure(name: str, folder: Path, form: str, texts: int, tokens: int, rounds: int) -> str:
    """One row of the table."""
    model = place(load_model(folder)[0].eval(), "cpu", form)
    make = translation if model.has_decoder else generation
    ours, theirs = make(model, folder, FORMATS[form], texts, tokens)
    one, other = ours(), theirs()  # also warms up
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for side, run in (("ours", ours), ("theirs", theirs)):
            start = time.perf_counter()
            run()
            times[side].append(time.perf_counter() - start)
    rates = [f"{texts * tokens / median(times[side]):,.0f}" for side in ("ours", "theirs")]
    ratio = median(b / a for a, b in zip(times["ours"], times["theirs"], strict=True))
    same = sum(a == b for a, b in zip(one, other, strict=True))
    what = f"{texts}, {BEAMS} beams" if model.has_decoder else f"{texts}"
    return f"| {name} | {form} | {what} | {rates[0]} | {rates[1]} | {ratio:.2f} | {same} of {texts} |"


def drawn(texts: int, vocab: int, lengths: list[int]) -> list[list[int]]:
    """Ids at random, none of the first ten."""
    draws = torch.Generator().manual_seed(texts)
    return [torch.randint(10, vocab, (length,), generator=draws).tolist() for length in lengths]


def generation(model: Any, folder: Path, dtype: torch.dtype, texts: int, tokens: int) -> tuple[Run, Run]:
    """Greedy continuations of prompts of one length, by both sides."""
    import transformers

    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=dtype).eval()
    theirs.generation_config.eos_token_id = None
    prompts = drawn(texts, model.config.vocab_size, [PROMPT_TOKENS] * texts)
    ids = torch.tensor(prompts)

    def run_ours() -> list[list[int]]:
        decoder = CausalDecoder(model, prompts, tokens)
        return [one.ids for one in grow(decoder, prompts, Rules(greedy=True), max_new_tokens=tokens)]

    def run_theirs() -> list[list[int]]:
        with torch.inference_mode():
            found = theirs.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0
            )
        return found[:, PROMPT_TOKENS:].tolist()

    return run_ours, run_theirs


def translation(model: Any, folder: Path, dtype: torch.dtype, texts: int, tokens: int) -> tuple[Run, Run]:
    """The best of several beams for sources of 8 to 24 tokens, by both sides; no text ends before the last token."""
    import numpy as np
    import transformers

    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype).eval()
    for settings in (theirs.generation_config, theirs.config):
        settings.eos_token_id = settings.forced_eos_token_id = None
    sources = drawn(texts, model.config.vocab_size, [8 + row % 17 for row in range(texts)])
    longest = max(map(len, sources))
    ids = torch.tensor([[*source, *[0] * (longest - len(source))] for source in sources])
    mask = torch.tensor([[1] * len(source) + [0] * (longest - len(source)) for source in sources])

    def run_ours() -> list[list[int]]:
        rows = [np.array(source) for source in sources]
        found = translate_ids(model, rows, Beams(BEAMS), end_ids=(), max_new_tokens=tokens)
        return [own[0].ids for own in found]

    def run_theirs() -> list[list[int]]:
        with torch.inference_mode():
            found = theirs.generate(
                ids, attention_mask=mask, num_beams=BEAMS, max_new_tokens=tokens, do_sample=False, eos_token_id=None
            )
        return found[:, 1:].tolist()

    return run_ours, run_theirs


if __name__ == "__main__":
    main()
