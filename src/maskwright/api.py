"""Loading and building models, and opening one for a use: `pipeline`, behind the commands and the estimators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from .core.errors import ConfigError
from .core.registry import unknown_name
from .hub.download import find_folder
from .hub.folders import STORED, load_model, read_facts
from .hub.sentence import declared_by
from .inference.answer import Answerer
from .inference.cluster import Clustering, cluster_vectors
from .inference.embed import TextEncoder, embedder_of
from .inference.fill_mask import MaskFiller, NextSentence
from .inference.generate import MaskedLMGenerator, TextGenerator
from .inference.late import LateEncoder, late_encoder_of
from .inference.predict import Ensemble, Member, Predictor
from .inference.prepared import as_texts, single_texts
from .inference.ready import calibrate, is_int8, keep_private, kind_of, place, require
from .inference.search import Hit, Searcher
from .inference.similarity import Similarities, text_similarities, word_similarities
from .inference.sparse import SparseEncoder, sparse_encoder_of
from .inference.translate import TextTranslator
from .inference.zero_shot import TEMPLATE, EmbeddingZeroShot, EntailmentZeroShot, ZeroShot
from .models.build import build
from .models.model import Model, tokenizer_of
from .models.presets import preset
from .tasks.base import task_of_model
from .tasks.examples import rows_of
from .tasks.windows import LongTexts
from .text.readers.corpus import Source
from .text.readers.inputs import Text

__all__ = ["build", "cluster", "load", "pipeline", "preset", "search", "similarity", "zero_shot"]

ModelSource = str | Path | Model


def load(
    name: str | Path,
    head: str | None = STORED,
    *,
    labels: Sequence[str] | int | None = None,
    seed: int = 0,
    adapter: str | None = None,
) -> Model:
    """Loads a model: evaluation mode, float32, on the CPU, with its `.tokenizer` and `.config`.

    Weights that the folder lacks, or that the model does not have, are listed on standard error.

    Args:
        name: Model folder, or Hugging Face Hub model ID.
        head: "stored" for the head of the folder, the name of another head (new weights from `seed`), or None for the
            encoder only.
        labels: Labels of a new classification head, or their number.
        seed: Random seed of new weights.
        adapter: Name of one of the adapters in the weights file (jina-embeddings-v3: "retrieval.query"); None for none.

    Raises:
        ConfigError: If there is no such adapter.
        MissingFileError: If there is no such folder or model.
        ModelFolderError: If the folder is not a supported model.
        CorruptFileError: If a file is truncated or differs from the manifest.

    Example:
        >>> model = mw.load("minilm", head=None)
        >>> model.config.hidden_size
        384
    """
    model, report = load_model(name, head, labels=labels, seed=seed, adapter=adapter)
    report.log_weight_mismatch(name, new_is_wanted=head != STORED)
    return model


def pipeline(
    name: ModelSource,
    task: str | None = None,
    *,
    device: str = "auto",
    precision: str = "auto",
    calibrate_on: Sequence[Text] | None = None,
    untrained: bool = False,
    **settings: Any,
) -> Any:
    """Opens a model for one use.

    Args:
        name: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer, which is copied.
        task: "predict" (classes, numbers, tags, choices), "answer", "fill-mask", "next-sentence", "generate",
            "translate", "embed", "embed-sparse", "late-interaction" or "zero-shot", or what transformers calls these;
            None for what the model is for.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16", "fp16" or "int8"; auto is bf16 where the hardware has it.
        calibrate_on: Typical texts, which int8 needs.
        untrained: Accept a head without stored weights, whose answers are random.
        settings: Of the task: `max_length` in tokens (None as in training), `min_confidence` below which a classifier
            gives no label, `threshold` of no answer, `labels` and `template` of zero-shot, and `layers`, `pooling`,
            `normalize`, `long` and `stride` of embeddings (None as the folder declares).

    Returns:
        An object with `.predict(inputs)`, a list or array with a result for each input, and `.stream(inputs)`, pairs of
        an input (or its row, with `.text`) and its result as they are computed.

    Raises:
        ModelFolderError: If the model cannot do this, or lacks the weights of its head.
        ConfigError: For a task, device, precision or setting that does not exist.

    Example:
        >>> mw.pipeline("english", "fill-mask").predict(["the [MASK] of the river"])[0].filled
    """
    task = TASKS_OF_TRANSFORMERS.get(task or "", task)
    if task is not None and task not in _OPENERS:
        raise ConfigError(unknown_name("task", task, list(_OPENERS)))
    abilities = () if task is None else _OPENERS[task][0]
    if task == "embed":
        LongTexts.of(settings.get("long") or "windows", settings.get("stride"))  # reject it before loading
    model = open_model(name, abilities, device, precision, untrained=untrained or task == "embed")  # needs no head
    if task is None and model.sentence is not None:
        task = {"sparse": "embed-sparse", "late": "late-interaction"}.get(model.sentence.kind)
    if task is None:
        task = next((one for one, (needed, _) in _OPENERS.items() if kind_of(model).can(*needed)), "embed")
    opened = _OPENERS[task][1](model, name, **settings)
    if is_int8(model):
        make_int8(model, calibrate_on, opened.max_length)
    keep_private(model)
    return opened


def predictor_of(
    model: Model, name: ModelSource, max_length: int | None = None, min_confidence: float | None = None
) -> Predictor:
    """The predictor of a model that `open_model` loaded from `name`."""
    facts = None if isinstance(name, Model) else read_facts(find_folder(name)[0])
    return Predictor(model, task_of_model(model, facts), max_length, min_confidence=min_confidence)


def _answerer(model: Model, name: ModelSource, threshold: float | None = None, **settings: Any) -> Answerer:
    return Answerer(predictor_of(model, name, **settings), threshold)


def _writer(model: Model, name: ModelSource, max_length: int | None = None) -> TextGenerator | MaskedLMGenerator:
    return MaskedLMGenerator(model) if kind_of(model).can("fill-mask") else TextGenerator(model, max_length=max_length)


def _zero_shot(
    model: Model, name: ModelSource, labels: Sequence[str], template: str = TEMPLATE, max_length: int | None = None
) -> ZeroShot:
    if kind_of(model).can("classes"):
        return EntailmentZeroShot(predictor_of(model, name, max_length), labels, template)
    return EmbeddingZeroShot(embedder_of(model, name, normalize=True, max_length=max_length), labels, template)


# Task -> the abilities of which a model needs one (`tasks.specs.ModelKind`), and what opens a loaded one.
# Without a task, the first that the model can do.
_OPENERS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "answer": (("answer",), _answerer),
    "predict": (("predict",), predictor_of),
    "translate": (("translate",), lambda model, name, max_length=None: TextTranslator(model, max_length)),
    "generate": (("generate",), lambda model, name, max_length=None: TextGenerator(model, max_length=max_length)),
    "fill-mask": (("fill-mask",), lambda model, name: MaskFiller(model)),
    "next-sentence": (("next-sentence",), lambda model, name: NextSentence(model)),
    "embed": ((), embedder_of),
    "embed-sparse": (("fill-mask",), sparse_encoder_of),
    "late-interaction": ((), late_encoder_of),
    "zero-shot": ((), _zero_shot),
    "write": (("generate", "fill-mask"), _writer),
}
TASKS_OF_TRANSFORMERS: dict[str, str | None] = {
    "text-classification": "predict",
    "token-classification": "predict",
    "question-answering": "answer",
    "text-generation": "generate",
    "translation": "translate",
    "feature-extraction": "embed",
    "zero-shot-classification": "zero-shot",
}

# The same with their types, for the commands: settings as of `pipeline`.
open_predictor: Callable[..., Predictor] = partial(pipeline, task="predict")
open_answerer: Callable[..., Answerer] = partial(pipeline, task="answer")
open_mask_filler: Callable[..., MaskFiller] = partial(pipeline, task="fill-mask")
open_next_sentence: Callable[..., NextSentence] = partial(pipeline, task="next-sentence")
open_embedder: Callable[..., TextEncoder] = partial(pipeline, task="embed")
open_sparse_encoder: Callable[..., SparseEncoder] = partial(pipeline, task="embed-sparse")
open_late_encoder: Callable[..., LateEncoder] = partial(pipeline, task="late-interaction")
open_generator: Callable[..., TextGenerator] = partial(pipeline, task="generate")
open_translator: Callable[..., TextTranslator] = partial(pipeline, task="translate")
open_writer: Callable[..., TextGenerator | MaskedLMGenerator] = partial(pipeline, task="write")


def open_search_encoder(name: ModelSource, **settings: Any) -> TextEncoder | LateEncoder:
    """Opens what `Searcher` compares by: late interaction, or embeddings of length 1."""
    is_late = not isinstance(name, Model) and declared_by(find_folder(name)[0]).late is not None
    return open_late_encoder(name, **settings) if is_late else open_embedder(name, normalize=True, **settings)


def open_zero_shot(name: ModelSource, labels: Sequence[str], **settings: Any) -> ZeroShot:
    """Opens an entailment classifier, or any encoder for sentence embeddings, to classify texts without training."""
    classifier: ZeroShot = pipeline(name, "zero-shot", labels=labels, **settings)
    return classifier


def open_ensemble(
    names: Sequence[str | Path], *, max_length: int | None = None, device: str = "auto", precision: str = "auto"
) -> Ensemble:
    """Fine-tuned models as one. names: model folders, hub names, or runs of `finetune`, which give one for each seed.

    Models are loaded when the ensemble runs, one after the other. Raises InputError for a run that is not finished.
    """
    from .train.finetuning.seeds import is_run, seed_models

    def opener(load: Callable[[], Model], folder: Path, name: str) -> Callable[[], Predictor]:
        def open_member() -> Predictor:
            model = load()
            require(model, name, "predict")
            tokenizer_of(model)
            return predictor_of(place(model, device, precision), folder, max_length)

        return open_member

    members = []
    for name in names:
        if not is_run(Path(name)):
            folder = find_folder(name)[0]
            members.append(Member(str(name), opener(partial(load, folder), folder, str(name))))
            continue
        for member, of_seed in seed_models(Path(name)).items():
            members.append(Member(member, opener(of_seed, Path(name) / "model", member)))
    return Ensemble(members)


def open_model(
    name: ModelSource,
    abilities: str | Sequence[str] = (),
    device: str = "auto",
    precision: str = "auto",
    *,
    untrained: bool = False,
) -> Model:
    """Opens a model with its tokenizer on a device; a Model is copied.

    abilities: names as in `tasks.specs.ModelKind`, of which the model needs one; () for any model; untrained: accept a
    head without stored weights, whose answers are random. Raises ModelFolderError if it has none of the abilities, or
    lacks weights of its head.
    """
    needed = [abilities] if isinstance(abilities, str) else abilities
    if isinstance(name, Model):
        model = deepcopy(name)
    else:
        model, report = load_model(name)
    if needed:
        require(model, "The model" if isinstance(name, Model) else str(name), *needed)
    if not isinstance(name, Model):
        if not untrained:
            report.require_trained(name)
        report.log_weight_mismatch(name)
    tokenizer_of(model)
    return place(model, device, precision)


def open_checkpoint(folder: str | Path, *, device: str = "auto", precision: str = "auto") -> Model:
    """The model of a finished run as it was at one of its checkpoints (runs/a/checkpoints/step-500)."""
    from .train.finetuning.seeds import checkpoint_model

    model = checkpoint_model(Path(folder))
    tokenizer_of(model)
    return place(model, device, precision)


def make_int8(model: Model, texts: Sequence[Text] | None, max_length: int) -> None:
    """Calibrate a model that was opened in int8. Raises ConfigError where there are no texts to do it on."""
    if is_int8(model):
        if texts is None:
            raise ConfigError("int8 is calibrated on typical texts: give some (calibrate_on, or fit of an estimator).")
        calibrate(model, texts, max_length)


def zero_shot(name: str | Path, texts: Sequence[str], labels: Sequence[str], **options: Any) -> list[dict[str, Any]]:
    """Classifies texts by class names that were never trained.

    Args:
        name: An entailment classifier, or any encoder for sentence embeddings.
        texts: Texts.
        labels: Two or more class names.
        options: `template`, `max_length`, `device`, `precision` and `calibrate_on`, as of `pipeline`.

    Returns:
        One {"label", "score", "similarities" or "probabilities"} per text.

    Raises:
        InputError: wrong labels, or a classifier without the label `entailment`.
    """
    own = single_texts(texts, "Texts to classify")
    return open_zero_shot(name, labels, **options).predict(own)


def similarity(
    name: str | Path,
    texts: Sequence[str],
    word: str | None = None,
    *,
    layers: str | int | Sequence[int] = "last",
    device: str = "auto",
    precision: str = "auto",
) -> Similarities:
    """Returns the cosine similarities of texts, or of one word in them.

    Args:
        name: Model folder, or Hugging Face Hub model ID.
        texts: Texts to compare.
        word: Compare the contextual embeddings of this word instead of the texts.
        layers: "embeddings", "last", "second-to-last", "sum-all", "sum-last-4", "concat-last-4", or layer numbers.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Returns:
        `.matrix`, float64 [places, places], and `.places`, the text of each row.

    Raises:
        RowErrors: If a text does not contain the word.
    """
    own = single_texts(texts, "Texts to compare")
    pooling = None if word is None else "none"
    encoder = open_embedder(name, layers=layers, pooling=pooling, device=device, precision=precision)
    return text_similarities(encoder, own) if word is None else word_similarities(encoder, rows_of(own), word)


def search(
    name: str | Path,
    source: Source,
    queries: Sequence[str],
    top_k: int = 5,
    *,
    index: str | Path | None = None,
    device: str = "auto",
    precision: str = "auto",
) -> list[list[Hit]]:
    """Searches the passages of files semantically, as the command does.

    Args:
        name: Model folder, or Hugging Face Hub model ID.
        source: A folder, files, or a pattern.
        queries: Texts to search for.
        top_k: Number of passages per query.
        index: Folder that stores the embeddings for later searches.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Returns:
        For each query, the most similar passages, best first.
    """
    encoder = open_search_encoder(name, device=device, precision=precision)
    return Searcher(encoder).search(source, single_texts(queries, "Queries"), top_k, index)


def cluster(
    name: str | Path,
    texts: Sequence[str],
    num_clusters: int | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
) -> Clustering:
    """Clusters texts by their embeddings, as the command does.

    Args:
        name: Model folder, or Hugging Face Hub model ID.
        texts: Texts, or pairs of texts, which are joined.
        num_clusters: Number of clusters; None selects it by silhouette.
        seed: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Returns:
        `.groups`, the cluster of each text, int64 [texts], and `.clusters`, their texts and typical words.
    """
    own = [text if isinstance(text, str) else " ".join(text) for text in as_texts(texts)]
    vectors = open_embedder(name, normalize=True, device=device, precision=precision).vectors(own)
    return cluster_vectors(vectors, own, num_clusters, seed=seed)
