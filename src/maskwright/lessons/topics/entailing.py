"""Natural language inference: input format, classification and metrics of pairs; and multi-task learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Tasks"
PREMISE = "A man plays a guitar on the stage."
PAIRS = {
    "entailment": "A man makes music.",
    "contradiction": "The man is asleep in his bed.",
    "neutral": "The man is famous.",
}
HEADER = "index\tgenre\tsentence1\tsentence2\tgold_label"


def _entailment(record: LessonRecorder) -> None:
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import torch

    from ...core import storage
    from ...report import Kind, Table, Token, Tokens
    from ...tasks.classification import Classification
    from ...text.readers.glue import glue_files, read_glue
    from ..small import word_tokenizer

    lines = [f"{n}\tfiction\t{PREMISE}\t{text}\t{label}" for n, (label, text) in enumerate(PAIRS.items())]
    disputed = f"3\tfiction\t{PREMISE}\tThe man is tired.\t-"
    with TemporaryDirectory() as folder:
        place = Path(folder) / "MNLI"
        place.mkdir()
        for split in ("train", "dev_matched", "dev_mismatched"):
            rows = [*lines, disputed] if split == "train" else lines
            storage.write_text(place / f"{split}.tsv", "\n".join([HEADER, *rows]) + "\n")
        files = glue_files(folder, "MNLI")
        read = {split: read_glue(path, "MNLI") for split, path in files.items()}
    record.equal("dev splits of MNLI", "dev_matched, dev_mismatched", ", ".join(one for one in read if "dev" in one))
    train = read["train"]
    record.equal("rows, and rows without an agreed label", (3, 1), (len(train), train.num_without_gold))
    record.equal("labels of the pairs", list(PAIRS), [row.label for row in train.rows])
    task = Classification.from_rows(train.rows)
    record.equal("classes, and outputs of the last layer", 3, len(task.labels))
    tokenizer = word_tokenizer(PREMISE, *PAIRS.values())
    row = train.rows[0]
    encoding = tokenizer(row.text, row.text_pair)
    record.equal("one pair", "[CLS] premise [SEP] hypothesis [SEP]", _shape(encoding.tokens, encoding.type_ids))
    right = torch.tensor([task.labels.index(str(one.label)) for one in train.rows])
    guesses = {"dev_matched": right, "dev_mismatched": torch.tensor([right[0], right[1], right[1]])}
    scores = {}
    for split, guess in guesses.items():
        own = task.examples(read[split].rows, tokenizer)
        scores[split] = task.score(torch.eye(3)[guess], own).metrics["accuracy"]
    record.near("accuracy with all predictions correct, and with two of three", [1.0, 2 / 3], list(scores.values()))
    kinds: list[Kind] = [
        "special" if one.startswith("[") else "second" if kind else "first"
        for one, kind in zip(encoding.tokens, encoding.type_ids, strict=True)
    ]
    record.show(Tokens([("entailment", [Token(one, kind) for one, kind in zip(encoding.tokens, kinds, strict=True)])]))
    record.show(
        Table(
            ["premise", "hypothesis", "label"], [(row.text, str(row.text_pair), str(row.label)) for row in train.rows]
        )
    )
    turned = tokenizer(str(row.text_pair), row.text)
    changed = sum(a != b for a, b in zip(encoding.ids, turned.ids, strict=True))
    record.answer(
        "Yes. Playing a guitar implies making music, but not the reverse. The two orders are different inputs: "
        f"{changed} of {len(encoding.ids)} positions have another token, and the segment changes at position "
        f"{turned.type_ids.index(1)} instead of {encoding.type_ids.index(1)}."
    )


def _shape(tokens: list[str], types: list[int]) -> str:
    """Return the input format of a pair, with names instead of texts."""
    names = {0: "premise", 1: "hypothesis"}
    found: list[str] = []
    for token, kind in zip(tokens, types, strict=True):
        part = token if token.startswith("[") else names[kind]
        found += [] if found[-1:] == [part] else [part]
    return " ".join(found)


def _shared(record: LessonRecorder) -> None:
    import torch

    from ...core.randomness import generator
    from ...data.batch import Batch
    from ...report import Bar, Bars, Token, Tokens
    from ...tasks.classification import Classification
    from ...text.readers.tables import Row
    from ...train.finetuning.job import MemoryBestModelSaver
    from ...train.finetuning.multi_task import MultiTaskJob, Part, SharedEncoder
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer("good bad film happy sad")
    kinds = {
        "sentiment": (("good film", "1"), ("bad film", "0")),
        "mood": (("happy", "2"), ("sad", "1"), ("film", "0")),
    }
    rows = {name: [Row(*(pair[0], None, pair[1]), 1, name) for pair in pairs * 8] for name, pairs in kinds.items()}
    tasks = {name: Classification.from_rows(own) for name, own in rows.items()}
    models = [
        small_network(tokenizer.vocab_size, "classification", labels=one.labels).requires_grad_(True)
        for one in tasks.values()
    ]
    alone = [sum(part.numel() for part in model.parameters()) for model in models]
    shared = SharedEncoder(models)
    together = sum(part.numel() for part in shared.parameters())
    heads = [sum(part.numel() for part in head.parameters()) for head in shared.heads]
    record.equal(
        "parameters of two models, and of one encoder with two heads",
        (sum(alone), alone[0] + heads[1]),
        (sum(alone), together),
    )
    batch = Batch.from_sequences([tokenizer("good film").ids])
    before = models[1].logits(batch).detach()
    torch.nn.functional.cross_entropy(models[0].logits(batch), torch.tensor([1])).backward()
    torch.optim.SGD(models[0].parameters(), lr=0.5).step()
    moved = float((models[1].logits(batch) - before).abs().max().detach())
    record.holds(
        "a step of the first task changes the outputs of the second", "one encoder", f"by {moved:.3f}", moved > 1e-3
    )
    untouched = all(part.grad is None for part in shared.heads[1].parameters())
    record.equal("the head of the second has no gradient from it", True, untouched)
    parts = [
        Part(name, task, task.examples(rows[name], tokenizer), task.examples(rows[name], tokenizer))
        for name, task in tasks.items()
    ]
    job = MultiTaskJob(shared, parts, MemoryBestModelSaver(), batch_size=4, seed=0, device=torch.device("cpu"))
    plan = job.plan(0)
    turns = [part for part, _ in plan]
    record.equal("steps of an epoch: 16 and 24 rows, 4 at a time", (4, 6), (turns.count(0), turns.count(1)))
    for number, (name, count) in enumerate((("first", 16), ("second", 24))):
        seen = sorted(row for part, own in plan if part == number for row in own.tolist())
        record.equal(f"every row of the {name} task once, in separate steps", True, seen == list(range(count)))
    names = list(tasks)
    record.show(Tokens([("one epoch", [Token(names[part], "first" if part == 0 else "second") for part in turns])]))
    record.show(
        Bars(
            [
                Bar("two models", sum(alone), f"{sum(alone):,}"),
                Bar("one encoder, two heads", together, f"{together:,}"),
            ],
            title="Weights",
        )
    )
    other = generator(1, "turns of the tasks", 0).permutation([0] * 4 + [1] * 6).tolist()
    record.answer(
        f"In proportion to their rows: {turns.count(0)} and {turns.count(1)} steps, in an order determined by the "
        f"seed: {''.join(map(str, turns))}, and with another seed {''.join(map(str, other))}. The two heads have "
        f"{sum(heads):,} parameters, the shared encoder {together - sum(heads):,}."
    )


LESSONS = (
    Lesson(
        "entailment",
        PART,
        FRONTIERS,
        "Usage III: pair to class; MNLI",
        "Does the premise entail the hypothesis?",
        "A pair of sentences belongs to one of three classes. MNLI has two dev splits, with the genres of the "
        "training data and with others, and each has its own score. The lesson uses three pairs of our own, in MNLI's "
        "format.",
        ("text.readers.glue:read_glue", "tasks.classification:Classification.metrics"),
        "Does the order of the two sentences matter?",
        _entailment,
    ),
    Lesson(
        "one-encoder",
        PART,
        APPLICATIONS,
        "Assignment 2",
        "One BERT for several tasks",
        "Models with separate heads share one encoder, which learns from all tasks. Each step trains one task.",
        ("train.finetuning.multi_task:SharedEncoder.__init__", "train.finetuning.multi_task:MultiTaskJob.plan"),
        "How often is each task trained?",
        _shared,
    ),
)
