"""Files and small models under the names that the pages of the documentation use."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

import maskwright as mw
from conventions.sources import REPOSITORY
from hub.test_other_sentence_folders import splade_folder
from maskwright.models.model import LateInteraction, SentenceSettings
from train import benchmark_data

TEXT = """
the man went to store and bought a gallon of milk while river was high after rain old dog sleeps on mat cat sat
bank opened new account for every person who asked about money back in town great film bore apple phone litre
"""
WORDS = TEXT.split()
PEOPLE = {"Albert": "B-PER", "Anna": "B-PER", "Paris": "B-LOC", "Spain": "B-LOC"}


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 9))).capitalize() + "." for _ in range(count)]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def table(path: Path, columns: str, rows: list[tuple[str, ...]]) -> None:
    mark = "," if path.suffix == ".csv" else "\t"
    write(path, "\n".join(mark.join(row) for row in [tuple(columns.split()), *rows]) + "\n")


def write_files(folder: Path) -> None:
    shutil.copytree(REPOSITORY / "examples", folder / "examples")
    for name, count, seed in (("train", 30, 1), ("dev", 12, 2), ("test", 12, 3)):
        texts = sentences(count, seed)
        table(
            folder / f"{name}.csv", "text label", [(text, ("Billing", "Other")[i % 2]) for i, text in enumerate(texts)]
        )
        table(folder / f"{name}.tsv", "text label", [(text, ("ham", "spam")[i % 2]) for i, text in enumerate(texts)])
        write_structured(folder, name, texts)
    scored = [(a, b, f"{i % 6}") for i, (a, b) in enumerate(zip(sentences(24, 5), sentences(24, 6), strict=True))]
    table(folder / "scores.tsv", "text text_pair score", scored)
    table(folder / "scores-test.tsv", "text text_pair score", scored[:8])
    documents = ["\n".join(sentences(5, seed)) for seed in range(20, 50)]
    write(folder / "texts" / "a.txt", "\n\n".join(documents) + "\n")
    write(folder / "corpus.txt", "\n\n".join(documents) + "\n")
    write(folder / "held-out.txt", "\n\n".join(documents[:4]) + "\n")
    write(folder / "texts.txt", "\n".join(sentences(12, 7)) + "\n")
    write(folder / "sentences.txt", "The bank opened.\nThe river bank was high.\n")
    rows = [(one, ("ham", "spam")[i % 4 == 0]) for i, one in enumerate(sentences(600, 10))]
    table(folder / "rows.tsv", "text label", rows)
    long = [" ".join(sentences(8, seed)) for seed in range(60, 80)]
    table(folder / "docs.csv", "text label", [(one, ("Billing", "Other")[i % 2]) for i, one in enumerate(long)])
    table(folder / "docs.tsv", "text score", [(one, str(i % 3)) for i, one in enumerate(long)])
    table(folder / "source-target.tsv", "source target", [(one, one) for one in sentences(16, 12)])
    write(folder / "articles.txt", "\n\n".join(documents) + "\n")
    write(folder / "documents.jsonl", "\n".join(json.dumps({"text": one}) for one in long) + "\n")
    write(folder / "queries.txt", "refund\nlate parcel\n")
    write(folder / "notes" / "a.md", "\n\n".join(documents[:3]) + "\n")
    table(folder / "tickets.csv", "body label", [(one, "Billing") for one in sentences(8, 8)])
    table(folder / "tickets.tsv", "text label", [(one, "ab"[i % 2]) for i, one in enumerate(sentences(20, 8))])
    table(folder / "pairs.tsv", "text text_pair score", scored)
    table(folder / "stsb.tsv", "text text_pair score", scored)
    table(folder / "stsb-dev.tsv", "text text_pair score", scored[:12])
    write(folder / "report.txt", "Anna won in Paris. The old man sleeps.\n")


def write_structured(folder: Path, name: str, texts: list[str]) -> None:
    tagged = []
    for text, person in zip(texts, [*PEOPLE] * len(texts), strict=False):
        words = [person, *text.rstrip(".").split()]
        tagged.append("\n".join(f"{word} {PEOPLE.get(word, 'O')}" for word in words))
    write(folder / f"{name}.conll", "\n\n".join(tagged) + "\n")
    asked = []
    for i, text in enumerate(texts):
        first, second, *_ = text.split()
        answer = {"text": second, "answer_start": len(first) + 1}
        asked.append({"id": f"{name}{i}", "question": "Who?", "answers": [answer]})
    paragraphs = [{"context": text, "qas": [qa]} for text, qa in zip(texts, asked, strict=True)]
    write(folder / f"{name}.json", json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    rows = [{"context": text, "choices": ["He ate.", "He slept."], "label": i % 2} for i, text in enumerate(texts)]
    write(folder / f"{name}.jsonl", "\n".join(map(json.dumps, rows)) + "\n")
    for language in ("de", "en"):
        write(folder / f"{name}.{language}.txt", "\n".join(texts) + "\n")


def write_models(folder: Path) -> None:
    tokenizer = mw.Tokenizer.train([str(folder / "corpus.txt")], kind="wordpiece", vocab_size=600)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 4}
    config = mw.preset("bert-tiny", vocab_size=len(tokenizer), **sizes)
    for name, head in (("minilm", None), ("MODEL", None), ("runs/a/model", "pretraining")):
        model = mw.build(config, head, seed=1)
        model.tokenizer = tokenizer
        model.save(folder / name)
    byte_tokenizer = mw.Tokenizer.train([str(folder / "corpus.txt")], kind="byte-bpe", vocab_size=300)
    causal = mw.build(mw.preset("gpt2", vocab_size=len(byte_tokenizer), **sizes), "clm", seed=1)
    causal.tokenizer = byte_tokenizer
    causal.save(folder / "runs" / "gpt" / "model")
    for name in ("b", "c"):
        mw.finetune(
            mw.FinetuneConfig(
                train=folder / "train.tsv", dev=folder / "dev.tsv", output=folder / "runs" / name,
                model=str(folder / "minilm"), epochs=1, max_length=16, seed=ord(name),
            )
        )  # fmt: skip


def prepare(page: str, folder: Path) -> None:
    if page in ("how-to/benchmark-files", "how-to/glue"):
        benchmark_data.glue(folder / "glue_data")
        for part, count in (("train", 8), ("dev", 4)):
            benchmark_data.squad(folder / "squad" / f"{part}-v1.1.json", count, 1)
            benchmark_data.squad(folder / "squad" / f"{part}-v2.0.json", count, 2, can_refuse=True)
        for part in ("train", "testa", "testb"):
            benchmark_data.conll(folder / "conll2003" / f"eng.{part}", 8, len(part))
        for part in ("train", "val"):
            benchmark_data.swag(folder / "swag" / f"{part}.csv", 8, len(part))
        write(folder / "trees" / "train.txt", "(3 (2 the) (4 film))\n(1 (2 a) (0 bore))\n")
    elif page == "how-to/convert":
        shutil.copytree(folder / "minilm", folder / "old-bert")
        weights = folder / "old-bert" / "model.safetensors"
        torch.save(load_file(weights), folder / "old-bert" / "pytorch_model.bin")
        weights.unlink()
        (folder / "old-bert" / "manifest.json").unlink(missing_ok=True)
    elif page == "how-to/distill":
        model = mw.load(folder / "minilm")
        model.sentence = SentenceSettings("mean", True)
        model.save(folder / "minilm", replace=True)
    elif page in ("how-to/elmo-features", "how-to/prepare-corpus"):
        kind = "char" if page == "how-to/elmo-features" else "wordpiece"
        mw.Tokenizer.train([str(folder / "corpus.txt")], kind=kind, vocab_size=300).save(folder / "tok")
    elif page == "how-to/embed":
        splade_folder(folder / "splade", "max", "relu")
        model = mw.load(folder / "splade", head=None)
        model.sentence = SentenceSettings(pooling="none", late=LateInteraction())
        model.save(folder / "colbert")
    elif page == "tutorials/lectures":
        write(folder / "weights.csv", "0.2,0.8\n0.5,0.5\n")


def names(page: str) -> dict[str, object]:
    """Variables that the Python of a page uses without defining them."""
    texts = sentences(12, 9)
    tagged = [text.rstrip(".").split() for text in texts]
    choices = {"rows": [(text, ["He ate.", "He slept."]) for text in texts], "labels": [0, 1] * 6}
    return {
        "mw": mw,
        "gold": np.array([0, 1] * 6),
        "first_labels": np.array([0, 1] * 6),
        "second_labels": np.array([0, 0, 1, 1] * 3),
        "first_f1": [float(i % 2) for i in range(12)],
        "second_f1": [float(i % 3) / 2 for i in range(12)],
        "question": "Who sleeps?",
        "context": "He read the answer span aloud.",
        "texts": texts,
        "normal_texts": texts,
        "labels": ["ham", "spam"] * 6,
        "pairs": list(zip(texts, reversed(texts), strict=True)),
        "scores": [float(i % 5) for i in range(12)],
        "sentences": tagged,
        "tags": [["B-PER", *["O"] * (len(words) - 1)] for words in tagged],
        **(choices if page == "how-to/choose" else {}),
    }
