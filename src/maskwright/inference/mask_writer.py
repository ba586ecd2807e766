"""Text generation with a masked language model: masks after the prompt are filled in order (Wang and Cho 2019).

Each token is sampled with masks in place of the rest of the text. Masked language models are not trained for this; the
comparison shows why causal language models are used for generation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..core.config import check
from ..core.errors import InputError
from ..core.progress import note
from ..core.randomness import generator
from ..data.batch import Batch
from ..models.decoding.rules import choose
from ..models.decoding.streaming import TextStreamer, check_stops
from ..models.model import Model, tokenizer_of
from .generate import Continuation, Generation


class MaskedLMGenerator:
    """Generates text with a masked language model. Same interface as TextGenerator, without beams."""

    def __init__(self, model: Model) -> None:
        if model.config.pools_last_token:
            raise InputError("This is a causal language model: generate text without masks.")
        self.model = model.eval()
        self.tokenizer = tokenizer_of(model)
        if self.tokenizer.mask_id is None:
            raise InputError("The model's tokenizer has no mask token, so it cannot fill masks.")
        self.mask_id = self.tokenizer.mask_id
        note(
            "This is a masked language model: it generates text by filling masks after the prompt, from left to right."
        )

    def generate(
        self,
        prompts: Sequence[str],
        settings: Generation | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> list[list[Continuation]]:
        """Generate `num_results` continuations of `max_new_tokens` tokens per prompt.

        on_text: called with new text while it is streamed. Raises ConfigError for beams, InputError for a prompt that
        is too long.
        """
        settings = settings or Generation()
        check(settings.beams == 1, "Beam search requires a causal language model: remove beams.")
        check_stops(self.tokenizer, settings.stop)
        return [
            [self._write(prompt, settings, (place, copy), on_text) for copy in range(settings.num_results)]
            for place, prompt in enumerate(prompts)
        ]

    @torch.inference_mode()
    def _write(
        self, prompt: str, settings: Generation, place: tuple[int, int], on_text: Callable[[str], None] | None
    ) -> Continuation:
        words = self.tokenizer.encode_plain([prompt])[0]
        row, _ = self.tokenizer.encode_ids([prompt])
        before = [*self.tokenizer.opening_ids, *words]
        closing = row[0][len(before) :]
        count = settings.max_new_tokens
        most = self.model.config.max_position_embeddings
        if len(before) + count + len(closing) > most:
            raise InputError(
                f"The prompt has {len(words):,} tokens and {count:,} are requested, but the model accepts {most:,} "
                "with special tokens: shorten the prompt or lower --max-new-tokens."
            )
        uniforms = torch.from_numpy(generator(settings.seed, "fill", *place).random(count))
        spelling = TextStreamer(self.tokenizer, before, settings.stop, on_text)
        score, ended_by = 0.0, "length"
        device = self.model.word_embeddings.device
        special = list(self.tokenizer.special_ids)
        for step in range(count):
            ids = [*before, *spelling.ids, *[self.mask_id] * (count - step), *closing]
            batch = Batch.from_sequences([ids]).to(device)
            at = len(before) + step
            logits = self.model.token_logits(batch, torch.tensor([at], device=device)).float()  # [1, vocab]
            logits[:, special] = float("-inf")
            seen = torch.tensor([[*before, *spelling.ids]], device=device)
            own = None if settings.rules.greedy else uniforms[step : step + 1].to(device)
            token = int(choose(logits, settings.rules, own, seen))
            score += float(logits.log_softmax(dim=-1)[0, token])
            if spelling.add(token):
                ended_by = "stop"
                break
        return Continuation(prompt, spelling.finish(), len(spelling.ids), score, ended_by)
