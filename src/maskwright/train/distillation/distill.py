"""Knowledge distillation from teacher to model folder: student, training, comparison, report (Sanh et al. 2019).

Rerunning the same command resumes an interrupted run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...core.errors import InputError
from ...core.progress import note
from ...data.batch import Batch
from ...hub.download import find_folder
from ...hub.folders import load_model, merged, read_facts, save_model
from ...hub.sentence import MODULES
from ...inference.engine.engine import Engine
from ...inference.ready import compute_in, require
from ...models.config import ModelConfig
from ...models.device import resolve_device, resolve_precision
from ...models.model import Model, tokenizer_of
from ...objectives.distillation import MaskedDistillation
from ...objectives.masked import MASKED_TEXT, MaskedLanguageModeling, MaskedRecipe
from ...report import (
    Command,
    Figure,
    Health,
    KeyFigures,
    Level,
    NextSteps,
    Report,
    RunMetadata,
    Table,
    Weights,
    write_report,
)
from ...report.charts import Chart, Curves, Series
from ...report.numbers import percent
from ...tasks.base import TaskData, task_of_model
from ...tasks.examples import packed_batches
from ...tasks.sequence import SequenceTask
from ...text.tokenizers.tokenizer import Tokenizer
from ..against_baseline import Compared
from ..callbacks import Callback
from ..finetuning.finetune import read_data
from ..finetuning.job import DiskBestModelSaver
from ..finetuning.seeds import epoch_settings
from ..loop import LoopSettings, Window, train
from ..pretraining.pretrain import PretrainingSetup
from ..run import RunFolder, RunResult, open_training
from .config import DistillConfig
from .sentences import SentenceSide
from .student import (
    Measured,
    RowsDistillation,
    Student,
    StudentEvaluation,
    TextDistillation,
    compressed_rows,
    make_student,
    measure,
    student_config,
    weights_digest,
)

# -- The HTML report of a distillation: size, speed and score of the student compared with the teacher ---------------


GOOD, FAIR = 0.95, 0.85  # of the teacher's score


def write_distill_report(run: RunFolder, rows: Sequence[Measured], result: dict[str, Any], student: Student) -> None:
    """Write report.html of a run. rows: teacher, student, and the compressed teachers."""
    teacher, own = rows[0], rows[1]
    metric, kept = result["metric"], result["score_kept"]
    words = metric.replace("_", " ")
    size, speed = own.parameters / teacher.parameters, own.texts_per_second / teacher.texts_per_second
    share = "" if kept is None else f", {percent(kept)} of the teacher's"
    headline = (
        f"The student has {percent(size)} of the teacher's parameters, runs {speed:.2f} times as fast, and reaches "
        f"{words} {own.scores[metric]:.3f}{share}."
    )
    recipe = run.recipe
    model = run.path / "model"
    blocks = [
        KeyFigures(
            [
                Figure("Score kept", "-" if kept is None else percent(kept), note=f"{words}, held-out data"),
                Figure("Size", percent(size), note=f"{own.parameters:,} of {teacher.parameters:,} parameters"),
                Figure("Speed", round(speed, 2), "times", f"{own.texts_per_second:,.0f} texts/s"),
            ]
        ),
        comparison(rows, metric),
        RunMetadata.of(DistillConfig, recipe, run.facts()),
        _curves(run.records(), metric),
        Weights(student.copied, student.new, title="Initialization of the student"),
        NextSteps([_use(recipe, str(model), metric)]),
    ]
    report = Report(
        "distillation",
        headline,
        _health(kept, words, Compared.from_json(result["baseline"])),
        blocks,
        run.facts()["started"],
    )
    write_report(run.path / "report.html", report)


def comparison(rows: Sequence[Measured], metric: str) -> Table:
    """Size, speed and score of each network compared with the teacher."""
    teacher = rows[0]
    cells = [
        (
            row.name,
            row.layers,
            row.heads,
            row.parameters,
            f"{row.size_bytes / 1e6:,.1f} MB",
            percent(row.parameters / teacher.parameters),
            round(row.texts_per_second),
            round(row.texts_per_second / teacher.texts_per_second, 2),
            round(row.scores[metric], 4),
            percent(row.scores[metric] / teacher.scores[metric]) if teacher.scores[metric] > 0 else "-",
        )
        for row in rows
    ]
    columns = ("network", "layers", "heads", "parameters", "weights", "size", "texts/s", "speed", metric, "kept")
    return Table(
        columns,
        cells,
        title="Comparison with the teacher",
        note="Speed of forward passes over the same held-out batches. Compressed teachers were not fine-tuned.",
        strong=[1],
    )


def _health(kept: float | None, words: str, against: Compared) -> Health:
    if against.level == "bad":
        return Health("bad", [f"The student's {against}: train longer."])
    if kept is None:
        return Health("bad", [f"The teacher's own {words} is 0 or negative."])
    if kept >= GOOD:
        return Health("good", [f"It keeps {percent(kept)} of the teacher's {words}."])
    level: Level = "watch" if kept >= FAIR else "bad"
    return Health(level, [f"It keeps {percent(kept)} of the teacher's {words}: train longer, or keep more layers."])


def _curves(records: list[dict[str, Any]], metric: str) -> Curves:
    series = partial(Series.of, records)
    losses = {"embedding": "embeddings (1 - cosine)", "soft": "predictions", "hidden": "hidden states (1 - cosine)"}
    charts = [
        *(
            Chart(
                f"Distance to the teacher's {words}",
                [series("training", f"{name}_loss"), series("held out", f"eval_{name}_loss")],
            )
            for name, words in losses.items()
        ),
        Chart(f"Held-out {metric.replace('_', ' ')}", [series("student", f"eval_{metric}")]),
        Chart("Learning rate", [series("learning rate", "lr")]),
        Chart("Tokens per second", [series("training", "tokens_per_second")]),
    ]
    return Curves(charts)


def _use(recipe: dict[str, Any], model: str, metric: str) -> Command:
    if metric == "cosine":
        texts = ("a text", "another", "a third")
        return Command.suggest("compare texts", "embed", model=model, matrix=True, texts=texts)
    if "train" in recipe:
        return Command.suggest("use it", "predict", model=model, texts="your text")
    return Command.suggest("predict masked tokens", "fill-mask", model=model, texts=MASKED_TEXT)


@dataclass(frozen=True)
class DistillResult(RunResult):
    """Paths and scores of a run.

    metric: the main metric; score_kept: the student's score as a fraction of the teacher's (None if that is 0); rows:
    teacher, student, and the teacher pruned, in int8, factorized and with shared layers, on the same held-out data;
    baseline: the student's score compared with a trivial predictor (None in a run of an older version).
    """

    metric: str
    score_kept: float | None
    rows: tuple[Measured, ...]
    baseline: Compared | None = None


def distill(config: DistillConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> DistillResult:
    """Distills a teacher into a student, or resumes the run in `config.output`, as the command does.

    Args:
        config: Settings of the run.
        restart: Discard the run folder and restart from scratch.
        callbacks: Objects that are called during training; see `Callback`.

    Returns:
        The paths and scores of the run; those of a finished run unchanged.

    Raises:
        RunError: If the run folder is in use, or has a run with other settings or another teacher.
        Interrupted: After a signal.
    """
    device = resolve_device(config.device)
    by_embeddings = teaches_embeddings(config)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True), by_embeddings)
    with open_training(config, device, restart=restart, callbacks=callbacks) as run:
        if finished := run.finished():
            return _result(run, finished, already_finished=True)
        teacher = open_teacher(config).to(device)
        side_type = SentenceSide if by_embeddings else TextSide if config.corpus else RowsSide
        side: TextSide | RowsSide | SentenceSide = run.group.main_first(lambda: side_type(config, run, device, teacher))
        side.student.model.to(device)
        note(_introduced(side.student, teacher))
        job = side.job()
        run.check_inputs()
        train(job, side.loop_settings(), run, name="distillation")
        result = run.group.from_main(lambda: conclude(config, run, side, job))
        run.finish(result)
        return _result(run, result)


def teaches_embeddings(config: DistillConfig) -> bool:
    """Whether the teacher is a sentence encoder (its folder declares its embeddings), used on text."""
    return bool(config.corpus) and (find_folder(config.teacher)[0] / MODULES).is_file()


def open_teacher(config: DistillConfig) -> Model:
    """The teacher in evaluation mode and the run's precision. Raises ModelFolderError."""
    teacher, report = load_model(find_folder(config.teacher)[0])
    report.log_weight_mismatch(config.teacher)
    require(teacher, config.teacher, *(("fill-mask", "compare") if config.corpus else ("text-logits",)))
    tokenizer_of(teacher)
    compute_in(teacher, config.precision)
    return merged(teacher).requires_grad_(False)


