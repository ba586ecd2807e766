"""One table from names to `module:attribute`, resolved on use.

Lists and `--help` answer without importing what they list. Other packages add entries through entry points of the
group `maskwright.<kind>`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module, metadata
from typing import Any

from .errors import ConfigError

TABLE: dict[str, dict[str, str]] = {
    "tokenizer": {
        "wordpiece": "maskwright.text.trainers.wordpiece:train_wordpiece",
        "wordpiece-score": "maskwright.text.trainers.score:train_wordpiece_score",
        "bpe": "maskwright.text.trainers.bpe:train_bpe",
        "byte-bpe": "maskwright.text.trainers.byte_bpe:train_byte_bpe",
        "word": "maskwright.text.trainers.whole:train_word",
        "char": "maskwright.text.trainers.whole:train_char",
    },
    "objective": {
        "mlm": "maskwright.objectives.pretraining:MaskedLanguageModelling",
        "mlm+nsp": "maskwright.objectives.pretraining:MaskedLanguageModellingAndNextSentence",
        "mlm+sop": "maskwright.objectives.pretraining:MaskedLanguageModellingAndSentenceOrder",
        "rtd": "maskwright.objectives.replaced:ReplacedTokenDetection",
        "clm": "maskwright.objectives.causal:NextTokenPrediction",
        "bilm": "maskwright.objectives.bidirectional:BidirectionalTokenPrediction",
        "denoise": "maskwright.objectives.denoising:Denoising",
    },
    "task": {
        "classification": "maskwright.tasks.classification:Classification",
        "regression": "maskwright.tasks.regression:Regression",
        "tagging": "maskwright.tasks.tagging:Tagging",
        "qa": "maskwright.tasks.qa:QuestionAnswering",
        "anomaly": "maskwright.tasks.anomaly:Anomaly",
        "choice": "maskwright.tasks.choice:Choice",
        "similarity": "maskwright.tasks.similarity:Similarity",
        "translation": "maskwright.tasks.translation:Translation",
        "generation": "maskwright.tasks.generation:Generation",
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
        "anomaly": "maskwright.models.autoencoder:AutoencoderHead",
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
        "gpt2": "maskwright.hub.families.gpt2:family",
        "marian": "maskwright.hub.families.marian:family",
        "bart": "maskwright.hub.families.bart:family",
        "maskwright": "maskwright.hub.families.own:family",
    },
    "model_folder": {
        "huggingface": "maskwright.hub.folders:save_model",
    },
}


def names(kind: str) -> list[str]:
    """All names of `kind`, our own first, then those of entry points."""
    return [*TABLE[kind], *(point.name for point in _entry_points(kind) if point.name not in TABLE[kind])]


def resolve(kind: str, name: str) -> Any:
    """The object behind `name`. Raises ConfigError naming the nearest known name."""
    if name in TABLE[kind]:
        module, attribute = TABLE[kind][name].split(":")
        return getattr(import_module(module), attribute)
    for point in _entry_points(kind):
        if point.name == name:
            return point.load()
    raise ConfigError(unknown_name(kind, name, names(kind)))


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not known, with the nearest one."""
    known = list(known)
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    hint = f" Did you mean '{folded[near[0]]}'?" if near else ""
    return f"Unknown {kind} '{name}'.{hint} Known: {', '.join(known)}."


def _entry_points(kind: str) -> metadata.EntryPoints:
    return metadata.entry_points(group=f"maskwright.{kind}")
