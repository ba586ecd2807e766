"""ROUGE of whole files (Lin 2004), by rouge-score: how many words of a written text are those of the wanted one."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import MissingExtraError

NAMES = ("rouge1", "rouge2", "rougeL")  # words, pairs of words, longest common subsequence


def rouge_scores(written: Sequence[str], wanted: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """{"rouge1", "rouge2", "rougeL"}, mean F1 of the texts, fractions, and how they were computed: {"rouge": words}.

    Raises MissingExtraError.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtraError("ROUGE", "translation") from None
    scorer = RougeScorer(list(NAMES), use_stemmer=False)
    found = [scorer.score(right, own) for own, right in zip(written, wanted, strict=True)]
    scores = {name: sum(one[name].fmeasure for one in found) / max(len(found), 1) for name in NAMES}
    return scores, {"rouge": f"rouge_score {_version()}, F1, words as they are (no stemmer)"}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rouge-score")
    except PackageNotFoundError:  # a copy that was not installed by a package manager
        return "of unknown version"
