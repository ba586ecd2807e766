"""Loading and building models, and opening one for each kind of use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .core.errors import ConfigError
from .hub.download import find_folder
from .hub.folders import STORED, load_model, read_facts
from .inference.answer import Answerer
from .inference.calibration import calibrate, is_int8
from .inference.cluster import Clustering, cluster_vectors
from .inference.embed import TextEncoder, embedder_of
from .inference.fill_mask import MaskFiller
from .inference.generate import MaskedLMGenerator, TextGenerator
from .inference.kinds import kind_of, require
from .inference.next_sentence import NextSentence
from .inference.predict import Ensemble, Member, Predictor
from .inference.prepared import as_texts, single_texts
from .inference.ready import keep_private, place
from .inference.search import Hit, Searcher
from .inference.similarity import Similarities, text_similarities, word_similarities
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

__all__ = [
    "build",
    "cluster",
    "load",
    "open_answerer",
    "open_checkpoint",
    "open_embedder",
    "open_ensemble",
    "open_generator",
    "open_mask_filler",
    "open_model",
    "open_next_sentence",
    "open_predictor",
    "open_translator",
    "open_writer",
    "open_zero_shot",
    "predictor_of",
    "preset",
    "search",
    "similarity",
    "zero_shot",
]


def load(
    name: str | Path, head: str | None = STORED, *, labels: Sequence[str] | int | None = None, seed: int = 0
) -> Model:
    """Loads a model: evaluation mode, float32, on the CPU, with its `.tokenizer` and `.config`.

    Weights that the folder lacks, or that the model does not have, are listed on standard error.

    Args:
        name: Model folder, or Hugging Face Hub model ID.
        head: "stored" for the head of the folder, the name of another head (new weights from `seed`), or None for the
            encoder only.
        labels: Labels of a new classification head, or their number.
        seed: Random seed of new weights.

    Raises:
        MissingFileError: If there is no such folder or model.
        ModelFolderError: If the folder is not a supported model.
        CorruptFileError: If a file is truncated or differs from the manifest.

    Example:
        >>> model = mw.load("minilm", head=None)
        >>> model.config.hidden_size
        384
    """
    model, report = load_model(name, head, labels=labels, seed=seed)
    report.log_weight_mismatch(name, new_is_wanted=head != STORED)
    return model


def open_predictor(
    name: str | Path,
    *,
    max_length: int | None = None,
    min_confidence: float | None = None,
    device: str = "auto",
    precision: str = "auto",
    calibrate_on: Sequence[Text] | None = None,
    untrained: bool = False,
) -> Predictor:
    """A fine-tuned model for answers. max_length: None as in training; min_confidence: below it there is no label;
    calibrate_on: typical texts, which precision "int8" needs; untrained: accept a head without stored weights.

    Raises ModelFolderError when the folder has no head for texts or words, or lacks its weights; the other functions
    do so for their heads.
    """
    model = open_model(name, "predict", device, precision, untrained=untrained)
    predictor = predictor_of(model, name, max_length, min_confidence)
    make_int8(model, calibrate_on, predictor.max_length)
    keep_private(model)
    return predictor


def predictor_of(
    model: Model, name: str | Path, max_length: int | None = None, min_confidence: float | None = None
) -> Predictor:
    """The same for a model that `open_model` loaded from `name`."""
    task = task_of_model(model, read_facts(find_folder(name)[0]))
    return Predictor(model, task, max_length, min_confidence=min_confidence)


def open_ensemble(
    names: Sequence[str | Path], *, max_length: int | None = None, device: str = "auto", precision: str = "auto"
) -> Ensemble:
    """Fine-tuned models as one. names: model folders, hub names, or runs of `finetune`, which give one for each seed.

    Models are loaded when the ensemble runs, one after the other. Raises InputError for a run that is not finished.
    """
    from .train.finetuning.members import is_run, seed_models

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


def open_answerer(
    name: str | Path,
    *,
    max_length: int | None = None,
    threshold: float | None = None,
    device: str = "auto",
    precision: str = "auto",
    untrained: bool = False,
) -> Answerer:
    """Opens a question-answering model. threshold: score margin of no-answer predictions, None as trained; untrained:
    accept a head without stored weights."""
    model = open_model(name, "answer", device, precision, untrained=untrained)
    return Answerer(predictor_of(model, name, max_length), threshold)


def open_mask_filler(name: str | Path, *, device: str = "auto", precision: str = "auto") -> MaskFiller:
    """A masked language model for filling masks."""
    return MaskFiller(open_model(name, "fill-mask", device, precision))


def open_next_sentence(name: str | Path, *, device: str = "auto", precision: str = "auto") -> NextSentence:
    """Opens a pre-trained model for next-sentence prediction."""
    return NextSentence(open_model(name, "next-sentence", device, precision))


def open_embedder(
    name: str | Path,
    *,
    layers: str | int | Sequence[int] = "last",
    pooling: str | None = None,
    normalize: bool | None = None,
    max_length: int | None = None,
    long: str | None = None,
    stride: int | None = None,
    device: str = "auto",
    precision: str = "auto",
    calibrate_on: Sequence[Text] | None = None,
) -> TextEncoder:
    """Opens any model for sentence embeddings. calibrate_on: calibration texts, which precision "int8" needs.

    What is None is as the folder declares it (modules.json), else mean, not normalized, all that the model takes; token
    vectors (pooling "none") are as they come. long: "cut", or "windows" for longer texts, which share `stride` tokens;
    None for the setting a sentence encoder was trained with (maskwright.json), else "cut".
    """
    LongTexts.of(long or "windows", stride)  # reject a wrong setting before loading
    encoder = embedder_of(
        open_model(name, (), device, precision, untrained=True),  # embeddings do not use the head
        name,
        layers=layers,
        pooling=pooling,
        normalize=normalize,
        max_length=max_length,
        long=long,
        stride=stride,
    )
    make_int8(encoder.model, calibrate_on, encoder.max_length)
    keep_private(encoder.model)
    return encoder


def open_zero_shot(
    name: str | Path,
    labels: Sequence[str],
    *,
    template: str = TEMPLATE,
    max_length: int | None = None,
    device: str = "auto",
    precision: str = "auto",
    calibrate_on: Sequence[Text] | None = None,
) -> ZeroShot:
    """Opens an entailment classifier, or any encoder for sentence embeddings, to classify texts without training.

    labels: two or more; template: of the hypothesis, with {} for the label. Raises InputError for other labels, and for
    a classifier without the label `entailment`.
    """
    model = open_model(name, (), device, precision)
    if kind_of(model).can("classes"):
        predictor = predictor_of(model, name, max_length)
        make_int8(model, calibrate_on, predictor.max_length)
        return EntailmentZeroShot(predictor, labels, template)
    encoder = open_embedder(
        name, normalize=True, max_length=max_length, device=device, precision=precision, calibrate_on=calibrate_on
    )
    return EmbeddingZeroShot(encoder, labels, template)


def zero_shot(name: str | Path, texts: Sequence[str], labels: Sequence[str], **options: Any) -> list[dict[str, Any]]:
    """Classifies texts by class names that were never trained.

    Args:
        name: An entailment classifier, or any encoder for sentence embeddings.
        texts: Texts.
        labels: Two or more class names.
        options: `template`, `max_length`, `device`, `precision` and `calibrate_on` of `open_zero_shot`.

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
    encoder = open_embedder(name, normalize=True, device=device, precision=precision)
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


