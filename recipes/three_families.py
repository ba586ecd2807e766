"""The three families of pre-training from the same raw text, side by side: encoder, decoder, encoder-decoder.

    python recipes/three_families.py --steps 1000 -o runs/families corpus.txt

One WordPiece tokenizer, networks of similar size, the same number of tokens in each step: an encoder is trained with
masked LM (Devlin et al. 2019), a decoder with causal LM (Radford et al. 2018), an encoder-decoder with denoising
(Raffel et al. 2020). Each is a run of `maskwright pretrain`, so rerun the same command to resume. The table compares
each with the unigram model on the tokens that it is scored on; special tokens are not scored. The losses of different
families belong to different tasks: only compare the gains over the unigram model. With --text, all three process the
same sentence. table.json has the numbers of every seed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from common import made_once, minutes_of, options_of, read_options, run_main, spread

from maskwright.api import load
from maskwright.core import storage
from maskwright.inference.fill_mask import MaskFiller
from maskwright.inference.generate import Generation, TextGenerator
from maskwright.inference.ready import place
from maskwright.models.decoding.rules import Rules
from maskwright.models.decoding.search import Beams
from maskwright.models.decoding.translation import translate_ids
from maskwright.objectives.denoising import restore_spans
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import PretrainResult, pretrain
from maskwright.train.run import RunFolder


@dataclass(frozen=True)
class Family:
    """One way to learn from raw text."""

    name: str
    preset: str
    objective: str  # also the prefix of its scores
    sides: int = 1  # that the layers are divided among


FAMILIES = (
    Family("encoder", "bert-mini", "mlm"),
    Family("decoder", "gpt2", "clm"),
    Family("encoder-decoder", "transformer-mini", "denoise", sides=2),
)
COLUMNS = {  # heading, and decimal places
    "accuracy": ("correct", 3),
    "baseline": ("most common token", 3),
    "scored_loss": ("loss", 3),
    "baseline_loss": ("unigram loss", 3),
    "gain": ("gain", 3),
    "minutes": ("minutes", 1),
}


def main() -> None:
    """Train all three and show them."""
    options = options_of(__doc__)
    options.add_argument("corpus", nargs="+")
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--batch-tokens", type=int, default=4096)
    options.add_argument("--vocab-size", type=int, default=8000)
    options.add_argument("--max-length", type=int, default=128)
    options.add_argument("--hidden", type=int, default=256)
    options.add_argument("--layers", type=int, default=4, help="an encoder-decoder has half of them on each side")
    options.add_argument("--initializer-range", type=float, default=0.02, help="of the initial weights")
    options.add_argument("--lr", type=float, default=5e-4)
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--text", help="a sentence for all three; the middle word, or everything after it, is masked")
    chosen = read_options(options)
    if chosen.layers < 2 or chosen.layers % 2:
        options.error("--layers must be even")
    sizes = {"corpus": chosen.corpus, "vocab_size": chosen.vocab_size}
    tokenizer = made_once(chosen.output / "data", sizes, partial(write_data, chosen)) / "tokenizer"
    found: dict[str, list[dict[str, float]]] = {family.name: [] for family in FAMILIES}
    first: dict[str, PretrainResult] = {}
    for seed in range(chosen.seeds):
        for family in FAMILIES:
            result = pretrain(recipe(chosen, family, tokenizer, seed))
            first.setdefault(family.name, result)
            found[family.name].append({"seed": seed} | figures(family, result))
    storage.write_json(chosen.output / "table.json", found)
    print(table(found))
    if chosen.text:
        for family in FAMILIES:
            print(f"{family.name:<16}{answer(family, first[family.name], chosen.text)}")


def write_data(chosen: argparse.Namespace, new: Path) -> None:
    """The tokenizer of all three into a new folder."""
    Tokenizer.train(chosen.corpus, kind="wordpiece", vocab_size=chosen.vocab_size).save(new / "tokenizer")


def recipe(chosen: argparse.Namespace, family: Family, tokenizer: Path, seed: int) -> PretrainConfig:
    """A run of one family: what differs is the network's kind and the objective."""
    sizes = {
        "hidden_size": chosen.hidden,
        "num_attention_heads": 4,
        "intermediate_size": 4 * chosen.hidden,
        "num_hidden_layers": chosen.layers // family.sides,
        "initializer_range": chosen.initializer_range,
    }
    if family.sides == 2:
        sizes["num_decoder_layers"] = chosen.layers // 2
    return PretrainConfig(
        corpus=tuple(chosen.corpus),
        output=chosen.output / f"{family.name}-{seed}",
        preset=family.preset,
        objective=family.objective,
        tokenizer=tokenizer,
        model=sizes,
        steps=chosen.steps,
        batch_tokens=chosen.batch_tokens,
        max_length=chosen.max_length,
        lr=chosen.lr,
        dropout=0.0,  # the text is seen about once
        log_every=50,
        seed=seed,
    )


def figures(family: Family, result: PretrainResult) -> dict[str, float]:
    """Scores on held-out text, those of the unigram model on the same tokens, and the cost."""
    names = ("accuracy", "baseline", "scored_loss", "baseline_loss")
    scores = {name: result.scores[f"{family.objective}_{name}"] for name in names}
    records = RunFolder(result.output, {}).records()
    return scores | {
        "gain": scores["baseline_loss"] - scores["scored_loss"],
        "parameters": load(result.model).num_parameters,
        "minutes": minutes_of(result.output),
        "tokens_per_second": median(one["tokens_per_second"] for one in records if "tokens_per_second" in one),
    }


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Mean and deviation over the seeds, as Markdown."""
    headings = [heading for heading, _ in COLUMNS.values()]
    lines = [f"| | parameters | {' | '.join(headings)} |", "| --- |" + " ---: |" * (1 + len(headings))]
    for name, runs in found.items():
        cells = [spread([run[column] for run in runs], digits) for column, (_, digits) in COLUMNS.items()]
        lines.append(f"| {name} | {runs[0]['parameters']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def answer(family: Family, result: PretrainResult, text: str) -> str:
    """What a family makes of a sentence: its middle word hidden, or all that follows it."""
    model: Any = place(load(result.model))
    words = text.split()
    middle = len(words) // 2
    before, after = " ".join(words[:middle]), " ".join(words[middle + 1 :])
    tokenizer = model.tokenizer
    mark = tokenizer.id_to_token(tokenizer.mask_id)
    if family.objective == "mlm":
        (filled,) = MaskFiller(model).fill([f"{before} {mark} {after}"], top_k=3)
        return f"{before} {mark} {after} -> {', '.join(one.token_str for one in filled.masks[0].candidates)}"
    if family.objective == "clm":
        (found,) = TextGenerator(model).generate([before], Generation(12, Rules(greedy=True)))
        return f"{before} ->{found[0].text if found[0].text.startswith(' ') else ' ' + found[0].text}"
    inner = [*tokenizer.encode_plain([before])[0], tokenizer.mask_id, *tokenizer.encode_plain([after])[0]]
    source = np.array([tokenizer.bos_id, *inner, tokenizer.eos_id], dtype=np.int64)
    ((best,),) = translate_ids(model, [source], Beams(4), end_ids={tokenizer.eos_id}, max_new_tokens=12)
    whole = restore_spans(source[1:-1], np.array(best.ids, dtype=np.int64), tokenizer.mask_id)
    return f"{before} {mark} {after} -> {tokenizer.decode(whole.tolist())}"


if __name__ == "__main__":
    run_main(main)