def conclude(config: DistillConfig, run: RunFolder, side: Any, job: Any) -> dict[str, Any]:
    """Compare student and teacher, write the student's folder and the report; returns the result of the run."""
    model, (evaluation, own) = side.final(job), side.evaluations(job)
    fewer = config.prune_layers
    if fewer is None:
        fewer = side.teacher.config.num_hidden_layers - model.config.num_hidden_layers
    rows = [measure("teacher", side.teacher, evaluation), measure("student", model, own)]
    rows += compressed_rows(side.teacher, evaluation, config.prune_heads, fewer)
    best = rows[0].scores[evaluation.metric]
    result = {
        "metric": evaluation.metric,
        "score_kept": rows[1].scores[evaluation.metric] / best if best > 0 else None,
        "baseline": Compared(evaluation.metric, rows[1].scores[evaluation.metric], *evaluation.baseline).to_json(),
        "rows": [asdict(row) for row in rows],
        "layers": list(side.student.layers),
        "weights": {"copied": len(side.student.copied), "new": list(side.student.new)},
    }
    facts = {**side.facts(), "training": {**run.recipe, **{key: result[key] for key in ("score_kept", "layers")}}}
    save_model(model, run.path / "model", facts=facts, replace=True)
    write_distill_report(run, rows, result, side.student)
    return result


