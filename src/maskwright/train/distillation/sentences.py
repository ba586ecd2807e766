"""Distillation from a sentence encoder: the student learns its embeddings of unlabeled text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ...core import storage
from ...core.errors import CorruptFileError, RunError
from ...core.progress import note, track, warn
from ...core.randomness import generator
from ...data.batch import Batch
from ...data.prepare import contents, identity
from ...data.shards import TokenShards, map_array
from ...hub.folders import load_model
from ...inference.embed import TextEncoder
from ...inference.engine.engine import Engine
from ...models.build import build
from ...models.config import ModelConfig
from ...models.model import Model, SentenceSettings, tokenizer_of
from ...objectives.distillation import EmbeddingDistillation
from ...objectives.masked import MaskedRecipe
from ...text.readers.corpus import CorpusFacts, Document, corpus_files, finish, read_documents, read_file
from ...text.tokenizers.tokenizer import Tokenizer
from ..loop import LoopSettings, Window
from ..pretraining.pretrain import PretrainingSetup
from ..run import RunFolder
from .config import TEACHERS_LAYERS, DistillConfig
from .student import Student, StudentEvaluation, TextDistillation, make_student, student_config, weights_digest

# -- The texts of a distillation of sentence embeddings: single sentences, windows of several sentences, and pairs
#
# A corpus is split into them once, into files of a few thousand texts, which are the parts of the teacher's cache. Each
# text is a document of its file; a document of two sentences is a pair.


PART_TEXTS = 8192
SINGLE_SHARE, WINDOW_SHARE, PAIR_SHARE = 0.75, 0.15, 0.10  # fractions of the sentences
SHORTEST_WINDOW = 0.2  # fraction of max_length
TOKEN_CHARACTERS = 4  # slightly fewer than an English token has, so that few windows are truncated
FACTS = "texts.json"


@dataclass(frozen=True)
class Texts:
    """The files with the texts of a corpus, in order, and the number of texts."""

    files: list[Path]
    count: int


def make_texts(
    sources: Sequence[str], folder: Path, tokenizer: Tokenizer, max_length: int, seed: int, skip_bad_rows: bool
) -> Texts:
    """The texts of a corpus; writes them to `folder` unless it exists (it is complete or absent).

    Raises RunError if the corpus has changed since, and the errors of `text.readers.corpus.read_documents`.
    """
    names = corpus_files(list(sources))
    found = [identity(name) for name in names]
    if (folder / FACTS).is_file():
        facts = storage.read_json(folder / FACTS)
        if contents(facts["sources"]) != contents(found):
            raise RunError(f"The corpus is not the one that {folder} was made from: restore it, or use --restart.")
        return Texts(_files(folder), facts["texts"])
    counts, read = [0], CorpusFacts()
    with storage.new_folder(folder) as new, track("Splitting the corpus into texts", None, "texts") as progress:
        for name in names:
            documents = read_file(name, "text", False, read)
            texts = _known(_split(documents, max_length, seed), tokenizer)
            for part in iter(lambda: list(islice(texts, PART_TEXTS)), []):  # noqa: B023
                path = new / f"{len(counts) - 1:05d}.txt"
                storage.write_text(path, "".join("\n".join(text) + "\n\n" for text in part))
                counts.append(len(part))
                progress.update(sum(counts))
        finish(read, names, skip_bad_rows)
        storage.write_json(new / FACTS, {"sources": found, "texts": sum(counts), "seed": seed})
    note(f"{sum(counts):,} texts: single sentences, windows of several sentences, and pairs.")
    return Texts(_files(folder), sum(counts))


def read_texts(path: Path) -> Iterator[str]:
    """The texts of a file as the teacher reads them: a pair is one text."""
    return (" ".join(document.sentences) for document in read_documents(path))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.txt"))


def _split(documents: Iterable[Document], max_length: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Split documents into texts of one sentence (or one window) or two (a pair). Every sentence is in one text."""
    for number, document in enumerate(documents):
        draws = generator(seed, "texts", number)
        sentences = [" ".join(sentence.split()) for sentence in document.sentences]
        start = 0
        while start < len(sentences):
            size = _window_size(sentences, start, max_length, draws)
            # Shares are of sentences, so the weight of a kind is its share divided by its number of sentences.
            weights = np.array([SINGLE_SHARE, PAIR_SHARE / 2, WINDOW_SHARE / size])
            kind = int(np.searchsorted(np.cumsum(weights) / weights.sum(), draws.random(), side="right"))
            taken = sentences[start : start + (1, 2, size)[kind]]
            yield (" ".join(taken),) if kind == 2 else tuple(taken)
            start += len(taken)


