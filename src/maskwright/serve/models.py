"""The served models: which of them a route uses, and what it says about one that cannot do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ..api import make_int8, open_model, predictor_of
from ..core.errors import InputError
from ..core.storage import read_facts, sha256
from ..core.util import OWN
from ..http.model_registry import LoadedModel
from ..hub.adapters import FILE as ADAPTER_FILE
from ..hub.adapters import is_adapter, weights_digest
from ..hub.download import find_folder
from ..hub.sentence import SIGMOID, activation_of, prompts_of
from ..inference.answer import Answerer
from ..inference.calibration import is_int8
from ..inference.embed import TextEncoder, embedder_of
from ..inference.generate import TextGenerator
from ..inference.predict import Predictor
from ..inference.ready import keep_private, usual_length
from ..inference.translate import TextTranslator
from ..inference.zero_shot import EmbeddingZeroShot, EntailmentZeroShot, ZeroShot
from ..inspect.attention import attends
from ..tasks.classification import Classification
from ..tasks.sequence import ENTAILMENT, class_named, relevant_class
from ..text.readers.tables import read_texts
from .refusals import Refused, wrong_value
from .settings import ServeSettings

CALIBRATION_ROWS = 256


class ServedModel(LoadedModel):
    """A loaded model with the inference wrappers of the routes, all in the length that the settings give.

    Args:
        max_length: Maximum tokens of a text, None for the model's.
    """

    def __init__(self, name: str, source: str, model: Any, max_length: int | None = None) -> None:
        super().__init__(name, source, model)
        self.wanted_length = max_length
        self._embedders: dict[bool | None, TextEncoder] = {}

    @cached_property
    def predictor(self) -> Predictor:
        """Predicts with a fine-tuned head."""
        return predictor_of(self.model, self.source, self.wanted_length)

    @cached_property
    def answerer(self) -> Answerer:
        """Answers questions (extractive)."""
        return Answerer(self.predictor)

    @cached_property
    def generator(self) -> TextGenerator:
        """Generates continuations."""
        return TextGenerator(self.model, max_length=self.wanted_length, shares_steps=True)

    @cached_property
    def translator(self) -> TextTranslator:
        """Translates texts."""
        return TextTranslator(self.model, self.wanted_length)

    def embedder(self, normalize: bool | None = None) -> TextEncoder:
        """Returns the text encoder. normalize: None for what the folder declares."""
        if normalize not in self._embedders:
            self._embedders[normalize] = embedder_of(
                self.model, self.source, normalize=normalize, max_length=self.wanted_length
            )
        return self._embedders[normalize]

    @cached_property
    def prompts(self) -> dict[str, str]:
        """Texts that can be put before a text, by name, of a folder of sentence-transformers."""
        return prompts_of(self.folder)

    def prompted(self, texts: list[str], name: str | None) -> list[str]:
        """Puts a named prompt before each text. Raises Refused (422) for a name that the folder does not have."""
        if name is None:
            return texts
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise wrong_value(f"'prompt_name' must be a prompt of {self.name}; it has: {known}.", "prompt_name")
        return [self.prompts[name] + text for text in texts]

    def zero_shot(self, labels: Sequence[str], template: str, multi_label: bool = False) -> ZeroShot:
        """Returns a classifier by label names. Raises InputError for wrong labels."""
        if self.kind.can("classes"):
            return EntailmentZeroShot(self.predictor, labels, template, multi_label)
        if multi_label:
            raise InputError(
                "multi_label needs a model with the class entailment: similarities of embeddings are not probabilities "
                "of single labels."
            )
        return EmbeddingZeroShot(self.embedder(True), labels, template)

    @property
    def max_length(self) -> int:
        """Maximum tokens of a text."""
        if self.kind.can("embed") and not self.kind.can("generate"):
            return self.embedder().max_length
        return usual_length(self.model, self.wanted_length)

    @property
    def has_entailment(self) -> bool:
        """Whether it classifies pairs by entailment."""
        return self.kind.can("classes") and class_named(self.model.labels, ENTAILMENT) is not None

    @property
    def has_relevant_class(self) -> bool:
        """Whether it classifies pairs, and it is known which class a ranking is by."""
        task = self.predictor.task if self.kind.can("classes") else None
        return isinstance(task, Classification) and relevant_class(task.labels, task.relevant) is not None

    @cached_property
    def output_is_log_odds(self) -> bool:
        """Whether the one output of a model that ranks pairs is log odds: of a folder whose task is not recorded here.

        A model that was trained here gives the number that it was trained on. Raises ModelFolderError for a
        declared activation that is not supported.
        """
        return read_facts(self.folder).get("task") is None and activation_of(self.folder) == SIGMOID

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the weights."""
        folder, root = find_folder(self.source)
        return sha256(folder / ADAPTER_FILE) if is_adapter(folder) else weights_digest(folder, root)

    @property
    def is_int8(self) -> bool:
        """Whether it computes in int8."""
        return is_int8(self.model)


