"""Incremental decoding of encoder-decoders, with cached keys and values of source and target.

Sources may have any lengths; rows do not affect each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ...core.errors import InputError
from ...data.batch import Batch, chunks_by_tokens
from ...nn.attention import Executor
from ...nn.cache import KeyValueCache
from ...nn.cross import shared_texts
from ..encoder_decoder import EncoderDecoder
from ..recurrent import DecoderState, RecurrentTargetDecoder
from ..transformer import cached_executors
from .causal import cache_dtype, first_difference, steps_of
from .rules import Decoder, Rules, StartedDecoder
from .search import Allows, Beams, GeneratedText, grow, of_texts, search_beams


def start_token(model: EncoderDecoder) -> int:
    """The first token of every target. Raises InputError if the configuration has none."""
    start = model.config.decoder_start_token_id
    if start is None:
        raise InputError("The model's config.json has no decoder_start_token_id, which generation needs.")
    return start


def check_max_new_tokens(model: EncoderDecoder, max_new_tokens: int) -> None:
    """Raises InputError if the model cannot generate `max_new_tokens` tokens."""
    most = model.config.max_position_embeddings
    if max_new_tokens > most:
        raise InputError(
            f"{max_new_tokens:,} new tokens are more than this model's maximum of {most:,}: request fewer."
        )


class TargetDecoder:
    """What the incremental decoders of encoder-decoders share.

    source: source texts, one per row; max_new_tokens: maximum number of steps. Raises InputError for a model without a
    start token, and for more tokens than it has positions.
    """

    def __init__(self, model: EncoderDecoder, source: Batch, max_new_tokens: int) -> None:
        check_max_new_tokens(model, max_new_tokens)
        self.model, self.max_new_tokens = model, max_new_tokens
        self.device = model.word_embeddings.device
        self.start_id = start_token(model)
        self.source = source.to(self.device)


# -- Incremental decoding of recurrent encoder-decoders; the context is the decoder state and the source -------------


class RecurrentTranslationDecoder(TargetDecoder):
    """Decodes target tokens with a recurrent encoder-decoder; implements `rules.Decoder`.

    Rows of one source are adjacent, with equal numbers per source, and share its
    encoder outputs.
    """

    def __init__(self, model: EncoderDecoder, source: Batch, max_new_tokens: int) -> None:
        super().__init__(model, source, max_new_tokens)
        self.decoder = cast("RecurrentTargetDecoder", model.decoder)
        self.owner = self.held = torch.arange(len(source))  # the source of each row, and the sources in memory

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Encodes the sources: float32 logits [rows, vocab] of the first target token."""
        self.state = self.decoder.initial_state(self.model.encode(self.source).hidden, self.source)
        return self.step(torch.full((len(self.source),), self.start_id))

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Appends one token to each row, int64 [rows]: float32 logits [rows, vocab] of the next token."""
        hidden, states = self.decoder.grow(tokens.to(self.device), self.state, self.model.compute_dtype)
        self.state = DecoderState(states, self.state.sources)
        return self.model.mlm_logits(hidden).float()

    @torch.inference_mode()
    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat.

        same_texts: each has the source of the row it replaces.
        """
        self.owner, chosen = self.owner[rows.cpu()], rows.to(self.device)
        states, sources = self.state
        states = tuple(tuple(part[:, chosen] for part in layer) for layer in states)
        if sources is not None and not same_texts:
            texts, places = shared_texts(self.owner, self.held)
            if places is not None:
                self.held, sources = texts, sources.rows(places.to(self.device))
        self.state = DecoderState(states, sources)


LONGER = 50  # maximum tokens by which a translation exceeds its source (Vaswani et al. 2017, section 6.1)
STEP = 16  # source lengths are rounded up to a multiple of this, so that those of a group have one limit
ROWS = 64  # beams decoded in parallel, or texts with beam size 1


