"""Corpus BLEU and chrF by sacrebleu, with its signatures (Post 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import MissingExtraError


def corpus_scores(translations: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns {"bleu", "chrf"}, 0 to 100, and {"bleu": signature, "chrf": signature}.

    Texts are detokenized; sacrebleu tokenizes them. Raises MissingExtraError if sacrebleu is not installed.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise MissingExtraError("BLEU and chrF", "translation") from None
    scores, signatures = {}, {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        scores[name] = float(metric.corpus_score(list(translations), [list(references)]).score)
        signatures[name] = str(metric.get_signature())
    return scores, signatures
