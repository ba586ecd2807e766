"""The pages in menu order and the models that each supports: the one table of pages."""

from __future__ import annotations

from dataclasses import dataclass

from ..inspect.attention import attends
from .model_registry import LoadedModel, Studio


@dataclass(frozen=True)
class Page:
    """A page of the menu.

    Attributes:
        name: Path of its URL and name of its module in static/pages.
        title: Menu entry.
        group: Menu group.
        about: One-sentence description.
        ability: What a model must be able to do, or several abilities of which one suffices; "" for every model.
        needs_model: Whether it requires a loaded model.
        of_attention: Whether it requires a model with attention weights.
        of_weights: Whether it requires a model with weights, not an exported graph.
    """

    name: str
    title: str
    group: str
    about: str
    ability: str = ""
    needs_model: bool = True
    of_attention: bool = False
    of_weights: bool = False

    def fits(self, model: LoadedModel) -> bool:
        is_able = not self.ability or model.kind.can(*self.ability.split())
        has_weights = model.model.graph_precision is None or not self.of_weights
        return is_able and has_weights and (attends(model.model) or not self.of_attention)


PAGES = (
    Page("tokens", "Tokens", "Text",
         "How a text is tokenized into subwords, step by step, and how a vocabulary is learned.", needs_model=False),
    Page("fill-mask", "Fill mask", "Answers", "Predictions of a masked language model. Click any word to mask it.",
         "fill-mask"),
    Page("classify", "Classify", "Answers", "The predicted class or value of a text, with all probabilities.",
         "classify"),
    Page("tag", "Tag", "Answers", "Named entities and other spans, highlighted in your text.", "tag"),
    Page("choose", "Choose", "Answers", "Multiple choice: the most probable continuation.", "choose"),
    Page("answer", "Answer", "Answers", "The answer span of a question, highlighted in the text.", "answer"),
    Page("generate", "Generate", "Answers", "Next-token suggestions as you type, and longer continuations.",
         "generate"),
    Page("translate", "Translate", "Answers", "Translations of each line, with their cross-attention weights.",
         "translate"),
    Page("data", "Data set", "Data",
         "A labeled file with predictions: errors, slices, confusions; wrong labels fixed and saved.", "classify tag"),
    Page("projector", "Projector", "Data",
         "A map of the texts of a file by their embeddings: labels, clusters, neighbors."),
    Page("meaning", "Meaning", "Inside", "Semantic similarity of texts, or of one word in several contexts."),
    Page("inspect", "Inspect", "Inside",
         "Attention of every head, layers, predictions; two texts or two models; saved as one HTML file.",
         of_attention=True),
    Page("model", "Model", "Inside",
         "The blocks of a model: shapes, parameters, FLOPs, every weight, and what training changed.", of_weights=True),
    Page("runs", "Runs", "Training", "Runs side by side: curves, settings, results, reports.", needs_model=False),
    Page("train", "Train", "Training", "Fine-tune a model on your data and follow its training curves."),
    Page("lessons", "Lessons", "Learning", "The numbers of the lectures, recomputed.", needs_model=False),
)  # fmt: skip
MOVED = {"attention": "inspect", "layers": "inspect"}  # pages of earlier versions: their addresses lead to the new one


def offered(studio: Studio) -> list[Page]:
    """Returns the pages that are available with the loaded models, in menu order."""
    return [page for page in PAGES if not page.needs_model or models_of(page, studio)]


def models_of(page: Page, studio: Studio) -> list[LoadedModel]:
    """Returns the loaded models that a page supports."""
    return [model for model in studio.models.values() if page.fits(model)]
