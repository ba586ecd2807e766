"""Small runs of every command that trains, and what they leave: files, figures, answers."""

from __future__ import annotations

import io
import json
import random
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from maskwright.cli import main

WORDS = "the a cat dog bird sat ran flew on under near mat log tree red blue old".split()  # noqa: SIM905
GOOD, BAD = ["good", "great", "fine", "lovely"], ["bad", "awful", "poor", "dull"]


def write_data(folder: Path) -> None:
    """Writes every input that the runs read."""
    draw = random.Random(7)

    def sentence(words: int = 6) -> str:
        return " ".join(draw.choice(WORDS) for _ in range(words))

    def write(name: str, lines: list[str]) -> None:
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def rows(make: Any, count: int = 24) -> list[str]:
        return [make(number) for number in range(count)]

    write("corpus.txt", [line for _ in range(30) for line in (sentence(), sentence(), sentence(), "")])
    opinions = [f"{sentence(3)} {draw.choice((GOOD, BAD)[n % 2])} {sentence(2)}" for n in range(24)]
    write("classes.tsv", ["text\tlabel", *(f"{text}\t{('good', 'bad')[n % 2]}" for n, text in enumerate(opinions))])
    write("multi.tsv", ["text\tlabel", *(f"{text}\t{('x', 'y', 'x|y')[n % 3]}" for n, text in enumerate(opinions))])
    write("scores.tsv", ["text\ttext_pair\tlabel", *rows(lambda n: f"{sentence()}\t{sentence()}\t{n % 6}")])
    tagged = rows(
        lambda n: "\n".join(f"{w} {'B-PET' if w in ('cat', 'dog') else 'O'}" for w in sentence().split()) + "\n"
    )
    write("tags.conll", tagged)
    questions = [
        {"question": f"where is the {word} ?", "context": f"{sentence(4)} {word} home", "answers": ["home"]}
        for word in ("cat", "dog", "bird", "tree") * 6
    ]
    write("questions.jsonl", [json.dumps(one) for one in questions])
    choices = rows(lambda n: json.dumps({"context": sentence(), "choices": [sentence(3), sentence(3)], "label": n % 2}))
    write("choices.jsonl", choices)
    write("pairs.tsv", ["source\ttarget", *rows(lambda n: "{0}\t{0}".format(sentence(4)))])
    write("normal.txt", rows(lambda n: sentence()))


