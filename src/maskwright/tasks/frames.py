"""What a left-to-right model is given around the texts of a task (Radford et al. 2018, figure 1).

[START] A [EXTRACT], or [START] A [DELIM] B [EXTRACT]; the head judges the last token. Tokenizers that put [CLS] and
[SEP] around texts have such a frame already; GPT-2's has none, and gets these three tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..models.growing import with_tokenizer

if TYPE_CHECKING:
    from ..models.model import Model

START, DELIM, EXTRACT = "[START]", "[DELIM]", "[EXTRACT]"


def framed(model: Model) -> Model:
    """The model, with a frame where it judges the last token and its tokenizer frames nothing."""
    tokenizer = model.tokenizer
    if tokenizer is None or not model.config.judges_last or tokenizer.opening_ids:
        return model
    return with_tokenizer(model, tokenizer.with_frame(START, DELIM, EXTRACT))
