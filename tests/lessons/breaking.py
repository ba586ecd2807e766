"""Breaks a function of the toolkit for a while: it gives other numbers, wherever it is called from."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from maskwright.lessons.catalog import lessons
from maskwright.lessons.lesson import find

for one in lessons().values():  # what they import must be there to be broken, and be whole afterwards
    import_module(f"maskwright.lessons.topics.{one.module}")


def spoil(value: Any) -> Any:
    """The same kind of thing with other content; what has no content of its own stays."""
    for kinds, change in _CHANGES:
        if isinstance(value, kinds):
            return change(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: spoil(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
        return dataclasses.replace(value, **changed)
    return value


def _spoil_row(value: Any) -> Any:
    return type(value)(*map(spoil, value)) if hasattr(value, "_fields") else type(value)(map(spoil, value))


def _spoil_array(value: Any) -> Any:
    kind = str(value.dtype)
    if "bool" in kind:
        return ~value
    return 1.37 * value + 0.21 if "float" in kind else 2 * value + 1


_CHANGES: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (bool, lambda value: not value),
    (int, lambda value: 2 * value + 1),
    (float, lambda value: 1.37 * value + 0.21),
    (Fraction, lambda value: value + 1),
    (str, lambda value: value[::-1] + "?"),
    ((torch.Tensor, np.ndarray), _spoil_array),
    ((list, tuple), _spoil_row),
    (Mapping, lambda value: {name: spoil(one) for name, one in value.items()}),
)


# Their result has no content to spoil, or is not used.
UNSPOILED = (
    "text.tokenizers.trainers:train_word",
    "text.tokenizers.trainers:train_char",
    "text.tokenizers.trainers:train_byte_bpe",
    "text.tokenizers.trainers:wordpiece",
    "text.tokenizers.tokenizer_files:set_special_tokens",
    "text.tokenizers.tokenizer:Tokenizer.with_template",
    "models.model:Model.check",
    "models.transformer:executors",
    "models.probes:AutoencoderHead.fit_scale",
    "models.presets:preset",
    "nn.attention:apply_causal_mask",
    "train.finetuning.multi_task:SharedEncoder.__init__",
    "text.readers.parallel:lead_pairs",
    "nn.positions:RelativeVectors.score_terms",
    "objectives.causal:NextTokenPrediction.batch",
    "tasks.qa.windows:AnswerCandidates.best",
    "train.pretraining.job:pretrain_small",
)


def break_function(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Put a broken function in the place of `name` ("module:name" below the package), and of every import of it."""
    owner, last = find(name)
    real = getattr(owner, last)
    broken = functools.wraps(real)(lambda *args, **options: spoil(real(*args, **options)))
    monkeypatch.setattr(owner, last, broken)
    for module in [one for path, one in list(sys.modules.items()) if path.startswith("maskwright")]:
        for attribute in [key for key, value in vars(module).items() if value is real]:
            monkeypatch.setattr(module, attribute, broken)
