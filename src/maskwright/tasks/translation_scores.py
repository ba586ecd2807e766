"""BLEU and chrF of whole files as they are published: by sacrebleu, with its signature (Post 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import MissingExtraError


def corpus_scores(written: Sequence[str], wanted: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """{"bleu", "chrf"}, 0 to 100, and how each was computed: {"bleu": signature, "chrf": signature}.

    Texts are plain, as people read them; sacrebleu cuts them into words itself. Raises MissingExtraError.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise MissingExtraError("BLEU and chrF", "translation") from None
    scores, signatures = {}, {}
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        scores[name] = float(metric.corpus_score(list(written), [list(wanted)]).score)
        signatures[name] = str(metric.get_signature())
    return scores, signatures