Can = Callable[[ServedModel], bool]


def _can(ability: str) -> Can:
    return lambda one: one.kind.can(ability)


# What a model can do, by route; the first rule is for models that are chosen without a name where any has it.
ABILITIES: dict[str, tuple[Can, ...]] = {
    "embed": (_can("embed"), lambda one: not one.model.has_decoder),
    "predict": (_can("classify"),),
    "zero-shot": (lambda one: one.has_entailment, _can("embed")),
    "rerank": (
        _can("numbers"),
        _can("embed"),
        lambda one: one.has_relevant_class,
        _can("classes"),  # refused with the sentence that says how to declare the class
    ),
    "tag": (_can("tag"),),
    "answer": (_can("answer"),),
    "fill-mask": (_can("fill-mask"),),
    "generate": (_can("generate"),),
    "translate": (_can("translate"),),
    "attention": (lambda one: attends(one.model),),
    "tokenize": (lambda one: True,),
}
ROUTES = {  # ability -> route that sentences name
    "embed": "/embed",
    "predict": "/predict",
    "tag": "/tag",
    "answer": "/answer",
    "fill-mask": "/fill-mask",
    "generate": "/generate",
    "translate": "/translate",
}


class ServedModels:
    """Models by name, in the order of the settings."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.by_name = {model.name: model for model in models}

    def __iter__(self) -> Any:
        return iter(self.by_name.values())

    @property
    def names(self) -> list[str]:
        """Names, in order."""
        return list(self.by_name)

    def find(self, ability: str, name: str | None = None) -> ServedModel:
        """Returns the named model, or the first one that has the ability.

        Raises Refused: 404 for an unknown name, 424 for a model, or no model at all, with the ability.
        """
        rules = ABILITIES[ability]
        if name is None:
            found = next((one for rule in rules for one in self if rule(one)), None)
            if found is not None:
                return found
            raise Refused(424, "head", f"No model here can do this: {'; '.join(map(self._described, self))}.")
        if name not in self.by_name:
            served = ", ".join(self.names)
            raise Refused(
                404, "not_found", f"There is no model {name[:100]!r} here; there are: {served}.", param="model"
            )
        model = self.by_name[name]
        if not any(rule(model) for rule in rules):
            raise Refused(424, "head", f"{self._described(model)}; this route needs another kind of model.")
        return model

    @staticmethod
    def _described(model: ServedModel) -> str:
        routes = [route for ability, route in ROUTES.items() if any(rule(model) for rule in ABILITIES[ability])]
        return f"{model.name} is {model.kind.description}, for {', '.join(routes) or 'no route'}"


def load_served(settings: ServeSettings) -> ServedModels:
    """Loads all models of the settings. Adapters on one base share its weights."""
    models = []
    texts = None
    if settings.calibrate_on is not None:
        rows = read_texts(settings.calibrate_on).rows[:CALIBRATION_ROWS]
        texts = [row.text if row.text_pair is None else (row.text, row.text_pair) for row in rows]
    for name, folder in settings.named_models:
        source: str = folder
        precision: str = settings.precision
        if settings.executor != OWN:
            from ..export.executors import executed

            source, precision = executed(folder, settings.executor, precision, settings.device)
        model = open_model(source, (), settings.device, precision, untrained=settings.untrained)
        served = ServedModel(name, source, model, settings.max_length.get(name))
        length, _ = served.max_length, served.digest  # reports a wrong one now; the first request must not wait
        if is_int8(model):
            if texts is None:
                raise InputError("int8 is calibrated on typical texts: pass --calibrate-on.")
            make_int8(model, texts, length)
        keep_private(model)
        models.append(served)
    return ServedModels(models)
