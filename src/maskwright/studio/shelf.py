"""What the studio has at hand: the models it was started with, what each can do, and the folder of runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from ..api import open_model, predictor_of
from ..core.errors import InputError, MissingFileError, ModelFolderError
from ..hub.download import find_folder
from ..hub.names import short_names
from ..hub.sentence import declared_by
from ..inference.answer import Answerer
from ..inference.embed import TextEncoder
from ..inference.fill_mask import MaskFiller
from ..inference.generate import TextGenerator
from ..inference.predict import Predictor
from ..inference.ready import HEADS, role_of, tokenizer_of
from ..inference.translate import Translating
from ..models.model import Model
from .jobs import Jobs
from .run_folders import find_run
from .uploads import Uploads

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer

OWN = ".studio"  # the folder, below that of the runs, for uploaded files and recipes


class Shelved:
    """One loaded model.

    name: what pages call it; source: the folder or hub name as given. What each page uses of it (`filler`, `predictor`,
    ...) is made when it is first asked for.
    """

    def __init__(self, name: str, source: str, model: Model) -> None:
        self.name, self.source, self.model = name, source, model
        self.folder = find_folder(source)[0]
        self.role = role_of(model)
        self._encoders: dict[tuple[Any, ...], TextEncoder] = {}

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return tokenizer_of(self.model)

    @cached_property
    def filler(self) -> MaskFiller:
        """For filling masks."""
        return MaskFiller(self.model)

    @cached_property
    def predictor(self) -> Predictor:
        """For answers of a fine-tuned head."""
        return predictor_of(self.model, self.source)

    @cached_property
    def answerer(self) -> Answerer:
        """For questions."""
        return Answerer(self.predictor)

    @cached_property
    def generator(self) -> TextGenerator:
        """For continuing texts."""
        return TextGenerator(self.model)

    @cached_property
    def translator(self) -> Translating:
        """For translating."""
        return Translating(self.model)

    def encoder(self, layers: str | int = "last", pooling: str | None = None) -> TextEncoder:
        """For vectors. pooling: None for what the folder declares."""
        key = (layers, pooling)
        if key not in self._encoders:
            declared = declared_by(self.folder)
            self._encoders[key] = TextEncoder(
                self.model,
                layers,
                pooling=pooling or declared.pooling,
                normalize=declared.normalize and pooling is None,
                max_length=declared.max_length,
            )
        return self._encoders[key]

    def to_json(self) -> dict[str, Any]:
        """What the pages say about it."""
        config, tokenizer = self.model.config, self.tokenizer
        what = HEADS.get(self.role, (f"a model with the head '{self.role}'", ""))[0]
        return {
            "name": self.name,
            "what": what,
            "source": self.source,
            "layers": config.num_hidden_layers,
            "hidden": config.hidden_size,
            "heads": config.num_attention_heads,
            "vocabulary": tokenizer.vocab_size,
            "kind": tokenizer.kind,
            "mask": tokenizer.special_tokens.get("mask"),
            "max_length": config.max_position_embeddings,
            "parameters": sum(one.numel() for one in self.model.parameters()),
        }


class Studio:
    """Models by name, the runs, and one lock: one computation at a time, each with all threads.

    runs: the folder that holds run folders; the only one that pages read or write. It need not exist yet; device,
    precision: of models that are loaded later.
    """

    def __init__(self, models: Sequence[Shelved], runs: Path, device: str = "auto", precision: str = "auto") -> None:
        self.models = {model.name: model for model in models}
        self.runs = runs
        self.jobs = Jobs()
        self.uploads = Uploads(runs / OWN / "uploads")
        self.computing = RLock()
        self.lessons: dict[str, Any] = {}  # results by the name of the lesson
        self.device, self.precision = device, precision

    def model(self, name: str) -> Shelved:
        """The model of that name. Raises MissingFileError where there is none."""
        if name not in self.models:
            raise MissingFileError("No model of this name is loaded: choose one from the list.")
        return self.models[name]

    def shelve(self, name: str) -> Shelved:
        """Load the model of a finished run, under the run's name. Raises MissingFileError where it has none."""
        folder = find_run(self.runs, name).path / "model"
        if not (folder / "config.json").is_file() or folder.is_symlink():
            raise MissingFileError("This run has no model yet: it is written at the end.")
        with self.computing:
            own = Shelved(name, str(folder), open_model(folder, None, self.device, self.precision))
            self.models = {**self.models, name: own}
        return own

    def model_with(self, name: str, roles: Sequence[str | None]) -> Shelved:
        """The same, where it can do what is asked. Raises InputError where it cannot."""
        found = self.model(name)
        if found.role not in roles:
            raise InputError(f"{found.name} is {HEADS[found.role][0]}, which does not do this.")
        return found


def open_shelf(sources: Sequence[str], device: str = "auto", precision: str = "auto") -> list[Shelved]:
    """Load models. Their names are the ends of their paths, made distinct."""
    if len(set(sources)) < len(sources):
        raise ModelFolderError("A model is named twice: name each once.")
    names = short_names(sources)
    return [
        Shelved(name, source, open_model(source, None, device, precision))
        for name, source in zip(names, sources, strict=True)
    ]
