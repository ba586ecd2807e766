"""Corpus BLEU and chrF by sacrebleu, with its signatures (Post 2018)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...core.errors import MissingExtraError
from ...core.progress import warn
from ...text.word_boundaries import has_no_spaces

# Kana, Thai, Lao, Burmese, Khmer.
_NOT_CHINESE = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\uff66-\uff9f]")


def corpus_scores(translations: Sequence[str], references: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns {"bleu", "chrf"}, 0 to 100, and {"bleu": signature, "chrf": signature}.

    Texts are detokenized; sacrebleu tokenizes them: by 13a, Chinese by zh, and other scripts without spaces by
    character. If no reference has four tokens, BLEU counts the n-grams that exist (effective order). Both are warnings
    and in the signature. Raises MissingExtraError if sacrebleu is not installed.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise MissingExtraError("BLEU and chrF", "translation") from None
    tokenizer = _tokenizer(references)
    bleu = BLEU(tokenize=tokenizer)
    longest = max((len(bleu.tokenizer(one).split()) for one in references), default=bleu.max_ngram_order)
    if 0 < longest < bleu.max_ngram_order:
        bleu = BLEU(tokenize=tokenizer, effective_order=True)
        warn(
            f"No reference has {bleu.max_ngram_order} words: BLEU counts phrases of up to {longest} (effective order, "
            "eff:yes in the signature). Do not compare it with other BLEU scores; chrF is meant for short texts."
        )
    if tokenizer != "13a":
        warn(f"The references have no spaces between words: BLEU counts characters (tok:{tokenizer} in the signature).")
    scores, signatures = {}, {}
    for name, metric in (("bleu", bleu), ("chrf", CHRF())):
        scores[name] = float(metric.corpus_score(list(translations), [list(references)]).score)
        signatures[name] = str(metric.get_signature())
    return scores, signatures


def _tokenizer(references: Sequence[str]) -> str:
    """The name of sacrebleu's tokenizer for the script of these texts."""
    whole = " ".join(references)
    if not has_no_spaces(whole):
        return "13a"
    return "char" if _NOT_CHINESE.search(whole) else "zh"
