"""Floor 6: models as scikit-learn estimators, for `cross_val_score`, `Pipeline`, `GridSearchCV` and the rest.

`__init__` only stores; `fit` checks, loads and trains, and sets the attributes that end in `_`. X is a list of texts or
of (text, second text) pairs, a numpy array of str, a pandas or polars column, or a frame with the columns `text` and
`text_pair`; of a tagger, a list of lists of words; of `MultipleChoice`, rows of a context and its choices.
"""

from .finetuned import AnomalyDetector, MultipleChoice, QuestionAnswerer, TextClassifier, TextRegressor, TokenTagger
from .pretrained import Embedder, FillMask, Generator, Translator

__all__ = [
    "AnomalyDetector",
    "Embedder",
    "FillMask",
    "Generator",
    "MultipleChoice",
    "QuestionAnswerer",
    "TextClassifier",
    "TextRegressor",
    "TokenTagger",
    "Translator",
]
