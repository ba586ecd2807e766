"""Answer the questions of the lectures with models trained here.

    MASKWRIGHT_DATA=path python recipes/lecture_questions.py -o runs/questions

Fine-tunes MiniLM for question answering on the available files of SQuAD 1.1, SQuAD 2.0 and SQuADShifts, and for
classification on the support tickets in examples/, then predicts. The passages contain the facts of the lectures'
passages in our own words. Rerun the script to resume.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

from commands import minilm_folder, run
from data_sets import data_folder
from running import run_main

from maskwright.core.errors import InputError
from maskwright.core.storage import write_json, write_text
from maskwright.tasks.qa.task import score_answer

REPOSITORY = Path(__file__).parents[1]
# Only SQuAD 2.0 has unanswerable questions: four copies, so that they are a sixth of the rows.
TRAIN = ("squad1", "squadshifts_wiki", "squadshifts_amazon", "squad2", "squad2", "squad2", "squad2")
DEV = ("squad1", "squad2")

NUS = (
    "The National University of Singapore (NUS) is the oldest university of the city state. Its faculties teach "
    "sciences, medicine and dentistry, design and environment, law, arts and social sciences, engineering, "
    "business, computing and music, to undergraduates and graduates alike."
)
SHANGHAI = "Shanghai is the largest city of China, and its people call it the fashion capital of China."
SUPER_BOWL = (
    "Super Bowl 50 decided who was champion of the National Football League (NFL) in the 2015 season. The "
    "champion of the American Football Conference (AFC), the Denver Broncos, beat the champion of the National "
    "Football Conference (NFC), the Carolina Panthers, 24 to 10. The game was played on February 7, 2016, at "
    "Levi's Stadium in Santa Clara, California."
)
BERT_LARGE = (
    "BERT comes in two sizes. BERT-base has 12 layers and 110M parameters. BERT-large is really big: it has 24 "
    "layers and an embedding size of 1,024, for a total of 340M parameters. Altogether it is 1.34GB, so it takes "
    "a while to download."
)
TICKETS = (
    ("My router's led is not working, and I have tried to reset it.", "Hardware"),
    ("I forgot my password, and the page to change it does not open.", "Software"),
    ("I have been charged twice on this month's bill.", "Billing"),
)


class LectureQuestion(NamedTuple):
    """A question on a passage, and what may be answered."""

    question: str
    context: str
    golds: tuple[str, ...]


QUESTIONS = (
    LectureQuestion(
        "What can we learn in NUS?",
        NUS,
        (
            "sciences, medicine and dentistry, design and environment, law, arts and social sciences, engineering, "
            "business, computing and music",
        ),
    ),
    LectureQuestion(
        "What does NUS mean?", NUS, ("National University of Singapore", "The National University of Singapore")
    ),
    LectureQuestion("What is the fashion capital of China?", SHANGHAI, ("Shanghai",)),
    LectureQuestion("Which NFL team represented the AFC at Super Bowl 50?", SUPER_BOWL, ("Denver Broncos",)),
    LectureQuestion("Which NFL team represented the NFC at Super Bowl 50?", SUPER_BOWL, ("Carolina Panthers",)),
    LectureQuestion("How many parameters does BERT-large have?", BERT_LARGE, ("340M", "340M parameters")),
)


def main() -> None:
    """Train what is not there, ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/questions"))
    parser.add_argument("--epochs", default="2")
    options = parser.parse_args()
    data, output = data_folder(), Path(options.output)
    minilm = minilm_folder()
    if minilm is None:
        raise InputError("The package that carries MiniLM is not installed: make .venv/.test installs it.")
    for part, names in (("train", TRAIN), ("dev", DEV)):
        if not (output / f"{part}.json").is_file():
            write_json(output / f"{part}.json", together(data, names, part))
    run(
        "finetune", "qa", "--model", minilm, "--train", str(output / "train.json"), "--dev", str(output / "dev.json"),
        "--epochs", options.epochs, "--lr", "1e-4", "--batch-size", "16", "--max-length", "256",
        "--config", str(often(output)), "-o", str(output / "qa"),
    )  # fmt: skip
    run(
        "finetune", "classification", "--model", minilm, "--train", str(REPOSITORY / "examples/support_tickets.csv"),
        "--epochs", "8", "--lr", "1e-4", "--batch-size", "16", "--seeds", "3", "-o", str(output / "tickets"),
    )  # fmt: skip
    lines = ["| question | expected | found | right |", "| --- | --- | --- | --- |"]
    for text, label in TICKETS:
        found = run("predict", str(output / "tickets/model"), text)["label"]
        lines.append(f"| {text} | {label} | {found} | {'yes' if found == label else 'no'} |")
    for asked in QUESTIONS:
        found = run(
            "answer", str(output / "qa/model"), "--question", asked.question, "--context", asked.context
        )["answer"]  # fmt: skip
        exact, f1 = score_answer(found, asked.golds)
        right = "yes" if exact else f"F1 {f1:.2f}" if f1 else "no"
        lines.append(f"| {asked.question} | {asked.golds[0]} | {found or '(refused)'} | {right} |")
    write_text(output / "table.md", "\n".join(lines) + "\n")
    print("\n".join(lines))


def often(output: Path) -> Path:
    """A recipe that keeps a checkpoint every 200 steps: an epoch takes half an hour."""
    write_text(output / "often.toml", "checkpoint_every = 200\n")
    return output / "often.toml"


def together(data: Path, names: tuple[str, ...], part: str) -> dict[str, Any]:
    """The questions of several sets as one file in SQuAD's layout. A set may be named again: its copy has other ids."""
    articles = []
    for place, name in enumerate(names):
        with lzma.open(data / name / f"{part}.json.xz", "rt", encoding="utf-8") as file:
            found = json.load(file)["data"]
        if copy := names[:place].count(name):
            for question in (one for article in found for text in article["paragraphs"] for one in text["qas"]):
                question["id"] += f"-{copy}"
        articles += found
    return {"version": "v2.0", "data": articles}


if __name__ == "__main__":
    run_main(main)