def _window_size(sentences: list[str], start: int, max_length: int, draws: np.random.Generator) -> int:
    """The number of sentences from `start` that fill a window of random length."""
    room = TOKEN_CHARACTERS * max_length * draws.uniform(SHORTEST_WINDOW, 1.0)
    size = 0
    while start + size < len(sentences) and room > 0:
        room -= len(sentences[start + size]) + 1
        size += 1
    return max(size - (room < 0), 1)


def _known(texts: Iterator[tuple[str, ...]], tokenizer: Tokenizer) -> Iterator[tuple[str, ...]]:
    """The texts without sentences that have no token, which token shards would skip."""
    for block in iter(lambda: list(islice(texts, PART_TEXTS)), []):
        sentences = [sentence for text in block for sentence in text]
        is_known = iter([bool(ids) for ids in tokenizer.encode_plain(sentences)])
        for text in block:
            kept = tuple(sentence for sentence in text if next(is_known))
            if kept:
                yield kept


# -- The teacher's embeddings of a corpus: computed once by the inference engine and cached on disk ------------------
#
#     folder/teacher.json       the teacher they belong to; a cache of another teacher is rejected
#     folder/HASH/vectors.bin   float16 [texts, size] for the file of texts with this SHA-256; manifest.json
#
# A part is complete or absent: an interrupted pass resumes after its last part, and runs on the same texts can share
# one cache. A damaged part is computed again.


TEACHER, VECTORS = "teacher.json", "vectors.bin"
HALF = np.dtype("<f2")
KEY_LENGTH = 24  # hexadecimal digits of the SHA-256


class CachedEmbeddings:
    """Embeddings of the documents of several files, in order, memory-mapped."""

    def __init__(self, parts: list[np.ndarray]) -> None:
        self.parts = parts
        self._starts = np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def rows(self, documents: Sequence[int]) -> np.ndarray:
        """The embeddings of these documents: float32 [documents, size]."""
        numbers = np.searchsorted(self._starts, documents, side="right") - 1
        found = [self.parts[part][row - self._starts[part]] for part, row in zip(numbers, documents, strict=True)]
        return np.stack(found).astype(np.float32)


def teacher_embeddings(texts: Texts, folder: Path, encoder: TextEncoder, teacher: dict[str, str]) -> CachedEmbeddings:
    """The embeddings of all texts; computes those that `folder` does not contain.

    teacher: its name and the digest of its weights. Raises RunError for a cache of another teacher, or one that another
    process is using.
    """
    with storage.lock(folder):
        storage.remove_leftovers(folder)
        path = folder / TEACHER
        if not path.is_file():
            storage.write_json(path, teacher)
        elif (made := storage.read_json(path)).get("sha256") != teacher["sha256"]:
            raise RunError(
                f"{folder} contains the embeddings of another teacher ({made.get('name')}), or of one whose weights "
                "have changed since: pass that teacher, or another folder with --embeddings."
            )
        parts: list[np.ndarray] = []
        with track("Teacher embeddings", texts.count, "texts") as progress:
            for path in texts.files:
                parts.append(_part(path, folder / _key(path), encoder))
                progress.update(sum(map(len, parts)))
    return CachedEmbeddings(parts)


def open_embeddings(texts: Texts, folder: Path, size: int) -> CachedEmbeddings:
    """The embeddings that another process of this training has computed. size: their dimension."""
    return CachedEmbeddings([_mapped(folder / _key(path), size) for path in texts.files])


def _part(path: Path, folder: Path, encoder: TextEncoder) -> np.ndarray:
    """The embeddings of one file of texts: float16 [texts, size]."""
    if folder.is_dir():
        try:
            storage.verify_folder(folder, fix="These embeddings are computed again.")
            return _mapped(folder, encoder.size)
        except CorruptFileError as error:
            warn(str(error))
        storage.remove_folder(folder)
    vectors = encoder.vectors(list(read_texts(path)))
    with storage.new_folder(folder) as new:
        storage.write_bytes(new / VECTORS, vectors.astype(HALF).tobytes())
    return _mapped(folder, encoder.size)


def _key(path: Path) -> str:
    return storage.sha256(path)[:KEY_LENGTH]


def _mapped(folder: Path, size: int) -> np.ndarray:
    count = (folder / VECTORS).stat().st_size // HALF.itemsize
    return map_array(folder / VECTORS, HALF, count).reshape(-1, size)


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
        job = super().job()
        assert isinstance(job, TextDistillation)
        job.teacher_digest = self.digest
        return job

    def loop_settings(self) -> LoopSettings:
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
        network = self.student.model.config
        network.check_length(self.config.max_length, "the student")
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
