"""The three families of pre-training from the same raw text, side by side: encoder, decoder, encoder-decoder.

    python recipes/three_families.py --steps 1000 -o runs/families corpus.txt

One WordPiece tokenizer, networks of similar size, the same batches of tokens: an encoder is trained with masked LM
(Devlin et al. 2019), a decoder with causal LM (Radford et al. 2018), an encoder-decoder with denoising (Raffel et al.
2020). Each is a run of `maskwright pretrain`, so rerun the same command to resume. Then all three process the same
sentence. Their losses belong to different tasks: only compare the gains over the unigram baseline.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from data_sets import made_once
from running import run_main

from maskwright.api import load
from maskwright.inference.fill_mask import MaskFiller
from maskwright.inference.generate import Generation, TextGenerator
from maskwright.inference.ready import place
from maskwright.models.decoding.beam import Beams
from maskwright.models.decoding.rules import Rules
from maskwright.models.decoding.translation import translate_ids
from maskwright.objectives.denoising import restore_spans
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import PretrainResult, pretrain
from maskwright.train.run import RunFolder


@dataclass(frozen=True)
class Family:
    """One way to learn from raw text. part: of its scores."""

    name: str
    preset: str
    objective: str
    part: str
    layers: dict[str, int]


FAMILIES = (
    Family("encoder", "bert-mini", "mlm", "mlm", {"num_hidden_layers": 4}),
    Family("decoder", "gpt2", "clm", "clm", {"num_hidden_layers": 4}),
    Family(
        "encoder-decoder", "transformer-mini", "denoise", "denoise", {"num_hidden_layers": 2, "num_decoder_layers": 2}
    ),
)
SIZES = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}


def main() -> None:
    """Train all three and show them."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("corpus", nargs="+")
    options.add_argument("-o", "--output", type=Path, required=True)
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--vocab-size", type=int, default=8000)
    options.add_argument("--max-length", type=int, default=128)
    options.add_argument("--text", help="a sentence for all three; the middle word, or everything after it, is masked")
    chosen = options.parse_args()
    sizes = {"corpus": chosen.corpus, "vocab_size": chosen.vocab_size}
    tokenizer = made_once(chosen.output / "data", sizes, partial(write_data, chosen)) / "tokenizer"
    rows = [(family, pretrain(recipe(chosen, family, tokenizer))) for family in FAMILIES]
    print(f"{'':<16}{'parameters':>12}{'right':>8}{'by count':>10}{'loss':>8}{'by count':>10}{'tokens/s':>10}")
    for family, result in rows:
        print(line(family, result))
    if chosen.text:
        for family, result in rows:
            print(f"{family.name:<16}{answer(family, result, chosen.text)}")


def write_data(chosen: argparse.Namespace, new: Path) -> None:
    """The tokenizer of all three into a new folder."""
    Tokenizer.train(chosen.corpus, kind="wordpiece", vocab_size=chosen.vocab_size).save(new / "tokenizer")


def recipe(chosen: argparse.Namespace, family: Family, tokenizer: Path) -> PretrainConfig:
    """A run of one family: what differs is the network's kind and the objective."""
    return PretrainConfig(
        corpus=tuple(chosen.corpus),
        output=chosen.output / family.name,
        preset=family.preset,
        objective=family.objective,
        tokenizer=tokenizer,
        model=SIZES | family.layers,
        steps=chosen.steps,
        max_length=chosen.max_length,
    )


def line(family: Family, result: PretrainResult) -> str:
    """Return a row of the table: accuracy and loss on held-out text, and the unigram baseline at the same positions."""
    records = RunFolder(result.output, {}).records()
    rate = np.median([record["tokens_per_second"] for record in records if "tokens_per_second" in record])
    right, loss = result.scores[f"{family.part}_accuracy"], result.scores[f"{family.part}_loss"]
    count = load(result.model).num_parameters
    return (
        f"{family.name:<16}{count:>12,}{right:>8.3f}{result.baseline.mlm_accuracy:>10.3f}{loss:>8.3f}"
        f"{result.baseline.mlm_loss:>10.3f}{rate:>10,.0f}"
    )


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
