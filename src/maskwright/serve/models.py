"""The served models: which of them a route uses, and what it says about one that cannot do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..api import make_int8, open_model
from ..core.errors import InputError
from ..core.util import OWN
from ..http.model_registry import LoadedModel
from ..inference.ready import is_int8, keep_private
from ..inspect.attention import attends
from ..tasks.examples import content_of
from ..text.readers.tables import read_texts
from .request_context import Refused
from .settings import ServeSettings

CALIBRATION_ROWS = 256


Can = Callable[[LoadedModel], bool]


def _can(ability: str) -> Can:
    return lambda one: one.kind.can(ability)


# What a model can do, by route; the first rule is for models that are chosen without a name where any has it.
ABILITIES: dict[str, tuple[Can, ...]] = {
    "embed": (
        lambda one: one.kind.can("embed") and one.vectors == "dense",
        lambda one: not one.model.has_decoder and one.vectors == "dense",
    ),
    "embed-sparse": (lambda one: one.vectors == "sparse",),
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
    "embed-sparse": "/embed_sparse",
    "rerank": "/rerank",
    "predict": "/predict",
    "tag": "/tag",
    "answer": "/answer",
    "fill-mask": "/fill-mask",
    "generate": "/generate",
    "translate": "/translate",
}


class ServedModels:
    """Models by name, in the order of the settings."""

    def __init__(self, models: Sequence[LoadedModel]) -> None:
        self.by_name = {model.name: model for model in models}

    def __iter__(self) -> Iterator[LoadedModel]:
        return iter(self.by_name.values())

    @property
    def names(self) -> list[str]:
        return list(self.by_name)

    def find(self, ability: str, name: str | None = None) -> LoadedModel:
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
    def _described(model: LoadedModel) -> str:
        routes = [route for ability, route in ROUTES.items() if any(rule(model) for rule in ABILITIES[ability])]
        return f"{model.name} is {model.kind.description}, for {', '.join(routes) or 'no route'}"


def load_served(settings: ServeSettings) -> ServedModels:
    """Loads all models of the settings. Adapters on one base share its weights."""
    models = []
    texts = None
    if settings.calibrate_on is not None:
        texts = [content_of(row) for row in read_texts(settings.calibrate_on).rows[:CALIBRATION_ROWS]]
    for name, folder in settings.named_models:
        source: str = folder
        precision: str = settings.precision
        if settings.executor != OWN:
            from ..export.executors import executed

            source, precision = executed(folder, settings.executor, precision, settings.device)
        model = open_model(source, (), settings.device, precision, untrained=settings.untrained)
        served = LoadedModel(name, source, model, settings.max_length.get(name), shares_steps=True)
        length, _ = served.max_length, served.digest  # reports a wrong one now; the first request must not wait
        if is_int8(model):
            if texts is None:
                raise InputError("int8 is calibrated on typical texts: pass --calibrate-on.")
            make_int8(model, texts, length)
        keep_private(model)
        models.append(served)
    return ServedModels(models)
