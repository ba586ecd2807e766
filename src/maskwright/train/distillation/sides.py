"""The setups of a distillation: masked text for a pre-trained teacher, labeled rows for a fine-tuned one.

Each has a training job, its settings, the evaluations that compare teacher and student, the final student, and the
facts of its folder. `sentences` has the setup for a sentence encoder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...core.errors import InputError
from ...data.batch import Batch
from ...hub.download import find_folder
from ...hub.folders import read_facts
from ...inference.engine.engine import Engine
from ...models.config import ModelConfig
from ...models.model import Model, tokenizer_of
from ...objectives.distillation import MaskedDistillation
from ...objectives.masked import MaskedLanguageModeling, MaskedRecipe
from ...tasks.base import TaskData, task_of_model
from ...tasks.examples import packed_batches
from ...tasks.sequence import SequenceTask
from ...text.tokenizers.tokenizer import Tokenizer
from ..finetuning.job import DiskBestModelSaver
from ..finetuning.run_data import read_data
from ..finetuning.seeds import epoch_settings
from ..loop import LoopSettings, Window
from ..pretraining.job import HeldOut
from ..pretraining.pretrain import PretrainingSetup
from ..run import RunFolder
from .config import DistillConfig
from .measure import StudentEvaluation
from .student import RowsDistillation, Student, TextDistillation, make_student, student_config, weights_digest

PRACTICE_STEPS = 8  # of training batches, for the importance of heads


class TextSide(PretrainingSetup):
    """A pre-training run whose network, tokenizer and objective come from the teacher."""

    job_type = TextDistillation
    title = "student"

    def __init__(self, config: DistillConfig, run: RunFolder, device: torch.device, teacher: Model) -> None:
        self.recipe, self.teacher = config, teacher
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

    def _split(self) -> tuple[Any, HeldOut | None]:
        positions = self.teacher.config.max_position_embeddings
        if self.config.max_length > positions:
            raise InputError(
                f"Setting 'max_length' is {self.config.max_length}; the teacher has {positions} positions."
            )
        return super()._split()


class RowsSide:
    """A fine-tuning run whose student, labels and tokenizer come from the teacher."""

    def __init__(self, config: DistillConfig, run: RunFolder, device: torch.device, teacher: Model) -> None:
        self.recipe, self.run, self.device, self.teacher = config, run, device, teacher
        positions = teacher.config.max_position_embeddings
        if config.max_length > positions:
            raise InputError(f"Setting 'max_length' is {config.max_length}; the teacher has {positions} positions.")
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
