"""Classification, entailment, multi-task learning, and tables of papers, recomputed where possible."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ...core import storage
from ...core.randomness import generator
from ...data.batch import Batch
from ...inference.predict import Predictor, trace
from ...models.presets import preset
from ...models.sizes import parameter_count
from ...report import Kind, Table, Token, Tokens
from ...report.charts import Arrow, Box, Flow
from ...tasks.classification import Classification
from ...tasks.evaluation.metrics import accuracy, matthews, pearson, spearman
from ...tasks.evaluation.published import glue_average, published, published_table, relative_error_reduction
from ...text.readers.glue import glue_files, read_glue
from ...text.readers.tables import Row
from ...train.finetuning.job import MemoryBestModelSaver
from ...train.finetuning.multi_task import MultiTaskJob, Part, SharedEncoder
from ..recorder import LessonRecorder
from ..small import small_network, word_tokenizer

LABELS = ("Billing", "Hardware", "Software")


def lesson_shape_trace(record: LessonRecorder, text: str) -> None:
    tokenizer = word_tokenizer(text)
    model = small_network(
        tokenizer,
        "classification",
        labels=LABELS,
        hidden_size=768,
        num_hidden_layers=1,
        num_attention_heads=12,
        initializer_range=0.02,
    )
    found = trace(Predictor(model, Classification(list(LABELS))), text)
    record.equal("words of the text", 15, len(text.split()))
    record.equal("shapes: [CLS] and the words", "16x768 -> 768 -> 3", found.summary("words", closing=False))
    record.off(
        "the same with the closing [SEP]",
        "16x768",
        "17x768 -> 768 -> 3",
        found.summary("words"),
        "the slide omits the closing [SEP]; BERT's input ends with it",
    )
    record.off(
        "input tokens of the network",
        "16",
        19,
        len(found.tokens),
        "the slide tokenizes on whitespace; in a tokenizer, , and . are separate tokens",
    )
    total = sum(found.answer["probabilities"].values())
    record.near("probabilities of the 3 classes sum to", 1.0, total, digits=2, law=True)
    boxes = [
        Box(f"{step.name}: {step.size}", (n if n < 4 else 7 - n) * 1.4 + 0.1, n // 4)  # back below the first row
        for n, step in enumerate(found.steps)
    ]
    record.show(Flow(boxes, [Arrow(n, n + 1) for n in range(len(boxes) - 1)], "Tensor shapes per step"))
    record.show(Table(["", "shape", "what"], [(step.name, step.size, step.note) for step in found.steps]))
    record.answer(
        f"In the pooler and one linear layer: {768 * 768 + 768:,} and {768 * 3 + 3:,} parameters. The pooler uses only "
        "the vector of the first token, which has attended to all others."
    )


def lesson_final_layer(record: LessonRecorder, classes: int, tags: int) -> None:
    base = preset("bert-base")
    bare = parameter_count(base)
    rows = []
    heads = {
        f"{classes} classes": (parameter_count(base, "classification", classes) - bare, 769 * classes),
        f"{tags} tags": (parameter_count(base, "tagging", tags) - (bare - 769 * 768), 769 * tags),
        "start and end": (parameter_count(base, "qa") - (bare - 769 * 768), 768 * 2 + 2),
        "multiple choice": (parameter_count(base, "choice") - bare, 768 + 1),
        "regression": (parameter_count(base, "regression") - bare, 768 + 1),
    }
    for name, (found, slide) in heads.items():
        record.equal(f"new parameters for: {name}", slide, found, law=True)
        rows.append((name, found, f"{found / bare:.4%}"))
    record.show(Table(["final layer", "new numbers", "fraction of BERT-Base"], rows, right=["new numbers"]))
    most = max(found for found, _ in heads.values())
    record.answer(
        f"At most {most:,} of {bare:,} parameters: all others come from pre-training. The report of a run lists the "
        "new weights."
    )


def lesson_task_scores(
    record: LessonRecorder, true_positives: int, false_negatives: int, false_positives: int, true_negatives: int
) -> None:
    tp, fn, fp, tn = true_positives, false_negatives, false_positives, true_negatives
    gold = [1] * (tp + fn) + [0] * (fp + tn)
    predicted = [1] * tp + [0] * fn + [1] * fp + [0] * tn
    count, right, product = len(gold), tp + tn, (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    by_hand = (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0
    record.near(
        f"accuracy of {right} correct predictions of {count} (70% of CoLA is acceptable)",
        right / count,
        accuracy(gold, predicted),
        digits=2,
        law=True,
    )
    record.near("Matthews, (TP·TN − FP·FN) / √…", by_hand, matthews(gold, predicted), law=True)
    record.equal("Matthews of 'always acceptable'", 0.0, matthews(gold, [1] * count), law=True)
    similar, guessed = [0.0, 1.0, 2.0, 4.0, 5.0], [0.1, 0.2, 0.4, 1.6, 3.2]
    record.near("Spearman of a nonlinear but monotonic relation", 1.0, spearman(similar, guessed))
    straight = pearson(similar, guessed)
    record.holds("Pearson of the same", "below 1", f"{straight:.4f}", 0.85 < straight < 0.99)
    always = accuracy(gold, [1] * count)
    rows = [
        ("the model", accuracy(gold, predicted), matthews(gold, predicted)),
        ("always acceptable", always, matthews(gold, [1] * count)),
    ]
    record.show(Table(["answers", "accuracy", "Matthews"], rows))
    record.answer(
        f"Because always predicting 'acceptable' is correct for {always:.0%} of such sentences. The Matthews "
        f"correlation of this baseline is 0, that of the model {matthews(gold, predicted):.2f}."
    )


PREMISE = "A man plays a guitar on the stage."
PAIRS = {
    "entailment": "A man makes music.",
    "contradiction": "The man is asleep in his bed.",
    "neutral": "The man is famous.",
}
HEADER = "index\tgenre\tsentence1\tsentence2\tgold_label"


def lesson_entailment(record: LessonRecorder) -> None:
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


def lesson_one_encoder(record: LessonRecorder) -> None:
    tokenizer = word_tokenizer("good bad film happy sad")
    kinds = {
        "sentiment": (("good film", "1"), ("bad film", "0")),
        "mood": (("happy", "2"), ("sad", "1"), ("film", "0")),
    }
    rows = {name: [Row(*(pair[0], None, pair[1]), 1, name) for pair in pairs * 8] for name, pairs in kinds.items()}
    tasks = {name: Classification.from_rows(own) for name, own in rows.items()}
    models = [
        small_network(tokenizer, "classification", labels=one.labels).requires_grad_(True) for one in tasks.values()
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
    for place, (name, count) in enumerate((("first", 16), ("second", 24))):
        seen = sorted(row for part, own in plan if part == place for row in own.tolist())
        record.equal(f"every row of the {name} task once, in separate steps", True, seen == list(range(count)))
    names = list(tasks)
    record.show(Tokens([("one epoch", [Token(names[part], "first" if part == 0 else "second") for part in turns])]))
    record.bars("Weights", [("two models", sum(alone)), ("one encoder, two heads", together)], ",")
    other = generator(1, "turns of the tasks", 0).permutation([0] * 4 + [1] * 6).tolist()
    record.answer(
        f"In proportion to their rows: {turns.count(0)} and {turns.count(1)} steps, in an order determined by the "
        f"seed: {''.join(map(str, turns))}, and with another seed {''.join(map(str, other))}. The two heads have "
        f"{sum(heads):,} parameters, the shared encoder {together - sum(heads):,}."
    )


BASELINE, IMPROVED = 81.1, 85.8  # SQuAD F1, as in the published table
PRINTED = 0.05 + 1e-9  # largest difference of a mean to its value rounded to one decimal


def lesson_glue_averages(record: LessonRecorder) -> None:
    rows = []
    for table in published("glue"):
        for row in table.rows:
            mean, printed = glue_average(row.values), row.values["Average"]
            name = f"{row.name}, {table.label}"
            if row.note is None:
                record.near(name, printed, mean, PRINTED, digits=2)
            else:
                note = "the paper averaged before it rounded the nine numbers"
                is_off = PRINTED < abs(mean - printed) < 2 * PRINTED
                record.holds(name, f"{printed:.2f}", f"{mean:.2f}", is_off, note)
            rows.append((table.label, row.name, row.values["QNLI"], row.values["Average"], round(mean, 3)))
    first, second = (published_table("glue", label) for label in ("first version", "second version"))
    changed = [row.name for row in first.rows if row.values["QNLI"] != second.row(row.name).values["QNLI"]]
    record.holds(
        "QNLI in two lectures",
        "79.9 88.1 90.1 91.1; 79.8 87.4 90.5 92.7",
        f"differs in {len(changed)} rows",
        len(changed) == 4,
        "two versions of the paper's table; each average belongs to its own row, and both are included",
    )
    size = first.column("MNLI-m").train_size
    record.off("pairs of MNLI", "433k; 392k", 392_000, size, "433,000 is the whole corpus, 392,000 its training split")
    record.show(Table(["version", "system", "QNLI", "printed average", "mean of nine"], rows))
    bert = first.row("BERT-Large").values
    eight = sum(bert[name] for name in bert if name not in ("Average", "MNLI-mm")) / 8
    record.answer(
        "As the mean of nine numbers, with matched and mismatched MNLI counted separately. With MNLI counted once, "
        f"BERT-Large would have {eight:.1f} instead of {bert['Average']}."
    )


def lesson_elmo_gain(record: LessonRecorder, baseline: float, improved: float) -> None:
    rows = {row.name: row.values for row in published_table("elmo", "paper").rows}
    squad = rows["SQuAD"]
    record.equal("SQuAD: baseline, with ELMo", (BASELINE, IMPROVED), (squad["Baseline"], squad["ELMo + baseline"]))
    record.near("gain on SQuAD", 4.7, improved - baseline, digits=1)
    reduced = relative_error_reduction(baseline, improved)
    record.near("relative, %", 24.9, 100 * reduced, 0.05, digits=2)
    by_hand = 100 * (improved - baseline) / (100 - baseline)
    record.near("relative, by hand: gain / (100 − baseline), %", by_hand, 100 * reduced, digits=2, law=True)
    shares = {name: relative_error_reduction(row["Baseline"], row["ELMo + baseline"]) for name, row in rows.items()}
    record.holds(
        "every task gains", "all", f"{min(shares.values()):.0%} to {max(shares.values()):.0%}", min(shares.values()) > 0
    )
    record.bars("Relative error reduction by ELMo", shares, ".1%")
    snli = rows["SNLI"]
    record.answer(
        f"Because the remaining errors differ: SNLI gains {snli['ELMo + baseline'] - snli['Baseline']:.1f} points, "
        f"{shares['SNLI']:.0%} of its errors; {improved - baseline:.1f} points from {baseline:g} to {improved:g} are "
        f"{reduced:.0%}."
    )
