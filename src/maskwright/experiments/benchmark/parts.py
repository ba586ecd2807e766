"""The parts of each benchmark: task, scores, and file names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.errors import ConfigError
from ...core.registry import unknown_name


@dataclass(frozen=True)
class Number:
    """One score of a benchmark. name: as in the published tables; split: the evaluated file; metrics: the official
    metrics, the main one first.
    """

    name: str
    split: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """File locations. folders: names of the part's folder, only letters and digits; own: split -> file names accepted
    in any folder; plain: those accepted only in the part's folder, or also in the top folder (`anywhere`).
    """

    folders: tuple[str, ...]
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plain: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    anywhere: bool = False


@dataclass(frozen=True)
class Part:
    """One fine-tuning of a benchmark. task: of `finetune`; published: the name of its published tables; layout: None
    for GLUE, whose files `text.readers.glue` finds; is_requested: run only if named.
    """

    name: str
    task: str
    numbers: tuple[Number, ...]
    max_length: int = 128
    published: str | None = None
    layout: Layout | None = None
    is_requested: bool = False

    @property
    def metric(self) -> str:
        """The dev metric that chooses the best epoch, seed and setting."""
        return self.numbers[0].metrics[0]

    @property
    def folder(self) -> str:
        """The folder name: cola, squad-1.1."""
        return self.name.lower().replace(" ", "-")


def _glue(name: str, *metrics: str, task: str = "classification", is_requested: bool = False) -> Part:
    return Part(name, task, (Number(name, "dev", metrics),), published="glue", is_requested=is_requested)


_MNLI = (Number("MNLI-m", "dev", ("accuracy",)), Number("MNLI-mm", "dev_mismatched", ("accuracy",)))
_JSON = {"train": ("train.json", "train.jsonl"), "dev": ("dev.json", "dev.jsonl")}
_CHOICES = {"train": ("train.csv", "train.jsonl"), "dev": ("val.csv", "dev.csv", "val.jsonl", "dev.jsonl")}

PARTS: dict[str, tuple[Part, ...]] = {
    "glue": (
        Part("MNLI", "classification", _MNLI, published="glue"),
        _glue("QQP", "f1", "accuracy"),
        _glue("QNLI", "accuracy"),
        _glue("SST-2", "accuracy"),
        _glue("CoLA", "matthews"),
        _glue("STS-B", "spearman", "pearson", task="regression"),
        _glue("MRPC", "f1", "accuracy"),
        _glue("RTE", "accuracy"),
        _glue("WNLI", "accuracy", is_requested=True),
    ),
    "squad": (
        Part(
            "SQuAD 1.1",
            "qa",
            (Number("SQuAD 1.1", "dev", ("f1", "exact_match")),),
            384,
            "squad1",
            Layout(
                ("squad", "squad1", "squad11", "squadv1", "squadv11"),
                {"train": ("train-v1.1.json",), "dev": ("dev-v1.1.json",)},
                _JSON,
            ),
        ),
        Part(
            "SQuAD 2.0",
            "qa",
            (Number("SQuAD 2.0", "dev", ("f1", "exact_match", "has_answer_f1", "no_answer_f1")),),
            384,
            "squad2",
            Layout(
                ("squad2", "squad20", "squadv2", "squadv20"),
                {"train": ("train-v2.0.json",), "dev": ("dev-v2.0.json",)},
                _JSON,
            ),
        ),
    ),
    "conll": (
        Part(
            "CoNLL-2003",
            "tagging",
            (
                Number("Dev F1", "dev", ("entity_f1", "entity_precision", "entity_recall")),
                Number("Test F1", "test", ("entity_f1", "entity_precision", "entity_recall")),
            ),
            128,
            "conll2003",
            Layout(
                ("conll2003", "conll03", "conll", "ner"),
                {"train": ("eng.train",), "dev": ("eng.testa",), "test": ("eng.testb",)},
                {
                    "train": ("train.conll", "train.txt", "train.jsonl"),
                    "dev": ("dev.conll", "valid.conll", "dev.txt", "valid.txt", "dev.jsonl"),
                    "test": ("test.conll", "test.txt", "test.jsonl"),
                },
                anywhere=True,
            ),
        ),
    ),
    "swag": (
        Part(
            "SWAG",
            "choice",
            (Number("SWAG", "dev", ("accuracy",)),),
            128,
            "swag",
            Layout(("swag",), {}, _CHOICES, anywhere=True),
        ),
        Part("CODAH", "choice", (Number("CODAH", "dev", ("accuracy",)),), 128, None, Layout(("codah",), {}, _CHOICES)),
    ),
}


def chosen_parts(benchmark: str, names: tuple[str, ...]) -> list[Part]:
    """The parts called `names`, ignoring case, hyphens and dots; without names, all except those that must be named.

    Raises ConfigError with the nearest name for an unknown one.
    """
    parts = PARTS[benchmark]
    if not names:
        return [part for part in parts if not part.is_requested]
    wanted = set()
    for name in names:
        found = next((part.name for part in parts if plain(name) in _known_as(part)), None)
        if found is None:
            raise ConfigError(unknown_name(f"task of {benchmark}", name, [part.name for part in parts]))
        wanted.add(found)
    return [part for part in parts if part.name in wanted]


def plain(name: str) -> str:
    """Letters and digits of a name, lowercase."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _known_as(part: Part) -> set[str]:
    return {plain(part.name), *(part.layout.folders if part.layout is not None else ())}