def _result(run: RunFolder, result: dict[str, Any], already_finished: bool = False) -> DistillResult:
    rows = tuple(Measured(**row) for row in result["rows"])
    against = Compared.from_json(result["baseline"]) if "baseline" in result else None
    return DistillResult.of(run, result, rows=rows, baseline=against, already_finished=already_finished)


def _introduced(student: Student, teacher: Model) -> str:
    """A description of the student, for the log."""
    size = f"The student has {student.model.num_parameters:,} of the teacher's {teacher.num_parameters:,} parameters"
    if student.layers:
        return f"{size} and is initialized from its layers {', '.join(map(str, student.layers))}."
    if student.start is not None:
        return f"{size} and is initialized from {student.start}."
    return f"{size}, initialized at random{', except for the word embeddings' if student.copied else ''}."


# -- The setups of a distillation: masked text for a pre-trained teacher, labeled rows for a fine-tuned one ----------
#
# Each has a training job, its settings, the evaluations that compare teacher and student, the final student, and the
# facts of its folder. `sentences` has the setup for a sentence encoder.


PRACTICE_STEPS = 8  # of training batches, for the importance of heads


class TextSide(PretrainingSetup):
    """A pre-training run whose network, tokenizer and objective come from the teacher."""

    job_type = TextDistillation
    title = "student"

    def __init__(self, config: DistillConfig, run: RunFolder, device: torch.device, teacher: Model) -> None:
        self.recipe, self.teacher = config, teacher
        teacher.config.check_length(config.on_text.max_length, "the teacher")
        network = student_config(teacher.config, config.preset, config.layers)
        self.student: Student = make_student(teacher, network, "mlm", config.seed)
        super().__init__(config.on_text.resolved(config.device, config.precision), run, device)

    def job(self) -> TextDistillation:
        job = super().job()
        assert isinstance(job, TextDistillation)
        job.teacher_digest = weights_digest(self.teacher)
        return job

    def final(self, job: TextDistillation) -> Model:
        model, _ = self._final_models(job.model)
        model.compute_dtype, model.engine = self.teacher.compute_dtype, Engine()
        return model.to(self.device).eval()

    def evaluations(self, job: TextDistillation) -> tuple[StudentEvaluation, StudentEvaluation]:
        """Masked tokens of held-out text, for teacher and student; of training batches if no text is held out."""
        task = MaskedLanguageModeling(self.objective.recipe)
        practice = [batch for step in range(PRACTICE_STEPS) for batch in job.micro_batches(self.config.steps + step)]
        held_out = self.held_out
        batches = practice if held_out is None else [batch.to(self.device) for batch in held_out.batches]

        @torch.inference_mode()
        def score(model: Model) -> dict[str, float]:
            window = Window()
            for batch in batches:
                window.add(task.outcome(model, batch))
            return window.means()

        def run(model: Model, batch: Batch) -> Tensor:
            return model.mlm_logits(model.encode(batch).hidden[batch.labels["mlm_positions"]])

        def loss(model: Model, batch: Batch) -> Tensor:
            return task.outcome(model, batch).losses["mlm"]

        labels = torch.cat([batch.labels["mlm"] for batch in batches])
        common = float(torch.bincount(labels).max() / len(labels))
        baseline = (common, "always the most common token")
        evaluation = StudentEvaluation("mlm_accuracy", batches, run, score, baseline, practice, loss)
        return evaluation, evaluation

    def facts(self) -> dict[str, Any]:
        return {"task": "pretraining", "objective": "mlm"}

    def _tokenizer(self) -> Tokenizer:
        return tokenizer_of(self.teacher)

    def _network(self) -> ModelConfig:
        return self.student.model.config

    def _objective(self) -> MaskedDistillation:
        recipe = self._recipe(MaskedDistillation)
        assert isinstance(recipe, MaskedRecipe)
        return MaskedDistillation(recipe, self.teacher, self.recipe.mix, self.student.model)


