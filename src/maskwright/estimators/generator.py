"""Text generation with the interface of a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

from sklearn.base import BaseEstimator

from ..api import open_generator
from ..inference.generate import Continuation, Generation, TextGenerator
from ..inference.ready import place
from ..inference.texts import single_texts
from ..models.decoding.rules import Rules
from ..models.model import Model
from .fine_tuned import ModelSource


class Generator(BaseEstimator):
    """Generates continuations with a causal language model. All methods work without `fit`.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer.
        max_new_tokens: Maximum length of a continuation in tokens.
        greedy: Select the most probable token instead of sampling.
        temperature: Divides the logits; below 1 sharpens the distribution.
        top_k: Sample from this many most probable tokens; None for all.
        top_p: Sample from the most probable tokens with this total probability; None for all.
        repetition_penalty: Above 1 lowers the probability of earlier tokens.
        num_results: Number of continuations per prompt.
        beams: Beam size; 1 disables beam search.
        length_penalty: Length penalty of beam search; above 0 favors longer texts.
        stop: Texts before which a continuation ends.
        max_length: Context length in tokens; None as in training.
        random_state: Random seed.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Example:
        >>> Generator("runs/g/model", top_k=40, random_state=1).predict(["Once upon a time"])
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        max_new_tokens: int = 50,
        greedy: bool = False,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        num_results: int = 1,
        beams: int = 1,
        length_penalty: float = 1.0,
        stop: Sequence[str] = (),
        max_length: int | None = None,
        random_state: int = 0,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.model = model
        self.max_new_tokens = max_new_tokens
        self.greedy = greedy
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.repetition_penalty = repetition_penalty
        self.num_results = num_results
        self.beams = beams
        self.length_penalty = length_penalty
        self.stop = stop
        self.max_length = max_length
        self.random_state = random_state
        self.device = device
        self.precision = precision

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Load the model. The texts are not used."""
        if isinstance(self.model, Model):
            model = place(deepcopy(self.model), self.device, self.precision)
            self.generator_ = TextGenerator(model, max_length=self.max_length)
        else:
            self.generator_ = open_generator(
                self.model, max_length=self.max_length, device=self.device, precision=self.precision
            )
        return self

    def generate(self, prompts: Any) -> list[list[Continuation]]:
        """`num_results` continuations of each prompt, with their scores and why they ended."""
        return self._generator().generate(single_texts(prompts, "Prompts"), self._settings())

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """What the model adds to each prompt; the first of several results."""
        return [found[0].text for found in self.generate(X)]

    def complete(self, text: str, k: int = 3, max_new_tokens: int = 8) -> list[Continuation]:
        """`k` suggestions of what comes next, the most probable first; see `TextGenerator.complete`."""
        return self._generator().complete(text, k, max_new_tokens)

    def _settings(self) -> Generation:
        rules = Rules(self.greedy, self.temperature, self.top_k, self.top_p, self.repetition_penalty)
        return Generation(
            self.max_new_tokens,
            rules,
            self.num_results,
            self.beams,
            self.length_penalty,
            stop=tuple(self.stop),
            seed=self.random_state,
        )

    def _generator(self) -> TextGenerator:
        if not hasattr(self, "generator_"):
            self.fit()
        return self.generator_

    def __sklearn_is_fitted__(self) -> bool:
        return True
