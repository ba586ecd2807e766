"""Texts that are written for others: the logits of each row's next token, each row beside its own source.

The sources are read once; every layer's keys and values of them, and of what was written so far, are kept. Sources may
be of any lengths; what a row stands beside changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ...data.batch import Batch, chunks_by_tokens
from ...nn.attention import Executor
from ...nn.cache import KeyValueCache
from ..attending import looking_back
from ..encoder_decoder import EncoderDecoder
from .allowed import Allows, of_texts
from .beam import Beams, search_beams
from .causal import first_difference
from .recurrent_translating import RecurrentTranslatingDecoder
from .rules import Rules
from .search import Grown, grow
from .steps import check_room, memory_dtype, read_anew, start_token, steps_of

LONGER = 50  # tokens by which a translation may be longer than its source (Vaswani et al. 2017, section 6.1)
STEP = 16  # sources are grouped by their length in so many tokens, so that those of a group have one limit
ROWS = 64  # beams that grow side by side, or texts where there is one beam


class TranslatingDecoder:
    """Rows of tokens that an encoder-decoder writes; the protocol is `rules.Decoder`.

    source: the texts to read, one for each row; max_new_tokens: how many steps there may be; use_cache: False reads the
    whole row anew at each step, which is slow and the same. Raises InputError for a model without a start token, and
    for more tokens than it has positions.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source: Batch,
        max_new_tokens: int,
        *,
        use_cache: bool = True,
    ) -> None:
        self.model, self.config = model, model.decoder.config
        self.device = model.word_embeddings.device
        self.start_id = start_token(model)
        check_room(model, max_new_tokens)
        self.source = source.to(self.device)
        self.max_new_tokens = max_new_tokens
        self.use_cache = use_cache
        self.newest = -1
        self.written = torch.zeros(len(source), 0, dtype=torch.int64)
        self._steps = steps_of(model, len(source))
        self._attending: list[Executor] | None = None

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Read the sources: float32 logits [rows, vocab] of the first token that is written."""
        rows, config = len(self.source), self.config
        dtype = memory_dtype(self.model.compute_dtype, self.device)
        self.memory = self.model.encode(self.source).hidden
        self._first = torch.full((rows,), self.start_id)
        if self.use_cache:
            self.cross = self.model.decoder.remember(self.memory, self.source.lengths, dtype)
            heads, width = config.num_attention_heads, config.head_dim
            self.cache = KeyValueCache(
                config.num_hidden_layers, rows, self.max_new_tokens, heads, width, dtype=dtype, device=self.device
            )
        self.owner = torch.arange(rows)
        return self.step(self._first)

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Read one more token of each row, int64 [rows]: float32 logits [rows, vocab] of the token after it."""
        self.newest += 1
        self.written = torch.cat([self.written, tokens.cpu()[:, None]], dim=1)
        if self.use_cache:
            return self._steps.logits(self._step_cached(tokens.to(self.device)))
        return self._steps.logits(read_anew(self.model, self.written, self.owner, self.memory, self.source))

    @torch.inference_mode()
    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Go on with `rows`, int64 [kept], in that order; one may come more than once.

        same_texts: each writes for the source of the row whose place it takes. What both have written is not copied.
        """
        rows = rows.cpu()
        written = self.written[rows]
        if self.use_cache:
            self.cache.keep(rows, first_difference(written, self.written, self.newest + 1) if same_texts else 0)
            if not same_texts:
                self.cross.keep(rows)
        if len(rows) > 1 and len(self.written) == 1:
            self._steps = steps_of(self.model, len(rows))
        self.written, self.owner = written, self.owner[rows]

    def _step_cached(self, tokens: Tensor) -> Tensor:
        """float [rows, hidden]."""
        self.cache.turn_to(self.newest)
        positions = torch.full_like(tokens, self.newest)
        dtype = self.model.compute_dtype
        if self._attending is None or self.config.positions == "rotary":  # angles are those of the new positions
            relatives = self.model.decoder.relatives
            self._attending = looking_back(self.config, positions, self.cache, dtype, relatives)
        return self._steps.grow(tokens, positions, self._attending, self.cross)


def writing(
    model: EncoderDecoder, source: Batch, max_new_tokens: int, *, use_cache: bool = True
) -> TranslatingDecoder | RecurrentTranslatingDecoder:
    """Rows that grow as a model's decoder has it; the arguments are those of `TranslatingDecoder`."""
    kind = TranslatingDecoder if model.config.recurrent is None else RecurrentTranslatingDecoder
    return kind(model, source, max_new_tokens, use_cache=use_cache)


def longest_translation(num_tokens: int, most: int) -> int:
    """Tokens that may be written for a source of so many, at most `most`: of its own length alone."""
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
) -> list[list[Grown]]:
    """What the model writes for each source, `beams.num_results` of it, best first; one beam writes greedily.

    sources: ids, int [tokens] each; max_new_tokens: of every translation, None for what `longest_translation` says;
    allows: which tokens may come next in the text of a source, by its number; where none may there is no result; tell:
    told how many sources are done. The model is left in evaluation mode.
    """
    model.eval()
    most = min(max_new_tokens or model.config.max_position_embeddings, model.config.max_position_embeddings)
    found: list[list[Grown]] = [[] for _ in sources]
    done = 0
    for limit, chosen in _groups([len(source) for source in sources], most, max_new_tokens, beams.width):
        batch = Batch.from_sequences([sources[row] for row in chosen])
        decoder = writing(model, batch, limit)
        prompts = [[decoder.start_id]] * len(chosen)
        limits = {"max_new_tokens": limit, "end_ids": end_ids, "banned_ids": banned_ids}
        if allows is not None:
            rule = of_texts(allows, chosen)
            texts = search_beams(decoder, prompts, beams, **limits, allows=rule)  # type: ignore[arg-type]
        elif beams.width == 1:
            texts = [[one] for one in grow(decoder, prompts, Rules(greedy=True), **limits)]  # type: ignore[arg-type]
        else:
            texts = search_beams(decoder, prompts, beams, **limits)  # type: ignore[arg-type]
        for row, text in zip(chosen, texts, strict=True):
            found[row] = text
        done += len(chosen)
        if tell is not None:
            tell(done)
    return found


def _groups(
    lengths: Sequence[int], most: int, max_new_tokens: int | None, width: int
) -> Iterator[tuple[int, list[int]]]:
    """Rows to write side by side, with how much: shortest first, and of one limit."""
    limits = np.array([longest_translation(n, most) if max_new_tokens is None else most for n in lengths])
    order = np.lexsort((np.asarray(lengths), limits))
    for limit in np.unique(limits).tolist():
        own = [row for row in order.tolist() if limits[row] == limit]
        for chunk in chunks_by_tokens(own, [1] * len(lengths), max(ROWS // width, 1)):
            yield limit, chunk