def open_writer(
    name: str | Path, *, max_length: int | None = None, device: str = "auto", precision: str = "auto"
) -> TextGenerator | MaskedLMGenerator:
    """Opens a causal language model, or a masked language model that fills appended masks, to continue texts.

    max_length: context length of a causal language model, None as in training.
    """
    model = open_model(name, ("generate", "fill-mask"), device, precision)
    return MaskedLMGenerator(model) if kind_of(model).can("fill-mask") else TextGenerator(model, max_length=max_length)


def open_generator(
    name: str | Path, *, max_length: int | None = None, device: str = "auto", precision: str = "auto"
) -> TextGenerator:
    """Opens a causal language model for generation. max_length: context length, None as in training."""
    return TextGenerator(open_model(name, "generate", device, precision), max_length=max_length)


def open_translator(
    name: str | Path, *, max_length: int | None = None, device: str = "auto", precision: str = "auto"
) -> TextTranslator:
    """An encoder-decoder for translating texts. max_length: tokens of a source, None as in training."""
    return TextTranslator(open_model(name, "translate", device, precision), max_length)


def open_model(
    name: str | Path,
    abilities: str | Sequence[str] = (),
    device: str = "auto",
    precision: str = "auto",
    *,
    untrained: bool = False,
) -> Model:
    """Opens a model with its tokenizer on a device.

    abilities: names as in `tasks.specs.ModelKind`, of which the model needs one; () for any model; untrained: accept a
    head without stored weights, whose answers are random. Raises ModelFolderError if it has none of the abilities, or
    lacks weights of its head.
    """
    model, report = load_model(name)
    if abilities:
        require(model, str(name), *([abilities] if isinstance(abilities, str) else abilities))
    if not untrained:
        report.require_trained(name)
    report.log_weight_mismatch(name)
    tokenizer_of(model)
    return place(model, device, precision)


def open_checkpoint(folder: str | Path, *, device: str = "auto", precision: str = "auto") -> Model:
    """The model of a finished run as it was at one of its checkpoints (runs/a/checkpoints/step-500)."""
    from .train.finetuning.members import checkpoint_model

    model = checkpoint_model(Path(folder))
    tokenizer_of(model)
    return place(model, device, precision)


def make_int8(model: Model, texts: Sequence[Text] | None, max_length: int) -> None:
    """Calibrate a model that was opened in int8. Raises ConfigError where there are no texts to do it on."""
    if is_int8(model):
        if texts is None:
            raise ConfigError("int8 is calibrated on typical texts: give some (calibrate_on, or fit of an estimator).")
        calibrate(model, texts, max_length)
