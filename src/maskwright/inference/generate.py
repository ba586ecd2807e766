"""Text that goes on: prompts in, continuations out, from a left-to-right model (Radford et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..core.config import check
from ..core.errors import InputError
from ..core.plural import plural
from ..core.progress import warn
from ..core.randomness import generator
from ..models.decoding.beam import Beams, search_beams
from ..models.decoding.choice import decoder_of
from ..models.decoding.rules import Decoder, Rules
from ..models.decoding.search import Grown, grow
from ..models.decoding.spelling import Spelling, check_stops, first_stop
from ..models.model import Model
from .engine.engine import Engine
from .ready import room_of, tokenizer_of, usual_length

MOST_NEW_TOKENS = 1_000_000
MOST_RESULTS = 10_000  # of a prompt, held at once
ROWS = 32  # texts that grow side by side
SUGGESTED_TOKENS = 8


@dataclass(frozen=True)
class Generation:
    """What to do with each prompt.

    max_new_tokens: how long a continuation may be; rules: how tokens are drawn; num_results: continuations of each
    prompt; beams: followed at once, 1 for none (then nothing is drawn, and results are the best ones, not draws);
    length_penalty, early_stopping: as in decoding.beam.Beams; stop: strings before which a text ends; seed: names every
    draw, whatever other prompts stand beside. Raises ConfigError for values out of range.
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
        check(1 <= most <= MOST_NEW_TOKENS, f"max_new_tokens is {most}; it must be 1 to {MOST_NEW_TOKENS:,}.")
        wanted = self.num_results
        check(1 <= wanted <= MOST_RESULTS, f"num_results is {wanted}; it must be 1 to {MOST_RESULTS:,}.")
        if self.beams != 1:
            rules = self.rules
            drawn = rules.greedy or rules.temperature != 1 or rules.top_k is not None or rules.top_p is not None
            check(not drawn, "Beams draw nothing: leave greedy, temperature, top_k and top_p out, or beams.")
            Beams(self.beams, self.num_results, self.length_penalty, self.early_stopping)
        else:
            check(self.length_penalty == 1, "length_penalty weighs beams: ask for beams, or leave it out.")
            check(
                not self.rules.greedy or self.num_results == 1,
                "Greedy continuations are all the same: ask for one, for beams, or for draws.",
            )


@dataclass(frozen=True)
class Continuation:
    """What a model wrote.

    prompt: the text before it; text: what it added; num_tokens: how many tokens that are; score: log probability of all
    of them (with beams, divided by length ** length_penalty); ended_by: "end" (the model ended the text), "stop" (a
    stop string) or "length".
    """

    prompt: str
    text: str
    num_tokens: int
    score: float
    ended_by: str

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return vars(self).copy()


