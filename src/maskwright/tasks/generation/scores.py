"""ROUGE (Lin 2004) by rouge-score: word overlap of generated and reference texts."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import MissingExtraError
from ...core.progress import warn
from ...core.util import plural
from ...text.word_boundaries import words_and_numbers

NAMES = ("rouge1", "rouge2", "rougeL")  # unigrams, bigrams, longest common subsequence


class _Words:
    """The tokenizer that rouge-score asks: its own knows only a to z and 0 to 9."""

    def tokenize(self, text: str) -> list[str]:
        return words_and_numbers(text.lower())


def rouge_scores(generated: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns {"rouge1", "rouge2", "rougeL"}, mean F1 as fractions, and {"rouge": signature}.

    Words are lowercase, of any script (see `words_and_numbers`); for ASCII the scores are rouge-score's own. Warns of
    references without words, and of those of one word, which have no pair. Raises MissingExtraError if rouge-score is
    not installed.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtraError("ROUGE", "translation") from None
    scorer = RougeScorer(list(NAMES), use_stemmer=False, tokenizer=_Words())
    found = [scorer.score(reference, own) for own, reference in zip(generated, references, strict=True)]
    scores = {name: sum(one[name].fmeasure for one in found) / max(len(found), 1) for name in NAMES}
    sizes = [len(words_and_numbers(reference)) for reference in references]
    if empty := sizes.count(0):
        warn(f"{empty} of {plural(len(sizes), 'reference')} without a letter or digit: ROUGE counts 0 for each.")
    if single := sizes.count(1):
        warn(f"{single} of {plural(len(sizes), 'reference')} of one word: rouge2 counts 0 for each, right or wrong.")
    return scores, {"rouge": f"rouge_score {_version()}|F1|case:lower|stemmer:no|tok:words of any script"}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rouge-score")
    except PackageNotFoundError:  # not installed by a package manager
        return "of unknown version"
