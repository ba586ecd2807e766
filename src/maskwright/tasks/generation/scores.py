"""ROUGE (Lin 2004) by rouge-score: word overlap of generated and reference texts."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import MissingExtraError

NAMES = ("rouge1", "rouge2", "rougeL")  # unigrams, bigrams, longest common subsequence


def rouge_scores(generated: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns {"rouge1", "rouge2", "rougeL"}, mean F1 as fractions, and {"rouge": signature}.

    Raises MissingExtraError if rouge-score is not installed.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtraError("ROUGE", "translation") from None
    scorer = RougeScorer(list(NAMES), use_stemmer=False)
    found = [scorer.score(reference, own) for own, reference in zip(generated, references, strict=True)]
    scores = {name: sum(one[name].fmeasure for one in found) / max(len(found), 1) for name in NAMES}
    return scores, {"rouge": f"rouge_score {_version()}, F1, words as they are (no stemmer)"}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rouge-score")
    except PackageNotFoundError:  # not installed by a package manager
        return "of unknown version"