class RowsSide:
    """A fine-tuning run whose student, labels and tokenizer come from the teacher."""

    def __init__(self, config: DistillConfig, run: RunFolder, device: torch.device, teacher: Model) -> None:
        self.recipe, self.run, self.device, self.teacher = config, run, device, teacher
        teacher.config.check_length(config.max_length, "the teacher")
        task = task_of_model(teacher, read_facts(find_folder(config.teacher)[0]))
        if not isinstance(task, SequenceTask):
            raise InputError(
                f"{config.teacher} is a {task.name} model; a teacher must be a sequence classification or regression "
                "model, or a pre-trained model."
            )
        self.task: SequenceTask = task
        self.config = config.on_rows(self.task.name)
        if self.task.problem_type == "multi_label_classification":
            multi_label: dict[str, Any] = {"multi_label": True}
            self.config = replace(self.config, **multi_label)
        self.data = read_data(self.config)
        self.train, self.dev = (
            self.task.examples(
                rows, tokenizer_of(teacher), config.max_length, file=str(path), skip_bad_rows=config.skip_bad_rows
            )
            for rows, path in (
                (self.data.train, self.config.train),
                (self.data.dev, self.config.dev or self.config.train),
            )
        )
        self.train = self.task.for_training(self.train)
        network = student_config(teacher.config, config.preset, config.layers)
        self.student: Student = make_student(teacher, network, seed=config.seed)

    def job(self) -> RowsDistillation:
        return RowsDistillation(
            self.student.model,
            self.task,
            self.train,
            self.dev,
            DiskBestModelSaver(self.run.path / "best"),
            batch_size=self.config.batch_size,
            seed=self.config.seed,
            device=self.device,
            accumulation=self.config.accumulation,
            teacher=self.teacher,
            teacher_digest=weights_digest(self.teacher),
            mix=self.recipe.mix,
        )

    def loop_settings(self) -> LoopSettings:
        """The settings of the training loop; dev is scored after each epoch."""
        steps = -(-len(self.train) // self.config.batch_size)
        return replace(epoch_settings(self.config, steps, self.config.seed), keep=self.recipe.keep)

    def final(self, job: RowsDistillation) -> Model:
        """The student with its best weights, and its own threshold if the teacher has one."""
        job.conclude()
        self.task.tune_threshold(self.task.logits(job.model, self.dev), self.dev)
        return job.model

    def evaluations(self, job: RowsDistillation) -> tuple[StudentEvaluation, StudentEvaluation]:
        task, dev = self.task, self.dev

        def score(model: Model) -> dict[str, float]:
            found = task.evaluate(model, dev)
            return {"loss": found.loss, **found.metrics}

        def loss(model: Model, batch: Batch) -> Tensor:
            return task.loss(model, batch) * task.counts(batch)[task.name]

        practice = [batch for step in range(PRACTICE_STEPS) for batch in job.micro_batches(step)]
        batches = list(packed_batches(dev.sequences, self.device))
        rows = TaskData(
            task, self.data.train, self.data.dev, self.train, dev, self.config.max_length, lambda: self.student.model
        )
        baseline = task.baseline(rows)
        evaluation = StudentEvaluation(
            task.main_metric, batches, Model.logits, score, (baseline.score, baseline.predictor), practice, loss
        )
        return evaluation, evaluation

    def facts(self) -> dict[str, Any]:
        return {**self.task.to_json(), "max_length": self.config.max_length}
