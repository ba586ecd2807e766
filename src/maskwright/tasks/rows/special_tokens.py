"""Special tokens for fine-tuning a causal language model (Radford et al. 2018, figure 1).

[START] A [EXTRACT], or [START] A [DELIM] B [EXTRACT]; the head reads the last token. Tokenizers with a [CLS] and [SEP]
template need none; GPT-2's has no template and gets these three tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...models.build import with_tokenizer

if TYPE_CHECKING:
    from ...models.model import Model

START, DELIM, EXTRACT = "[START]", "[DELIM]", "[EXTRACT]"


def with_special_tokens(model: Model) -> Model:
    """Adds the special tokens if the model pools the last token and its tokenizer adds no special tokens."""
    tokenizer = model.tokenizer
    if tokenizer is None or not model.config.pools_last_token or tokenizer.opening_ids:
        return model
    return with_tokenizer(model, tokenizer.with_template(START, DELIM, EXTRACT))
