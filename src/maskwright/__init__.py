"""Maskwright: BERT and the systems around it, from your own text to a model that you trained and use.

Names are imported on first use, so `import maskwright` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

_NAMES = {  # module -> names
    "api": "build cluster load pipeline preset search similarity zero_shot",
    "core.errors": "MaskwrightError",
    "data.batch": "Batch",
    "estimators": "AnomalyDetector Embedder FillMask Generator MultipleChoice QuestionAnswerer TextClassifier "
    "TextRegressor TokenTagger Translator",
    "evaluation": "evaluate",
    "experiments.config": "LayerLabConfig",
    "experiments.layers": "layer_lab",
    "inspect": "inspect",
    "models.config": "ModelConfig",
    "text.tokenizers.tokenizer": "Tokenizer",
    "train.callbacks": "Callback",
    "train.distillation.config": "DistillConfig",
    "train.distillation.distill": "distill",
    "train.finetuning.config": "FinetuneConfig MultiTaskConfig",
    "train.finetuning.multi_task": "finetune",
    "train.pretraining.config": "PretrainConfig",
    "train.pretraining.pretrain": "pretrain",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "AnomalyDetector",
    "Batch",
    "Callback",
    "DistillConfig",
    "Embedder",
    "FillMask",
    "FinetuneConfig",
    "Generator",
    "LayerLabConfig",
    "MaskwrightError",
    "ModelConfig",
    "MultiTaskConfig",
    "MultipleChoice",
    "PretrainConfig",
    "QuestionAnswerer",
    "TextClassifier",
    "TextRegressor",
    "TokenTagger",
    "Tokenizer",
    "Translator",
    "build",
    "cluster",
    "distill",
    "evaluate",
    "finetune",
    "inspect",
    "layer_lab",
    "load",
    "pipeline",
    "preset",
    "pretrain",
    "search",
    "similarity",
    "zero_shot",
]

if TYPE_CHECKING:
    from . import inspect
    from .api import build, cluster, load, pipeline, preset, search, similarity, zero_shot
    from .core.errors import MaskwrightError
    from .data.batch import Batch
    from .estimators import (
        AnomalyDetector,
        Embedder,
        FillMask,
        Generator,
        MultipleChoice,
        QuestionAnswerer,
        TextClassifier,
        TextRegressor,
        TokenTagger,
        Translator,
    )
    from .evaluation import evaluate
    from .experiments.config import LayerLabConfig
    from .experiments.layers import layer_lab
    from .models.config import ModelConfig
    from .text.tokenizers.tokenizer import Tokenizer
    from .train.callbacks import Callback
    from .train.distillation.config import DistillConfig
    from .train.distillation.distill import distill
    from .train.finetuning.config import FinetuneConfig, MultiTaskConfig
    from .train.finetuning.multi_task import finetune
    from .train.pretraining.config import PretrainConfig
    from .train.pretraining.pretrain import pretrain


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'maskwright' has no attribute '{name}'")
    module = import_module(f".{_WHERE[name]}", __name__)
    value = module if _WHERE[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
