"""Registry: names mapped to `module:attribute`, imported on first use.

Lists and `--help` do not import the entries. Other packages register entries as entry points of the group
`maskwright.<kind>`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from .errors import ConfigError

NAMES_SHOWN = 20  # known names in an error message

TABLE: dict[str, dict[str, str]] = {
    "tokenizer": {
        kind: f"maskwright.text.tokenizers.trainers:train_{kind.replace('-', '_')}"
        for kind in ("wordpiece", "wordpiece-score", "bpe", "byte-bpe", "word", "char")
    },
    "objective": {
        "mlm": "maskwright.objectives.masked:MaskedLanguageModeling",
        "mlm+nsp": "maskwright.objectives.masked:MaskedLanguageModelingAndNextSentence",
        "mlm+sop": "maskwright.objectives.masked:MaskedLanguageModelingAndSentenceOrder",
        "rtd": "maskwright.objectives.replaced:ReplacedTokenDetection",
        "clm": "maskwright.objectives.causal:NextTokenPrediction",
        "bilm": "maskwright.objectives.causal:BidirectionalTokenPrediction",
        "denoise": "maskwright.objectives.denoising:Denoising",
    },
    "task": {
        "classification": "maskwright.tasks.classification:Classification",
        "regression": "maskwright.tasks.regression:Regression",
        "tagging": "maskwright.tasks.tagging.task:Tagging",
        "qa": "maskwright.tasks.qa.task:QuestionAnswering",
        "anomaly": "maskwright.tasks.anomaly:Anomaly",
        "choice": "maskwright.tasks.choice:Choice",
        "similarity": "maskwright.tasks.similarity:Similarity",
        "translation": "maskwright.tasks.translation:Translation",
        "generation": "maskwright.tasks.generation:Generation",
    },
    "reader": {  # in the order in which a file is recognized
        "questions": "maskwright.text.readers.squad:READER",
        "tagged": "maskwright.text.readers.tagged:READER",
        "trees": "maskwright.text.readers.sentiment_trees:READER",
        "choices": "maskwright.text.readers.choices:READER",
        "texts": "maskwright.text.readers.tables:READER",
    },
    "logger": {
        "tensorboard": "maskwright.train.loggers:EventFile",
        "wandb": "maskwright.train.loggers:WandbLogger",
        "mlflow": "maskwright.train.loggers:MlflowLogger",
    },
    "head": {
        "mlm": "maskwright.models.pretraining_heads:MaskedLanguageModelHead",
        "clm": "maskwright.models.pretraining_heads:CausalLanguageModelHead",
        "bilm": "maskwright.models.pretraining_heads:BidirectionalLanguageModelHead",
        "seq2seq": "maskwright.models.encoder_decoder:TargetHead",
        "nsp": "maskwright.models.pretraining_heads:NextSentenceHead",
        "pretraining": "maskwright.models.pretraining_heads:PretrainingHead",
        "rtd": "maskwright.models.pretraining_heads:ReplacedTokenHead",
        "classification": "maskwright.models.heads:SequenceClassificationHead",
        "regression": "maskwright.models.heads:SequenceClassificationHead",
        "tagging": "maskwright.models.heads:TokenClassificationHead",
        "tagging-crf": "maskwright.models.heads:TokenCrfHead",
        "qa": "maskwright.models.heads:SpanHead",
        "choice": "maskwright.models.heads:ChoiceHead",
        "anomaly": "maskwright.models.probes:AutoencoderHead",
    },
    "metric": {
        name: f"maskwright.tasks.evaluation.metrics:{name}"
        for name in ("accuracy", "f1", "micro_f1", "macro_f1", "matthews", "pearson", "spearman", "mse")
    },
    "schedule": {
        name: f"maskwright.train.schedules:{name}" for name in ("linear", "cosine", "constant", "inverse_sqrt")
    },
    "family": {
        "bert": "maskwright.hub.families.bert:family",
        "roberta": "maskwright.hub.families.roberta:family",
        "xlm-roberta": "maskwright.hub.families.roberta:xlm_family",
        "distilbert": "maskwright.hub.families.distilbert:family",
        "albert": "maskwright.hub.families.albert:family",
        "electra": "maskwright.hub.families.electra:family",
        "mpnet": "maskwright.hub.families.mpnet:family",
        "big_bird": "maskwright.hub.families.bigbird:family",
        "modernbert": "maskwright.hub.families.modernbert:family",
        "deberta": "maskwright.hub.families.deberta:family",
        "deberta-v2": "maskwright.hub.families.deberta:second_family",
        "nomic_bert": "maskwright.hub.families.rotary:nomic",
        "gte": "maskwright.hub.families.rotary:gte",
        "jina_embeddings_v3": "maskwright.hub.families.rotary:jina",
        "eurobert": "maskwright.hub.families.rotary:eurobert",
        "camembert": "maskwright.hub.families.roberta:camembert_family",
        "ernie": "maskwright.hub.families.bert:ernie_family",
        "data2vec-text": "maskwright.hub.families.roberta:data2vec_family",
        "megatron-bert": "maskwright.hub.families.bert:megatron_family",
        "roberta-prelayernorm": "maskwright.hub.families.roberta:prelayernorm_family",
        "roformer": "maskwright.hub.families.roformer:family",
        "esm": "maskwright.hub.families.esm:family",
        "rembert": "maskwright.hub.families.rembert:family",
        "xmod": "maskwright.hub.families.xmod:family",
        "longformer": "maskwright.hub.families.longformer:family",
        "gpt2": "maskwright.hub.families.gpt2:family",
        "marian": "maskwright.hub.families.marian:family",
        "bart": "maskwright.hub.families.bart:family",
        "maskwright": "maskwright.hub.families.own:family",
    },
    "command": {  # the settings of commands that messages and reports suggest
        "answer": "maskwright.cli.predict:AnswerSettings",
        "doctor": "maskwright.cli.doctor:DoctorSettings",
        "embed": "maskwright.cli.embed:EmbedSettings",
        "evaluate": "maskwright.cli.evaluate:EvaluateSettings",
        "export": "maskwright.cli.export:FolderSettings",
        "fill-mask": "maskwright.cli.predict:FillMaskSettings",
        "finetune": "maskwright.train.finetuning.config:FinetuneConfig",
        "generate": "maskwright.cli.generate:GenerateSettings",
        "predict": "maskwright.cli.predict:PredictSettings",
        "search": "maskwright.cli.embed:SearchSettings",
        "translate": "maskwright.cli.generate:TranslateSettings",
    },
    "export_format": {
        "onnx": "maskwright.export.onnx_file:FORMAT",
        "openvino": "maskwright.export.openvino_file:FORMAT",
        "torch": "maskwright.export.program:FORMAT",
    },
    "model_loader": {  # folders without weights of ours
        "exported": "maskwright.export.graph_model:load_exported",
    },
    "model_folder": {
        "huggingface": "maskwright.hub.folders:save_model",
    },
}


def names(kind: str) -> list[str]:
    """Returns all names of `kind`, built-in ones first, then entry points."""
    return [*TABLE[kind], *(point.name for point in _entry_points(kind) if point.name not in TABLE[kind])]


def resolve(kind: str, name: str) -> Any:
    """Returns the object registered as `name`. Raises ConfigError with the closest known name."""
    if name in TABLE[kind]:
        return load(TABLE[kind][name])
    for point in _entry_points(kind):
        if point.name == name:
            return point.load()
    raise ConfigError(unknown_name(kind, name, names(kind)))


def module_of(kind: str, name: str) -> str:
    """Returns the module of the object registered as `name`, without importing it; "" if there is none."""
    if name in TABLE[kind]:
        return TABLE[kind][name].partition(":")[0]
    return next((point.module for point in _entry_points(kind) if point.name == name), "")


def load(place: str) -> Any:
    """Imports and returns the object at `module:attribute`."""
    module, attribute = place.split(":")
    return getattr(import_module(module), attribute)


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "") -> str:
    """Returns the message for an unknown name, with the closest known one; where: the file or object that has it."""
    known = list(known)
    near = nearest(name, known)
    hint = f" Did you mean '{near}'?" if near else ""
    more = f" and {len(known) - NAMES_SHOWN} more" if len(known) > NAMES_SHOWN else ""
    return f"Unknown {kind} '{name}'{where and f' in {where}'}.{hint} Known: {', '.join(known[:NAMES_SHOWN])}{more}."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name closest to `name`, None if none is similar."""
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return folded[near[0]] if near else None


def _entry_points(kind: str) -> metadata.EntryPoints:
    folders = [Path(path) for path in sys.path]
    state = tuple((folder, folder.stat().st_mtime_ns) for folder in folders if folder.is_dir())
    found: metadata.EntryPoints = _installed(state).select(group=f"maskwright.{kind}")
    return found


@lru_cache(maxsize=1)
def _installed(state: object) -> Any:
    """All entry points; read again (20 ms) where something was installed, which changes the state of sys.path."""
    return metadata.entry_points()
