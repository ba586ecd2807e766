"""The pages in the order of the menu, and which models each is for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..api import MASKED
from ..inspect.attention import attends

if TYPE_CHECKING:
    from .shelf import Shelved, Studio

TEXTS = ("classification", "regression", "anomaly")
TAGGERS = ("tagging", "tagging-crf")
WRITERS = ("clm", "generation")


@dataclass(frozen=True)
class Page:
    """name: its address and module; about: what it shows, in a sentence; roles: heads it is for, None for every model;
    of_attention: it shows attention weights, which not every model has; needs_model: whether it is of use only
    with one.
    """

    name: str
    title: str
    group: str
    about: str
    roles: Collection[str | None] | None = None
    needs_model: bool = True
    of_attention: bool = False

    def fits(self, model: Shelved) -> bool:
        """Whether the page can show this model."""
        return (self.roles is None or model.role in self.roles) and (attends(model.model) or not self.of_attention)


PAGES = (
    Page(
        "tokens",
        "Tokens",
        "Text",
        "How a text falls into pieces, why it falls so, and how a vocabulary is learnt.",
        needs_model=False,
    ),
    Page(
        "fill-mask",
        "Fill mask",
        "Answers",
        "What a masked language model expects where a word is missing. Make a gap of any word.",
        MASKED,
    ),
    Page("classify", "Classify", "Answers", "The class or the number of a text, with every probability.", TEXTS),
    Page("tag", "Tag", "Answers", "Names and other spans, in the text as you gave it.", TAGGERS),
    Page("choose", "Choose", "Answers", "Which of several texts goes on best.", ("choice",)),
    Page("answer", "Answer", "Answers", "The answer to a question, shown where it stands in the text.", ("qa",)),
    Page("generate", "Generate", "Answers", "Suggestions of how your text goes on, and longer texts.", WRITERS),
    Page("translate", "Translate", "Answers", "Translations of each line, and what each word looked at.", ("seq2seq",)),
    Page("meaning", "Meaning", "Inside", "How near texts are, or one word in several sentences."),
    Page("layers", "Layers", "Inside", "What each layer makes of each token."),
    Page("attention", "Attention", "Inside", "Who attends to whom, head by head, and why.", of_attention=True),
    Page("runs", "Runs", "Training", "Runs side by side: curves, settings, results, reports.", needs_model=False),
    Page("train", "Train", "Training", "Fine-tune a model on a file of your own, and watch it learn."),
    Page("lessons", "Lessons", "Learning", "The lectures' numbers, computed now.", (), False),
)


def offered(studio: Studio) -> list[Page]:
    """The pages that have something to show, in the order of the menu."""
    return [page for page in PAGES if _has_use(page, studio)]


def models_of(page: Page, studio: Studio) -> list[Shelved]:
    """The loaded models that a page can show."""
    return [model for model in studio.models.values() if page.fits(model)]


def _has_use(page: Page, studio: Studio) -> bool:
    return not page.needs_model or bool(models_of(page, studio))
