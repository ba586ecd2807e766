"""Translation in the manner of a scikit-learn estimator."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self

from sklearn.base import BaseEstimator

from ..api import open_translator
from ..inference.ready import place
from ..inference.texts import single_texts
from ..inference.translate import TextTranslator, Translated, TranslationSettings
from ..models.model import Model
from ..tasks.translation.scores import corpus_scores
from .fine_tuned import ModelSource
from .fine_tuned import check_lengths as check_pairs


class Translator(BaseEstimator):
    """Translates texts with an encoder-decoder. All methods work without `fit`.

    Args:
        model: Short name, model folder, Hugging Face Hub model ID, or a Model with a tokenizer.
        beams: Beam size; 1 for greedy decoding.
        num_results: Number of translations per text.
        length_penalty: Above 0 favors longer translations.
        max_new_tokens: Maximum length of a translation in tokens; None for 50 more than its source.
        max_length: Maximum source length in tokens; None as in training.
        to: Target language of a multilingual model.
        brackets: Results are bracket strings: "flag" prefers well-formed ones, "enforce" allows nothing else.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16" or "fp16"; auto is bf16 where the hardware has it.

    Example:
        >>> Translator("runs/t/model", beams=5).predict(["Ein Hund läuft."])
    """

    def __init__(
        self,
        model: ModelSource,
        *,
        beams: int = 5,
        num_results: int = 1,
        length_penalty: float = 1.0,
        max_new_tokens: int | None = None,
        max_length: int | None = None,
        to: str | None = None,
        brackets: str | None = None,
        device: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.model = model
        self.beams = beams
        self.num_results = num_results
        self.length_penalty = length_penalty
        self.max_new_tokens = max_new_tokens
        self.max_length = max_length
        self.to = to
        self.brackets = brackets
        self.device = device
        self.precision = precision

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: N803
        """Load the model. The texts are not used."""
        if isinstance(self.model, Model):
            own = place(deepcopy(self.model), self.device, self.precision)
            self.translator_ = TextTranslator(own, self.max_length)
        else:
            self.translator_ = open_translator(
                self.model, max_length=self.max_length, device=self.device, precision=self.precision
            )
        return self

    def translate(self, X: Any) -> list[list[Translated]]:  # noqa: N803
        """`num_results` translations of each text, best first, with their scores."""
        if not hasattr(self, "translator_"):
            self.fit()
        settings = TranslationSettings(
            self.beams, self.num_results, self.length_penalty, self.max_new_tokens, self.to, self.brackets
        )
        return self.translator_.translate(single_texts(X, "Texts to translate"), settings)

    def predict(self, X: Any) -> list[str]:  # noqa: N803
        """The best translation of each text."""
        return [found[0].text for found in self.translate(X)]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """BLEU of the translations of X against the texts y, 0 to 100. Raises MissingExtraError without sacrebleu."""
        texts, wanted = single_texts(X, "Texts to translate"), single_texts(y, "Texts to translate")
        check_pairs(texts, wanted)
        return corpus_scores(self.predict(texts), wanted)[0]["bleu"]

    def __sklearn_is_fitted__(self) -> bool:
        return True
