"""Commands to use the model of a fine-tuning run, for its report."""

from __future__ import annotations

from pathlib import Path

from ...report import Command, NextSteps


def next_steps(model: Path, task: str) -> NextSteps:
    """Commands that use the model of a finished run of `task`."""
    test = {"tagging": "test.conll", "qa": "test.json", "choice": "test.jsonl"}.get(task, "test.tsv")
    if task == "similarity":
        return NextSteps(
            [
                Command(f"maskwright evaluate {model} {test}", "score it on unseen test pairs"),
                Command(f'maskwright search {model} texts/ "your question"', "semantic search in a folder of texts"),
                Command(f"maskwright embed {model} --input texts.txt --output vectors.npy", "save sentence embeddings"),
            ]
        )
    if task == "qa":
        use = Command(f'maskwright answer {model} --question "Who?" --context "your text"', "use it")
        return NextSteps([Command(f"maskwright evaluate {model} {test}", "score it on unseen test questions"), use])
    if task == "generation":
        return NextSteps(
            [
                Command(f"maskwright evaluate {model} {test}", "score it on unseen test rows"),
                Command(f'maskwright predict {model} "your text"', "generate text"),
                Command(f"maskwright predict {model} --input texts.txt --output written.jsonl", "use it on a file"),
            ]
        )
    if task == "translation":
        return NextSteps(
            [
                Command(f"maskwright evaluate {model} test.tsv", "score it on unseen test pairs"),
                Command(f'maskwright translate {model} "your text"', "translate a text"),
                Command(f"maskwright translate {model} --input texts.txt --output written.txt", "use it on a file"),
            ]
        )
    single, texts = f'maskwright predict {model} "your text"', "texts.txt"
    if task == "choice":
        single, texts = f'{single} --choice "one ending" --choice "another"', "rows.jsonl"
    return NextSteps(
        [
            Command(f"maskwright evaluate {model} {test}", "score it on unseen test rows"),
            Command(single, "use it"),
            Command(f"maskwright predict {model} --input {texts} --output answers.jsonl", "use it on a file"),
        ]
    )