class TranslationDecoder(TargetDecoder):
    """Decodes target tokens with an encoder-decoder; implements `rules.Decoder`."""

    def __init__(self, model: EncoderDecoder, source: Batch, max_new_tokens: int) -> None:
        super().__init__(model, source, max_new_tokens)
        self.written = torch.zeros(len(source), 0, dtype=torch.int64)  # [rows, tokens]
        self.config = model.decoder.config
        self.newest = -1
        self._steps = steps_of(model, len(source))
        self._attending: list[Executor] | None = None

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Encodes the sources: float32 logits [rows, vocab] of the first target token."""
        rows, config = len(self.source), self.config
        dtype = cache_dtype(self.model.compute_dtype, self.device)
        memory = self.model.encode(self.source).hidden
        self.cross = self.model.decoder.cache_sources(memory, self.source.lengths, dtype)
        heads, width = config.num_attention_heads, config.head_dim
        self.cache = KeyValueCache(
            config.num_hidden_layers, rows, self.max_new_tokens, heads, width, dtype=dtype, device=self.device
        )
        return self.step(torch.full((rows,), self.start_id))

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Appends one token to each row, int64 [rows]: float32 logits [rows, vocab] of the next token."""
        self.newest += 1
        self.written = torch.cat([self.written, tokens.cpu()[:, None]], dim=1)
        return self._steps.logits(self._step_cached(tokens.to(self.device)))

    @torch.inference_mode()
    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat.

        same_texts: each has the source of the row it replaces. Their common prefix is not copied.
        """
        rows = rows.cpu()
        written = self.written[rows]
        self.cache.keep(rows, first_difference(written, self.written, self.newest + 1) if same_texts else 0)
        if not same_texts:
            self.cross.keep(rows)
        if len(rows) > 1 and len(self.written) == 1:
            self._steps = steps_of(self.model, len(rows))
        self.written = written

    def _step_cached(self, tokens: Tensor) -> Tensor:
        """float [rows, hidden]."""
        self.cache.set_column(self.newest)
        positions = torch.full_like(tokens, self.newest)
        dtype = self.model.compute_dtype
        if self._attending is None or self.config.positions == "rotary":  # angles are those of the new positions
            relatives = self.model.decoder.relatives(dtype)
            self._attending = cached_executors(self.config, positions, self.cache, dtype, relatives)
        return self._steps.grow(tokens, positions, self._attending, self.cross)


class ForcedEnd:
    """A decoder whose last step allows only the end token, with probability 1: a text that long ends there.

    Implements `rules.Decoder`.
    """

    def __init__(self, decoder: Decoder, end_id: int, max_new_tokens: int) -> None:
        self._decoder, self._end_id, self._left = decoder, end_id, max_new_tokens

    def start(self) -> Tensor:
        """float32 logits [rows, vocab] of the first target token."""
        return self._forced(self._decoder.start())

    def step(self, tokens: Tensor) -> Tensor:
        """Appends tokens, int64 [rows]: float32 logits [rows, vocab] of the next token."""
        return self._forced(self._decoder.step(tokens))

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept]."""
        self._decoder.keep(rows, same_texts=same_texts)

    def _forced(self, logits: Tensor) -> Tensor:
        self._left -= 1
        if not self._left:
            logits = torch.full_like(logits, -torch.inf)
            logits[:, self._end_id] = 0
        return logits


def target_decoder(model: EncoderDecoder, source: Batch, max_new_tokens: int) -> StartedDecoder:
    """Returns the decoder for a model; arguments as in `TranslationDecoder`."""
    own = model.own_target_decoder(source, max_new_tokens)
    if own is not None:
        return own
    kind = TranslationDecoder if model.config.recurrent is None else RecurrentTranslationDecoder
    return kind(model, source, max_new_tokens)


def longest_translation(num_tokens: int, most: int) -> int:
    """Maximum length of the translation of a source with `num_tokens` tokens, at most `most`."""
    return min(-(-num_tokens // STEP) * STEP + LONGER, most)


def translate_ids(
    model: EncoderDecoder,
    sources: Sequence[np.ndarray],
    beams: Beams,
    *,
    end_ids: Collection[int],
    banned_ids: Collection[int] = (),
    max_new_tokens: int | None = None,
    allows: Allows | None = None,
    tell: Callable[[int], None] | None = None,
) -> list[list[GeneratedText]]:
    """Generates targets for each source, `beams.num_results` of them, best first; one beam means greedy decoding.

    A model with forced_eos_token_id ends each target at its limit with that token, as in transformers; it still counts
    as not ended.

    Args:
        sources: Ids, int [tokens] each.
        max_new_tokens: Maximum target length; default by `longest_translation`.
        allows: Tokens allowed next in the target of a source, by its index; without any, there is no result.
        tell: Called with the number of finished sources.

    The model is left in evaluation mode.
    """
    model.eval()
    most = min(max_new_tokens or model.config.max_position_embeddings, model.config.max_position_embeddings)
    found: list[list[GeneratedText]] = [[] for _ in sources]
    done = 0
    for limit, chosen in _groups([len(source) for source in sources], most, max_new_tokens, beams.width):
        batch = Batch.from_sequences([sources[row] for row in chosen])
        started = target_decoder(model, batch, limit)
        prompts = [[started.start_id]] * len(chosen)
        forced = None if allows is not None else model.config.forced_eos_token_id
        decoder: Decoder = started if forced is None else ForcedEnd(started, forced, limit)
        if allows is None and beams.width == 1:
            rules = Rules(greedy=True)
            greedy = grow(decoder, prompts, rules, max_new_tokens=limit, end_ids=end_ids, banned_ids=banned_ids)
            texts = [[one] for one in greedy]
        else:
            texts = search_beams(
                decoder,
                prompts,
                beams,
                max_new_tokens=limit,
                end_ids=end_ids,
                banned_ids=banned_ids,
                allows=None if allows is None else of_texts(allows, chosen),
            )
        for row, text in zip(chosen, texts, strict=True):
            found[row] = text
            for one in text if forced is not None else ():
                one.is_ended = one.is_ended and len(one.ids) < limit - 1  # the end of the last step is forced
        done += len(chosen)
        if tell is not None:
            tell(done)
    return found


def _groups(
    lengths: Sequence[int], most: int, max_new_tokens: int | None, width: int
) -> Iterator[tuple[int, list[int]]]:
    """Yields groups of rows to decode in parallel, with their maximum length: shortest first, one limit per group."""
    limits = np.array([longest_translation(n, most) if max_new_tokens is None else most for n in lengths])
    order = np.lexsort((np.asarray(lengths), limits))
    for limit in np.unique(limits).tolist():
        own = [row for row in order.tolist() if limits[row] == limit]
        for chunk in chunks_by_tokens(own, [1] * len(lengths), max(ROWS // width, 1)):
            yield limit, chunk
