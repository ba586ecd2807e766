"""Distillation from a sentence encoder: the student learns its embeddings of unlabeled text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ...core.errors import InputError
from ...core.progress import note
from ...core.randomness import generator
from ...data.batch import Batch
from ...data.shards import TokenShards
from ...hub.folders import load_model
from ...inference.embed import TextEncoder
from ...inference.engine.engine import Engine
from ...models.build import build
from ...models.config import ModelConfig
from ...models.model import Model, SentenceSettings, tokenizer_of
from ...objectives.embeddings import EmbeddingDistillation
from ...objectives.masking import MaskedRecipe
from ...text.tokenizers.tokenizer import Tokenizer
from ..loop import LoopSettings, Window
from ..pretraining.pretrain import PretrainingSetup
from ..run import RunFolder
from .config import TEACHERS_LAYERS, DistillConfig
from .embeddings import CachedEmbeddings, open_embeddings, teacher_embeddings
from .job import TextDistillation, weights_digest
from .measure import StudentEvaluation
from .student import Student, make_student, student_config
from .texts import Texts, make_texts, read_texts

TIMED_TEXTS = 256
ADAM = (0.98, 1e-6)
TABLE_DEVIATION = 0.04  # standard deviation of a word table that the teacher initializes
WORDS = "encoder.embeddings.word.weight"


class SentenceSide(PretrainingSetup):
    """A pre-training run on texts and the teacher's embeddings. The student has its own network and vocabulary with
    random weights, or layers of the teacher, or is the student of an earlier run.
    """

    job_type = TextDistillation
    title = "student"
    student: Student
    objective: EmbeddingDistillation

    def __init__(self, config: DistillConfig, run: RunFolder, device: torch.device, teacher: Model) -> None:
        self.recipe, self.teacher = config, teacher
        self.digest = weights_digest(teacher)
        declared = teacher.sentence
        assert declared is not None, "the teacher is not a sentence encoder"
        declared = replace(declared, dimensions=None, default_prompt=None)  # the student learns the whole embedding
        self.encoder = TextEncoder(teacher, normalize=True, declared=declared)
        self.texts: dict[Path, Texts] = {}  # by the folder of their token shards
        self.embeddings: dict[Path, CachedEmbeddings] = {}
        super().__init__(config.on_embeddings.resolved(config.device, config.precision), run, device)

    def job(self) -> TextDistillation:
        """The training job."""
        job = super().job()
        assert isinstance(job, TextDistillation)
        job.teacher_digest = self.digest
        return job

    def loop_settings(self) -> LoopSettings:
        """The settings of the training loop."""
        return replace(super().loop_settings(), adam=ADAM)

    def final(self, job: TextDistillation) -> Model:
        """The student to be saved, with the declaration of its sentence embeddings."""
        model = Model(self.network, "mlm")
        model.load_state_dict(self.objective.final_model(job.model).state_dict())
        model.tokenizer, model.sentence = self.tokenizer, SentenceSettings("mean", True, self.config.max_length)
        model.compute_dtype, model.engine = self.teacher.compute_dtype, Engine()
        return model.to(self.device).eval()

    def evaluations(self, job: TextDistillation) -> tuple[StudentEvaluation, StudentEvaluation]:
        """Cosine similarity to the cached embeddings, of the teacher itself and of the student on held-out texts.

        Both are timed on the same texts, each with its own tokenizer.
        """
        rows = np.arange(min(TIMED_TEXTS, self.shards.num_documents))
        cached, files = self.embeddings[self.shards.folder], self.texts[self.shards.folder].files
        texts = list(read_texts(files[0]))[: len(rows)]
        rows = rows[: len(texts)]
        encodings = tokenizer_of(self.teacher).encode_batch(texts, self.encoder.max_length)
        theirs = Batch.from_sequences(sorted((encoding.ids for encoding in encodings), key=len)).to(self.device)
        own = self.objective.batch_of(self.shards, rows, generator(self.config.seed, "exam")).to(self.device)
        kept = torch.from_numpy(cached.rows(rows.tolist()))  # [texts, size]
        common = float(F.cosine_similarity(kept, kept.mean(dim=0, keepdim=True)).mean())
        baseline = (common, "always the mean embedding")

        def teachers_score(model: Model) -> dict[str, float]:
            encoder = TextEncoder(model, normalize=True, declared=self.encoder.declared)
            return {"cosine": float(F.cosine_similarity(torch.from_numpy(encoder.vectors(texts)), kept).mean())}

        @torch.inference_mode()
        def students_score(model: Model) -> dict[str, float]:
            scores = job.evaluate(self.config.steps)  # of the trained network, which may have a projection
            if not scores:
                window = Window()
                window.add(self.objective.outcome(job.model, own))
                scores = window.means()
            return {"cosine": 1 - scores["embedding_loss"], **scores}

        return (
            StudentEvaluation("cosine", [theirs], Model.encode, teachers_score, baseline, practice=[theirs]),
            StudentEvaluation("cosine", [own], Model.encode, students_score, baseline),
        )

    def facts(self) -> dict[str, Any]:
        """Contents of maskwright.json in addition to the recipe and the result."""
        return {"task": "pretraining", "objective": "mlm", "max_length": self.config.max_length}

    # -- stages ----------------------------------------------------------------------------------------------------

    def _tokenizer(self) -> Tokenizer:
        recipe = self.recipe
        if recipe.start is not None:
            model, report = load_model(recipe.start, "mlm", seed=recipe.seed)
            report.log_weight_mismatch(recipe.start)
            self.student = Student(model, (), tuple(report.loaded), tuple(report.new), recipe.start)
            return tokenizer_of(model)
        return tokenizer_of(self.teacher) if recipe.preset in TEACHERS_LAYERS else super()._tokenizer()

    def _network(self) -> ModelConfig:
        recipe = self.recipe
        if recipe.start is None and recipe.preset in TEACHERS_LAYERS:
            network = student_config(self.teacher.config, recipe.preset, recipe.layers)
            self.student = make_student(self.teacher, network, "mlm", recipe.seed)
        elif recipe.start is None:
            self.student = self._new_student(super()._network())
        network, length = self.student.model.config, self.config.max_length
        if length > network.max_position_embeddings:
            raise InputError(
                f"Setting 'max_length' is {length}; the student has {network.max_position_embeddings} positions."
            )
        return network

    def _network_settings(self) -> dict[str, Any]:
        layers = {} if self.recipe.layers is None else {"num_hidden_layers": self.recipe.layers}
        return {**super()._network_settings(), **layers}

    def _new_student(self, network: ModelConfig) -> Student:
        """A student with random weights; its word table has the teacher's embedding of each token if widths agree."""
        model = build(network, "mlm", seed=self.recipe.seed)
        names = [name for name, _ in model.named_parameters()]
        if network.table_size != self.encoder.size:
            note(
                f"The word table is initialized at random: it has {network.table_size} dimensions, the teacher's "
                f"embeddings have {self.encoder.size}."
            )
            return Student(model, (), (), tuple(names))
        if not (self.run.path / "checkpoints").exists():  # which contain the trained table
            fill_word_table(model.word_embeddings, self.tokenizer, self.encoder)
        return Student(model, (), (WORDS,), tuple(name for name in names if name != WORDS))

    def _shards(self, sources: Sequence[str], name: str) -> TokenShards:
        folder, config = self.run.path / name, self.config
        texts = make_texts(
            sources, folder / "texts", self.tokenizer, config.max_length, config.seed, config.skip_bad_rows
        )
        cache = self.recipe.embeddings or self.run.path / "embeddings"
        if self.run.group.is_main:
            teacher = {"name": self.recipe.teacher, "sha256": self.digest}
            embeddings = teacher_embeddings(texts, cache, self.encoder, teacher)
        else:
            embeddings = open_embeddings(texts, cache, self.encoder.size)
        shards = super()._shards([str(path) for path in texts.files], f"{name}/tokens")
        assert shards.num_documents == len(embeddings), "texts and embeddings differ in number"
        self.texts[shards.folder], self.embeddings[shards.folder] = texts, embeddings
        return shards

    def _objective(self) -> EmbeddingDistillation:
        recipe, config = self.recipe, self.config
        weights = {"embedding": recipe.mix.soft_weight, "mlm": recipe.mix.task_weight}
        budget = config.batch_tokens // config.accumulation
        shared = self._recipe(EmbeddingDistillation)
        assert isinstance(shared, MaskedRecipe)
        return EmbeddingDistillation(shared, self.embeddings, self.encoder.size, weights, self.student.model, budget)


def fill_word_table(table: torch.Tensor, tokenizer: Tokenizer, encoder: TextEncoder) -> None:
    """Set each row of a word table to the teacher's embedding of its subword token, centered and scaled to a standard
    deviation of 0.04.

    table: float [vocab, size]. The rows of special tokens and of tokens without text stay as they are.
    """
    ordinary = [index for index in range(tokenizer.vocab_size) if index not in tokenizer.special_ids]
    texts = {index: tokenizer.decode([index]).strip().removeprefix("##") for index in ordinary}
    texts = {index: text for index, text in texts.items() if text}
    embeddings = torch.from_numpy(encoder.vectors(list(texts.values())))
    embeddings = embeddings - embeddings.mean(dim=0)
    with torch.no_grad():
        table[list(texts)] = (embeddings * (TABLE_DEVIATION / embeddings.std())).to(table)
