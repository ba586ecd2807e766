"""Zero-shot translation from A to C with one model trained on A to B and B to C, on Multi30k (Johnson et al. 2017,
section 4.4).

    MASKWRIGHT_DATA=path python recipes/zero_shot.py --epochs 20 -o runs/zero

    ... python recipes/zero_shot.py --both-ways --start runs/zero/run/model --epochs 3 --lr 1e-3 -o runs/zero-both

Half of the captions are German to English, the other half English to French; no row has German and French, and no
caption is in both halves. --both-ways uses each pair in both directions, as Johnson et al. did; German is still only
paired with English. --start fine-tunes an existing translation model.

Then it translates the official dev split and reports BLEU in every trained direction and from German to French. For
comparison it reports translation via English in two steps, and the fraction of French words in the output: words of the
references that English ones never contain. Rerun the same command to resume.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from common import captions, made_once, options_of, read_options, run_main

from maskwright.api import load
from maskwright.core import storage
from maskwright.inference.ready import place
from maskwright.inference.translate import TextTranslator, TranslationSettings
from maskwright.tasks.translation import corpus_scores
from maskwright.text.readers.parallel import tag
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune

SEEN = (("de", "en"), ("en", "fr"))
ZERO_SHOT = ("de", "fr")
NETWORK = {"hidden_dropout": 0.2, "max_position_embeddings": 256}
HELD_BACK = 500  # pairs of each direction on which the run is watched


def main() -> None:
    """Train on two directions, score three."""
    options = options_of(__doc__)
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument("--lr", type=float, default=2e-3)
    options.add_argument("--both-ways", action="store_true", help="show each pair in both directions")
    options.add_argument("--start", help="a translation model of an earlier run to fine-tune")
    options.add_argument("--vocab-size", type=int, default=8000)
    options.add_argument("--preset", default="transformer-mini")
    options.add_argument("--beams", type=int, default=5)
    chosen = read_options(options)
    result = finetune(recipe_of(chosen, prepare(chosen.output / "data", chosen.vocab_size, chosen.both_ways)))
    show_scores(TextTranslator(place(load(result.model))), (*shown(chosen.both_ways), ZERO_SHOT), chosen.beams)


def recipe_of(chosen: argparse.Namespace, data: Path) -> FinetuneConfig:
    """The training, on the files of `prepare`."""
    new = {"preset": chosen.preset, "tokenizer": data / "tokenizer", "network": NETWORK}
    return FinetuneConfig(
        task="translation",
        **({"model": chosen.start} if chosen.start else new),
        train=data / "train.source.txt",
        train_target=data / "train.target.txt",
        dev=data / "held.source.txt",
        dev_target=data / "held.target.txt",
        output=chosen.output / "run",
        epochs=chosen.epochs,
        batch_tokens=4096,
        max_length=96,
        lr=chosen.lr,
        warmup=1000 if chosen.epochs >= 10 else 0.3,
        average_checkpoints=min(5, chosen.epochs),
    )


def show_scores(translator: TextTranslator, directions: Sequence[tuple[str, str]], beams: int) -> None:
    """Translate the dev split in every direction, and from German to French in two steps; print the scores."""
    texts = captions("dev")
    into = {(source, target): written(translator, texts[source], target, beams) for source, target in directions}
    by_way = written(translator, into["de", "en"], "fr", beams)
    for (source, target), found in into.items():
        kind = "never shown" if (source, target) == ZERO_SHOT else "trained"
        report(f"{source} to {target}, {kind}", found, texts[target])
    print(report("de to en to fr, in two steps", by_way, texts["fr"]))
    for what, found in (("in one step", into[ZERO_SHOT]), ("in two steps", by_way), ("references", texts["fr"])):
        print(f"words that only French has, {what:<14} {share_of_french(found, texts):.3f}")


def shown(both_ways: bool) -> tuple[tuple[str, str], ...]:
    """The directions that training sees."""
    return (*SEEN, *((target, source) for source, target in SEEN)) if both_ways else SEEN


def share_of_french(found: list[str], texts: dict[str, list[str]]) -> float:
    """Of all words, those that the French texts have and the English ones have not."""
    french, english, own = (" ".join(some).lower().split() for some in (texts["fr"], texts["en"], found))
    only_french = set(french) - set(english)
    return sum(word in only_french for word in own) / max(len(own), 1)


def prepare(folder: Path, vocab_size: int, both_ways: bool = False) -> Path:
    """Tagged line-aligned files of both directions, mixed, and one tokenizer for all languages, made once."""
    sizes = {"vocab_size": vocab_size, "both_ways": both_ways}
    return made_once(folder, sizes, partial(write_data, vocab_size=vocab_size, both_ways=both_ways))


def write_data(new: Path, *, vocab_size: int, both_ways: bool) -> None:
    """The same into a new folder."""
    texts = captions("train")
    rows = list(range(len(texts["en"])))
    draws = random.Random(0)
    draws.shuffle(rows)
    middle = len(rows) // 2
    parts: dict[str, list[tuple[str, str]]] = {"held": [], "train": []}
    for (source, target), own in zip(SEEN, (rows[:middle], rows[middle:]), strict=True):
        for one, other in ((source, target), (target, source))[: 1 + both_ways]:
            pairs = [(f"{tag(other)} {texts[one][row]}", texts[other][row]) for row in own]
            parts["held"] += pairs[:HELD_BACK]
            parts["train"] += pairs[HELD_BACK:]
    draws.shuffle(parts["train"])
    for name, pairs in parts.items():
        for number, side in enumerate(("source", "target")):
            storage.write_text(new / f"{name}.{side}.txt", "".join(pair[number] + "\n" for pair in pairs))
    plain = (text for pair in parts["train"] for text in (pair[0].partition("> ")[2], pair[1]))
    Tokenizer.train_from_iterator(plain, kind="byte-bpe", vocab_size=vocab_size).save(new / "tokenizer")


def written(translator: TextTranslator, texts: list[str], language: str, beams: int) -> list[str]:
    """The translations of texts into a language."""
    return [found[0].text for found in translator.translate(texts, TranslationSettings(beams, to=language))]


def report(what: str, found: list[str], wanted: list[str]) -> str:
    """Print BLEU and chrF; returns how BLEU was computed."""
    scores, signatures = corpus_scores(found, wanted)
    print(f"{what:<32} BLEU {scores['bleu']:6.2f}  chrF {scores['chrf']:6.2f}")
    return signatures["bleu"]


if __name__ == "__main__":
    run_main(main)
