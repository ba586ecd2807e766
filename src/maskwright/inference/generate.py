"""Text generation with a causal language model (Radford et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..core.config import check
from ..core.errors import InputError
from ..core.progress import note, warn
from ..core.randomness import generator
from ..core.util import plural
from ..data.batch import Batch
from ..models.decoding.causal import CausalDecoder, SharedDecoder, StepBatch, decoder_of
from ..models.decoding.rules import Decoder, Rules, choose
from ..models.decoding.search import Beams, GeneratedText, beam_steps, finished, grow, grow_steps
from ..models.decoding.streaming import TextStreamer, check_stops, first_stop
from ..models.model import Model, tokenizer_of
from .engine.engine import Engine
from .prepared import Streams
from .ready import room_of, usual_length

MAX_NEW_TOKENS = 1_000_000
MAX_RESULTS = 10_000  # per prompt
ROWS = 32  # sequences that are generated in parallel
SUGGESTED_TOKENS = 8


@dataclass(frozen=True)
class Generation:
    """Generation settings.

    max_new_tokens: maximum length of a continuation in tokens; rules: sampling settings; num_results: continuations per
    prompt; beams: beam size, 1 disables beam search (with beams nothing is sampled); length_penalty, early_stopping: as
    in decoding.search.Beams; stop: stop strings; seed: random seed, independent of the other prompts. Raises
    ConfigError for values out of range.
    """

    max_new_tokens: int = 50
    rules: Rules = field(default_factory=Rules)
    num_results: int = 1
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    stop: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        most = self.max_new_tokens
        check(1 <= most <= MAX_NEW_TOKENS, f"max_new_tokens is {most}; it must be 1 to {MAX_NEW_TOKENS:,}.")
        wanted = self.num_results
        check(1 <= wanted <= MAX_RESULTS, f"num_results is {wanted}; it must be 1 to {MAX_RESULTS:,}.")
        if self.beams != 1:
            rules = self.rules
            drawn = rules.greedy or rules.temperature != 1 or rules.top_k is not None or rules.top_p is not None
            check(not drawn, "Beam search does not sample: remove greedy, temperature, top_k and top_p, or beams.")
            Beams(self.beams, self.num_results, self.length_penalty, self.early_stopping)
        else:
            check(
                self.length_penalty == 1,
                "length_penalty requires beam search: set beams above 1, or remove length_penalty.",
            )
            check(
                not self.rules.greedy or self.num_results == 1,
                "Greedy decoding has a single result: set num_results to 1, or use beams or sampling.",
            )


@dataclass(frozen=True)
class Continuation:
    """A generated continuation.

    text: the generated text without the prompt; num_tokens: its tokens; score: their log probability (with beams,
    divided by length ** length_penalty); ended_by: "end" (end-of-text token), "stop" (stop string) or "length".
    """

    prompt: str
    text: str
    num_tokens: int
    score: float
    ended_by: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return vars(self).copy()


class TextGenerator(Streams):
    """Generates text with a causal language model.

    max_length: context length in tokens, None for that of training. use_cache: cache keys and values; without it, every
    step recomputes the whole sequence. shares_steps: texts of several `generate_steps` that run at the same time share
    each step, without beams and with a cache; whoever runs them gives each a step in turn.
    """

    def __init__(
        self, model: Model, *, max_length: int | None = None, use_cache: bool = True, shares_steps: bool = False
    ) -> None:
        if model.head_name != "clm":
            raise InputError(
                "Text generation requires a causal language model: train one with pretrain --objective clm."
            )
        self.model = model.eval()
        self.tokenizer = tokenizer_of(model)
        self.use_cache = use_cache
        is_shared = shares_steps and use_cache and model.config.recurrent is None
        self._batch = StepBatch() if is_shared else None
        self.context_length = room_of(model) if model.config.recurrent else usual_length(model, max_length)
        ends = self.tokenizer.eos_id
        self.end_ids = frozenset() if ends is None else frozenset({ends})
        model.engine = model.engine or Engine()

    def generate(
        self,
        prompts: Sequence[str],
        settings: Generation | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> list[list[Continuation]]:
        """Generate `num_results` continuations of each prompt; with beams the best ones, best first.

        on_text: called with new text while it is streamed (one prompt, one result, no beams). Raises InputError for an
        empty prompt if the tokenizer has no start token, and for invalid stop strings.
        """
        return finished(self.generate_steps(prompts, settings, on_text))

    predict = generate

    def generate_steps(
        self,
        prompts: Sequence[str],
        settings: Generation | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Generator[None, None, list[list[Continuation]]]:
        """Generate as `generate`, and yield after each token; the result is the same."""
        settings = settings or Generation()
        check_stops(self.tokenizer, settings.stop)
        if on_text is not None and (len(prompts) != 1 or settings.num_results != 1 or settings.beams != 1):
            raise InputError("Streaming requires one prompt, one result and no beams.")
        rows = [self.ids_of(prompt) for prompt in prompts]
        self._warn_of_long(rows)
        found: list[list[Continuation]] = []
        size = max(ROWS // max(settings.num_results, settings.beams), 1)
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            texts = prompts[start : start + size]
            if start:
                yield
            found += yield from (
                self._beams(texts, block, settings)
                if settings.beams > 1
                else self._draws(texts, block, settings, start, on_text)
            )
        return found

    def complete(self, text: str, k: int = 3, max_new_tokens: int = SUGGESTED_TOKENS) -> list[Continuation]:
        """Return `k` completions, highest `score` first.

        They start with the k most probable tokens and continue greedily to the end of a sentence. Raises InputError if
        k is below 1 or above the vocabulary size.
        """
        if not 1 <= k <= self.model.config.vocab_size:
            raise InputError(f"k is {k}; it must be 1 to {self.model.config.vocab_size:,}.")
        check(max_new_tokens >= 1, f"max_new_tokens is {max_new_tokens}; it must be at least 1.")
        ids = self.ids_of(text)
        self._warn_of_long([ids])
        decoder = self._decoder([ids], max_new_tokens)
        first = decoder.start().log_softmax(dim=-1)  # [1, vocab]
        first[:, list(self.tokenizer.special_ids)] = float("-inf")  # never suggested
        gained, tokens = first[0].topk(k)
        if not bool(torch.isfinite(gained).all()):
            raise InputError(f"k is {k}; the vocabulary has fewer tokens to suggest.")
        spellings = [TextStreamer(self.tokenizer, ids) for _ in range(k)]
        for spelling, token in zip(spellings, tokens.tolist(), strict=True):
            spelling.add(token)
        branches = _Branches(decoder, tokens)
        grown = (
            grow(
                branches,
                [[*ids, token] for token in tokens.tolist()],
                Rules(greedy=True),
                max_new_tokens=max_new_tokens - 1,
                end_ids=self.end_ids,
                watch=lambda row, token: spellings[row].add(token) or _ends_sentence(spellings[row].text()),
            )
            if max_new_tokens > 1
            else [GeneratedText() for _ in range(k)]
        )
        found = [
            Continuation(
                text, spelling.text(), len(spelling.ids), score + one.score, "end" if one.is_ended else "length"
            )
            for spelling, score, one in zip(spellings, gained.tolist(), grown, strict=True)
        ]
        return sorted(found, key=lambda one: one.score, reverse=True)

    def ids_of(self, prompt: str) -> list[int]:
        """Tokenize a prompt, with the leading special tokens of the tokenizer.

        An empty prompt is only the start token. Raises InputError if the tokenizer has none.
        """
        ids = [*self.tokenizer.opening_ids, *self.tokenizer.encode_plain([prompt])[0]]
        if not ids and self.tokenizer.bos_id is not None:
            ids = [self.tokenizer.bos_id]
        if not ids:
            raise InputError("The prompt is empty, and this tokenizer has no start token: pass some text.")
        return ids

    # -- private ---------------------------------------------------------------------------------------------------

    def _decoder(self, rows: list[list[int]], max_new_tokens: int) -> Decoder:
        return decoder_of(self.model, rows, max_new_tokens, use_cache=self.use_cache, window=self.context_length)

    def _warn_of_long(self, rows: list[list[int]]) -> None:
        too_long = sum(len(row) > self.context_length for row in rows)
        if too_long:
            is_one = too_long == 1
            what = f"{too_long:,} of {plural(len(rows), 'prompt')} {'is' if is_one else 'are'} longer than the"
            which = "its beginning is" if is_one else "their beginnings are"
            warn(f"{what} context length of {self.context_length:,} tokens: {which} truncated.")

    def _draws(
        self,
        prompts: Sequence[str],
        rows: list[list[int]],
        settings: Generation,
        start: int,
        on_text: Callable[[str], None] | None,
    ) -> Generator[None, None, list[list[Continuation]]]:
        copies, uniforms = settings.num_results, None
        if not settings.rules.greedy:
            draws = [
                generator(settings.seed, "generate", start + place, copy).random(settings.max_new_tokens)
                for place in range(len(rows))
                for copy in range(copies)
            ]
            uniforms = torch.from_numpy(np.stack(draws))
        spellings = [TextStreamer(self.tokenizer, row, settings.stop, on_text) for row in rows for _ in range(copies)]
        decoder = self._decoder(rows, settings.max_new_tokens)
        if self._batch is not None and isinstance(decoder, CausalDecoder):
            decoder = self._batch.add(decoder, settings.max_new_tokens)
        try:
            grown = yield from grow_steps(
                decoder,
                rows,
                settings.rules,
                max_new_tokens=settings.max_new_tokens,
                end_ids=self.end_ids,
                uniforms=uniforms,
                copies=copies,
                watch=lambda row, token: spellings[row].add(token),
            )
        finally:
            if isinstance(decoder, SharedDecoder):
                decoder.close()
        found = []
        for number, (spelling, one) in enumerate(zip(spellings, grown, strict=True)):
            ended_by = "stop" if spelling.is_stopped else "end" if one.is_ended else "length"
            prompt = prompts[number // copies]
            found.append(Continuation(prompt, spelling.finish(), len(one.ids), one.score, ended_by))
        return [found[place : place + copies] for place in range(0, len(found), copies)]

    def _beams(
        self, prompts: Sequence[str], rows: list[list[int]], settings: Generation
    ) -> Generator[None, None, list[list[Continuation]]]:
        beams = Beams(settings.beams, settings.num_results, settings.length_penalty, settings.early_stopping)
        results = yield from beam_steps(
            self._decoder(rows, settings.max_new_tokens),
            rows,
            beams,
            max_new_tokens=settings.max_new_tokens,
            end_ids=self.end_ids,
            repetition_penalty=settings.rules.repetition_penalty,
        )
        return [
            [self._spelled(prompt, row, one, settings.stop) for one in grown]
            for prompt, row, grown in zip(prompts, rows, results, strict=True)
        ]

    def _spelled(self, prompt: str, row: list[int], one: GeneratedText, stops: Sequence[str]) -> Continuation:
        """Convert a finished beam to text, truncated at its first stop string."""
        spelling = TextStreamer(self.tokenizer, row)
        spelling.ids = one.ids
        text = spelling.text()
        end = first_stop(text, stops)
        ended_by = "stop" if end < len(text) else "end" if one.is_ended else "length"
        return Continuation(prompt, text[:end], len(one.ids), one.score, ended_by)


def _ends_sentence(text: str) -> bool:
    return text.rstrip().endswith((".", "!", "?"))


class _Branches:
    """A decoder that has read one prompt, branched into one row per first token."""

    def __init__(self, decoder: Decoder, tokens: torch.Tensor) -> None:
        self.decoder, self.tokens = decoder, tokens

    def start(self) -> torch.Tensor:
        """Return the first logits: float32 [rows, vocab]."""
        self.decoder.keep(torch.zeros(len(self.tokens), dtype=torch.int64))
        return self.decoder.step(self.tokens)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the next logits: float32 [rows, vocab]; tokens: int64 [rows]."""
        return self.decoder.step(tokens)

    def keep(self, rows: torch.Tensor, *, same_texts: bool = False) -> None:
        """Same as the decoder."""
        self.decoder.keep(rows, same_texts=same_texts)


# -- Text generation with a masked language model: masks after the prompt are filled in order (Wang and Cho 2019)
#
# Each token is sampled with masks in place of the rest of the text. Masked language models are not trained for this;
# the comparison shows why causal language models are used for generation.


class MaskedLMGenerator(Streams):
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

    predict = generate

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