def command(*words: object) -> tuple[int, str, str]:
    """Runs a command in this process; returns its exit code, standard output and standard error."""
    before, sys.argv = sys.argv, ["maskwright", *map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as finished:
        code = finished.code or 0
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


SHAPE = [
    "--set",
    "hidden_size=16",
    "--set",
    "num_hidden_layers=1",
    "--set",
    "num_attention_heads=2",
    "--set",
    "intermediate_size=32",
]
TUNE = [
    "--epochs",
    2,
    "--lr",
    "3e-3",
    "--batch-size",
    8,
    "--seed",
    3,
    "--device",
    "cpu",
    "--precision",
    "fp32",
    "--quiet",
]
PRETRAIN = [
    "--steps",
    4,
    "--batch-tokens",
    256,
    "--max-length",
    32,
    "--seed",
    3,
    "--device",
    "cpu",
    "--precision",
    "fp32",
    "--quiet",
]


INFERENCE = ("evaluate", "predict", "answer", "fill-mask", "generate", "embed")


def cases(at: Path) -> dict[str, list[list[object]]]:
    """Commands of each run by name; a later run uses folders of earlier ones, and the last command prints JSON."""
    found: dict[str, list[list[object]]] = {}
    for kind in ("wordpiece", "wordpiece-score", "bpe", "byte-bpe", "word", "char"):
        found[f"tokenizer {kind}"] = [
            [
                "tokenizer",
                "train",
                "--kind",
                kind,
                "--vocab-size",
                300 if kind == "byte-bpe" else 60,
                "-o",
                at / kind,
                at / "corpus.txt",
                "--quiet",
            ],
            ["tokenizer", "encode", at / kind, "the dog sat under an old tree", "--json"],
        ]
    objectives = {
        "mlm": "bert-tiny",
        "mlm+nsp": "bert-tiny",
        "mlm+sop": "bert-tiny",
        "rtd": "electra-small",
        "clm": "gpt2",
        "bilm": "elmo-small",
        "denoise": "transformer-mini",
    }
    for objective, preset in objectives.items():
        shape = SHAPE if preset != "elmo-small" else SHAPE[:4]
        if objective == "rtd":
            shape = [*SHAPE, "--set", "embedding_size=16"]
        found[f"pretrain {objective}"] = [
            [
                "pretrain",
                at / "corpus.txt",
                "--preset",
                preset,
                "--objective",
                objective,
                "--tokenizer",
                at / "wordpiece",
                "-o",
                at / f"run-{objective}",
                *shape,
                *PRETRAIN,
                "--json",
            ],
        ]
    tasks = {
        "classification": "classes.tsv",
        "multi-label": "multi.tsv",
        "regression": "scores.tsv",
        "tagging": "tags.conll",
        "qa": "questions.jsonl",
        "choice": "choices.jsonl",
    }
    for task, data in tasks.items():
        run = at / f"run-{task}"
        name = "classification" if task == "multi-label" else task
        found[f"finetune {task}"] = [
            [
                "finetune",
                name,
                "--preset",
                "bert-tiny",
                *SHAPE,
                "--tokenizer",
                at / "wordpiece",
                "--train",
                at / data,
                "--dev",
                at / data,
                "-o",
                run,
                *TUNE,
                "--json",
            ],
            ["evaluate", run / "model", at / data, "--json"],
        ]
    found["predict classes"] = [
        ["predict", at / "run-classification" / "model", "a good cat", "an awful dog", "--json"]
    ]
    found["predict tags"] = [["predict", at / "run-tagging" / "model", "the old cat ran", "--json"]]
    found["answer"] = [
        [
            "answer",
            at / "run-qa" / "model",
            "--question",
            "where is the cat ?",
            "--context",
            "the cat sat home",
            "--json",
        ]
    ]
    found["fill-mask"] = [["fill-mask", at / "run-mlm" / "model", "the [MASK] sat", "--top-k", 3, "--json"]]
    found["generate"] = [["generate", at / "run-clm" / "model", "the cat", "--max-new-tokens", 4, "--json"]]
    seq2seq = [
        "--preset",
        "transformer-mini",
        *SHAPE,
        "--tokenizer",
        at / "wordpiece",
        "--train",
        at / "pairs.tsv",
        "--dev",
        at / "pairs.tsv",
    ]
    found["finetune translation"] = [
        ["finetune", "translation", *seq2seq, "-o", at / "run-translation", *TUNE, "--json"]
    ]
    found["finetune anomaly"] = [
        [
            "finetune",
            "anomaly",
            "--model",
            at / "run-mlm" / "model",
            "--train",
            at / "classes.tsv",
            "--dev",
            at / "classes.tsv",
            "-o",
            at / "run-anomaly",
            *TUNE,
            "--max-length",
            16,
        ],
        ["evaluate", at / "run-anomaly" / "model", at / "classes.tsv", "--json"],
    ]
    found["distill"] = [
        [
            "distill",
            "--teacher",
            at / "run-mlm" / "model",
            "-o",
            at / "run-distill",
            *PRETRAIN,
            "--json",
            at / "corpus.txt",
        ]
    ]
    found["embed"] = [["embed", at / "run-mlm" / "model", "the cat", "a dog sat", "--json"]]
    found["doctor data"] = [["doctor", "data", at / "classes.tsv", "--json"]]
    return found


def outcome(at: Path, commands: list[list[object]]) -> dict[str, Any]:
    """Runs commands; returns the files of the output folder and what the last one printed."""
    before = set(at.rglob("*"))
    for words in commands:
        precision = ["--precision", "fp32"] if words[0] in INFERENCE else []  # auto depends on the CPU
        code, out, err = command(*words, *precision)
        assert code == 0, (words, err[-2000:])
    files = sorted(
        {p.relative_to(at).as_posix() for p in at.rglob("*") if p.is_file()}
        - {p.relative_to(at).as_posix() for p in before}
    )
    return {"files": files, "printed": rounded([json.loads(line) for line in out.splitlines()], at)}


def rounded(value: Any, at: Path) -> Any:
    """JSON without the temporary folder's name, and times, and with 4 significant digits."""
    if isinstance(value, dict):
        return {key.replace(str(at), ""): rounded(one, at) for key, one in value.items() if "second" not in key}
    if isinstance(value, list):
        return [rounded(one, at) for one in value[:24]]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value.replace(str(at), "") if isinstance(value, str) else value
