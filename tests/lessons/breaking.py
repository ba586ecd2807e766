"""Breaks a function of the toolkit for a while: it gives other numbers, wherever it is called from."""

from __future__ import annotations

import copy
import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
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


# -- functions whose result has nothing to spoil: what they do instead ------------------------------------------------


def _learns_other_words(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda texts, *rest, **options: real(["some text that nobody asked for"], *rest, **options)


def _does_nothing(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: None


def _finds_none(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: iter(())


def _shares_nothing(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, models: real(self, [copy.deepcopy(model) for model in models])


def _looks_left(real: Callable[..., Any]) -> Callable[..., Any]:
    from maskwright.nn.attention import attend

    return lambda config, *rest, **options: [partial(attend, causal=True)] * config.num_hidden_layers


def _trains_one_step(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **options: real(*args, **(options | {"steps": 1}))


def _is_deeper(real: Callable[..., Any]) -> Callable[..., Any]:
    def broken(name: str, **changes: Any) -> Any:
        config = real(name, **changes)
        return dataclasses.replace(config, num_hidden_layers=config.num_hidden_layers + 1)

    return broken


def _knows_no_distance(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: 0 * real(*args, **kwargs)


def _asks_half(real: Callable[..., Any]) -> Callable[..., Any]:
    def broken(*args: Any, **kwargs: Any) -> Any:
        batch = real(*args, **kwargs)
        half = len(batch.labels["clm"]) // 2
        return batch.with_labels(clm=batch.labels["clm"][:half], clm_positions=batch.labels["clm_positions"][:half])

    return broken


def _frames_backwards(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, start, delimiter, end: real(self, end, delimiter, start)


def _lacks_a_piece(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda vocab, *rest: real([piece for piece in vocab if piece != "##aff"], *rest)


def _gives_words(real: Callable[..., Any]) -> Callable[..., Any]:
    from maskwright.text.tokenizers.trainers import train_word

    return lambda texts, vocab_size, **options: train_word(texts, vocab_size)


MUTANTS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "text.tokenizers.trainers:train_word": _learns_other_words,
    "text.tokenizers.trainers:train_char": _learns_other_words,
    "text.tokenizers.trainers:train_byte_bpe": _gives_words,
    "text.tokenizers.trainers:wordpiece": _lacks_a_piece,
    "text.tokenizers.tokenizer_files:set_special_tokens": _does_nothing,
    "text.tokenizers.tokenizer:Tokenizer.with_template": _frames_backwards,
    "models.model:Model.check": _does_nothing,
    "models.transformer:executors": _looks_left,
    "models.probes:AutoencoderHead.fit_scale": _does_nothing,
    "models.presets:preset": _is_deeper,
    "nn.attention:apply_causal_mask": _does_nothing,
    "train.finetuning.multi_task:SharedEncoder.__init__": _shares_nothing,
    "text.readers.parallel:lead_pairs": _finds_none,
    "nn.positions:RelativeVectors.score_terms": _knows_no_distance,
    "objectives.causal:NextTokenPrediction.batch": _asks_half,
    "tasks.qa.windows:AnswerCandidates.best": _does_nothing,
    "train.pretraining.job:pretrain_small": _trains_one_step,
}


def break_function(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Put a broken function in the place of `name` ("module:name" below the package), and of every import of it."""
    owner, last = find(name)
    real = getattr(owner, last)
    broken = functools.wraps(real)(MUTANTS[name](real) if name in MUTANTS else lambda *a, **k: spoil(real(*a, **k)))
    monkeypatch.setattr(owner, last, broken)
    for module in [one for path, one in list(sys.modules.items()) if path.startswith("maskwright")]:
        for attribute in [key for key, value in vars(module).items() if value is real]:
            monkeypatch.setattr(module, attribute, broken)
