"""Parsing as translation: from a sentence to its tree as a bracket string, on trees drawn from a small grammar.

    python recipes/parser.py -o runs/parser

The grammar has one ambiguity: who is in the pajamas in "I shot an elephant in my pajamas"? Both parses are sampled
equally often, so the two best hypotheses of such a sentence are its two parses (Vinyals et al. 2015). Reports how many
held-out sentences get a well-formed tree and how many a correct tree, with free and with constrained decoding, and
shows the two parses. Rerun the same command to resume.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from common import made_once, options_of, read_options, run_main

from maskwright.api import load
from maskwright.core import storage
from maskwright.inference.ready import place
from maskwright.inference.translate import BRACKETS, TextTranslator, TranslationSettings
from maskwright.text.readers.parallel import linearized
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune

NOUNS = ["elephant", "dog", "cat", "man", "woman", "tourist", "park", "pajamas", "telescope", "hat", "garden"]
VERBS = ["shot", "saw", "chased", "photographed", "watched"]
DETERMINERS = ["an", "a", "the", "my"]
PREPOSITIONS = ["in", "with", "near"]
SHOWN = "I shot an elephant in my pajamas"


def main() -> None:
    """Draw trees, train, report, show both readings."""
    options = options_of(__doc__)
    options.add_argument("--sentences", type=int, default=6000)
    options.add_argument("--epochs", type=int, default=6)
    chosen = read_options(options)
    data = prepare(chosen.output / "data", chosen.sentences)
    result = finetune(
        FinetuneConfig(
            task="translation",
            preset="transformer-mini",
            tokenizer=data / "tokenizer",
            network={"num_hidden_layers": 2, "num_decoder_layers": 2, "hidden_size": 128, "intermediate_size": 256},
            train=data / "train.tsv",
            dev=data / "dev.tsv",
            output=chosen.output / "run",
            epochs=chosen.epochs,
            batch_tokens=4096,
            max_length=64,
            lr=3e-3,
            warmup=0.2,
        )
    )
    parser = TextTranslator(place(load(result.model)))
    rows = [line.split("\t") for line in (data / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    for how in BRACKETS:
        found = parser.translate([row[0] for row in rows], TranslationSettings(beams=4, num_results=2, brackets=how))
        well_formed = sum(own[0].fault is None for own in found)
        right = sum(row[1] in [one.text for one in own] for row, own in zip(rows, found, strict=True))
        print(f"{how}: well-formed {well_formed:,} of {len(rows):,}; the drawn tree among the two best {right:,}")
    ((first, second),) = parser.translate([SHOWN], TranslationSettings(beams=4, num_results=2, brackets="flag"))
    for one in (first, second):
        print(f"{one.score:8.3f}  {one.text}" + (f"   ({one.fault})" if one.fault else ""))


def prepare(folder: Path, count: int) -> Path:
    """Create sentences with their bracket strings, and a whitespace tokenizer, once."""
    return made_once(folder, {"sentences": count}, partial(write_data, count=count))


def write_data(new: Path, *, count: int) -> None:
    """The same into a new folder."""
    draws = random.Random(0)
    trees = [tree(draws) for _ in range(count)]
    pairs = [(words_of(linearized(one)), linearized(one)) for one in trees]
    for name, own in (("dev", pairs[: count // 20]), ("train", pairs[count // 20 :])):
        rows = "".join(f"{source}\t{target}\n" for source, target in own)
        storage.write_text(new / f"{name}.tsv", "source\ttarget\n" + rows)
    texts = (text for pair in pairs for text in pair)
    Tokenizer.train_from_iterator(texts, kind="byte-bpe", vocab_size=500).save(new / "tokenizer")


def tree(draws: random.Random) -> str:
    """A sentence of the grammar: somebody does something to something, and often somewhere."""
    subject = "(NP (PRP I))" if draws.random() < 0.3 else noun_phrase(draws)
    verb, what = f"(V {draws.choice(VERBS)})", noun_phrase(draws)
    if draws.random() < 0.4:
        return f"(S {subject} (VP {verb} {what}))"
    where = f"(PP (P {draws.choice(PREPOSITIONS)}) {noun_phrase(draws)})"
    if draws.random() < 0.5:  # the place is that of the deed, or that of the thing
        return f"(S {subject} (VP {verb} {what} {where}))"
    return f"(S {subject} (VP {verb} (NP {what} {where})))"


def noun_phrase(draws: random.Random) -> str:
    """A determiner and a noun."""
    return f"(NP (D {draws.choice(DETERMINERS)}) (N {draws.choice(NOUNS)}))"


def words_of(written: str) -> str:
    """The sentence of a bracket string."""
    return " ".join(piece for piece in written.split() if piece[0] not in "()")


if __name__ == "__main__":
    run_main(main)