class TextGenerator:
    """Continues texts with a left-to-right model.

    max_length: tokens that it sees at once, None as in training. use_cache: whether keys and values of earlier tokens
    are kept; without, every step reads the whole text again.
    """

    def __init__(self, model: Model, *, max_length: int | None = None, use_cache: bool = True) -> None:
        if model.head_name != "clm":
            raise InputError("Only a left-to-right language model continues texts: pretrain --objective clm makes one.")
        self.model = model.eval()
        self.tokenizer = tokenizer_of(model)
        self.use_cache = use_cache
        self.room = room_of(model) if model.config.recurrent else usual_length(model, max_length)
        ends = self.tokenizer.eos_id
        self.end_ids = frozenset() if ends is None else frozenset({ends})
        model.engine = model.engine or Engine()

    def generate(
        self,
        prompts: Sequence[str],
        settings: Generation | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> list[list[Continuation]]:
        """`num_results` continuations of each prompt; of beams the best ones, best first.

        on_text: given the text of one prompt's one continuation while it grows (not with beams). Raises InputError for
        an empty prompt where no token begins a text, and for stop strings that cannot come.
        """
        settings = settings or Generation()
        check_stops(self.tokenizer, settings.stop)
        if on_text is not None and (len(prompts) != 1 or settings.num_results != 1 or settings.beams != 1):
            raise InputError("Text is shown while it grows for one prompt with one result and without beams.")
        rows = [self.ids_of(prompt) for prompt in prompts]
        self._warn_of_long(rows)
        found: list[list[Continuation]] = []
        size = max(ROWS // max(settings.num_results, settings.beams), 1)
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            texts = prompts[start : start + size]
            found += (
                self._beams(texts, block, settings)
                if settings.beams > 1
                else self._draws(texts, block, settings, start, on_text)
            )
        return found

    def complete(self, text: str, k: int = 3, max_new_tokens: int = SUGGESTED_TOKENS) -> list[Continuation]:
        """`k` suggestions of what comes next, the most probable first: each begins with another token, the k most
        probable ones, and goes on greedily up to the end of a sentence.

        Raises InputError where k is below 1 or above the vocabulary's size.
        """
        if not 1 <= k <= self.model.config.vocab_size:
            raise InputError(f"k is {k}; it must be 1 to {self.model.config.vocab_size:,}.")
        check(max_new_tokens >= 1, f"max_new_tokens is {max_new_tokens}; it must be at least 1.")
        ids = self.ids_of(text)
        self._warn_of_long([ids])
        decoder = self._decoder([ids], max_new_tokens)
        first = decoder.start().log_softmax(dim=-1)  # [1, vocab]
        first[:, list(self.tokenizer.special_ids)] = float("-inf")  # nothing to suggest
        gained, tokens = first[0].topk(k)
        if not bool(torch.isfinite(gained).all()):
            raise InputError(f"k is {k}; the vocabulary has fewer tokens to suggest.")
        spellings = [Spelling(self.tokenizer, ids) for _ in range(k)]
        for spelling, token in zip(spellings, tokens.tolist(), strict=True):
            spelling.add(token)
        going = _Going(decoder, tokens)
        grown = (
            grow(
                going,
                [[*ids, token] for token in tokens.tolist()],
                Rules(greedy=True),
                max_new_tokens=max_new_tokens - 1,
                end_ids=self.end_ids,
                watch=lambda row, token: spellings[row].add(token) or _ends_sentence(spellings[row].text()),
            )
            if max_new_tokens > 1
            else [Grown() for _ in range(k)]
        )
        return [
            Continuation(
                text, spelling.text(), len(spelling.ids), score + one.score, "end" if one.is_ended else "length"
            )
            for spelling, score, one in zip(spellings, gained.tolist(), grown, strict=True)
        ]

    def ids_of(self, prompt: str) -> list[int]:
        """A prompt as the model reads it: what its tokenizer puts before a text, and the text.

        An empty one is the beginning of a text alone. Raises InputError where there is no such beginning.
        """
        ids = [*self.tokenizer.opening_ids, *self.tokenizer.encode_plain([prompt])[0]]
        if not ids and self.tokenizer.bos_id is not None:
            ids = [self.tokenizer.bos_id]
        if not ids:
            raise InputError(
                "The prompt is empty, and this tokenizer has no token that begins a text: give some words."
            )
        return ids

    # -- inside ----------------------------------------------------------------------------------------------------

    def _decoder(self, rows: list[list[int]], max_new_tokens: int) -> Decoder:
        return decoder_of(self.model, rows, max_new_tokens, use_cache=self.use_cache, window=self.room)

    def _warn_of_long(self, rows: list[list[int]]) -> None:
        too_long = sum(len(row) > self.room for row in rows)
        if too_long:
            is_one = too_long == 1
            what = f"{too_long:,} of {plural(len(rows), 'prompt')} {'is' if is_one else 'are'} longer than the"
            which = "its end counts" if is_one else "their ends count"
            warn(f"{what} {self.room:,} tokens that the model sees at once: {which}.")

    def _draws(
        self,
        prompts: Sequence[str],
        rows: list[list[int]],
        settings: Generation,
        start: int,
        on_text: Callable[[str], None] | None,
    ) -> list[list[Continuation]]:
        copies, uniforms = settings.num_results, None
        if not settings.rules.greedy:
            draws = [
                generator(settings.seed, "generate", start + place, copy).random(settings.max_new_tokens)
                for place in range(len(rows))
                for copy in range(copies)
            ]
            uniforms = torch.from_numpy(np.stack(draws))
        spellings = [Spelling(self.tokenizer, row, settings.stop, on_text) for row in rows for _ in range(copies)]
        grown = grow(
            self._decoder(rows, settings.max_new_tokens),
            rows,
            settings.rules,
            max_new_tokens=settings.max_new_tokens,
            end_ids=self.end_ids,
            uniforms=uniforms,
            copies=copies,
            watch=lambda row, token: spellings[row].add(token),
        )
        found = []
        for number, (spelling, one) in enumerate(zip(spellings, grown, strict=True)):
            ended_by = "stop" if spelling.is_stopped else "end" if one.is_ended else "length"
            prompt = prompts[number // copies]
            found.append(Continuation(prompt, spelling.finish(), len(one.ids), one.score, ended_by))
        return [found[place : place + copies] for place in range(0, len(found), copies)]

    def _beams(self, prompts: Sequence[str], rows: list[list[int]], settings: Generation) -> list[list[Continuation]]:
        beams = Beams(settings.beams, settings.num_results, settings.length_penalty, settings.early_stopping)
        results = search_beams(
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

    def _spelled(self, prompt: str, row: list[int], one: Grown, stops: Sequence[str]) -> Continuation:
        """A finished beam, cut at its first stop string."""
        spelling = Spelling(self.tokenizer, row)
        spelling.ids = one.ids
        text = spelling.text()
        end = first_stop(text, stops)
        ended_by = "stop" if end < len(text) else "end" if one.is_ended else "length"
        return Continuation(prompt, text[:end], len(one.ids), one.score, ended_by)


def _ends_sentence(text: str) -> bool:
    return text.rstrip().endswith((".", "!", "?"))


class _Going:
    """A decoder that has read one prompt, whose rows go on with a first token each."""

    def __init__(self, decoder: Decoder, tokens: torch.Tensor) -> None:
        self.decoder, self.tokens = decoder, tokens

    def start(self) -> torch.Tensor:
        """float32 [rows, vocab]."""
        self.decoder.keep(torch.zeros(len(self.tokens), dtype=torch.int64))
        return self.decoder.step(self.tokens)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """float32 [rows, vocab]; tokens: int64 [rows]."""
        return self.decoder.step(tokens)

    def keep(self, rows: torch.Tensor, *, same_texts: bool = False) -> None:
        """As the decoder does."""
        self.decoder.keep(rows, same_texts=same_texts)
