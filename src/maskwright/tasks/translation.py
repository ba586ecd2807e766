"""Translation with an encoder-decoder (Vaswani et al. 2017).

Training uses teacher forcing: each target token is predicted from the source and the previous gold tokens, in one pass.
Its logits are sums per row: float32 [rows, 3], loss in nats, correct tokens, and tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError, MissingExtraError
from ..core.progress import track, warn
from ..data.batch import Batch
from ..models.build import with_tokenizer
from ..models.decoding.search import Beams, GeneratedText
from ..models.decoding.translation import translate_ids
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model, tokenizer_of
from ..text.formats.files import file_format
from ..text.readers.parallel import (
    BracketConstraint,
    check_languages,
    language_of,
    languages_of,
    read_pairs,
    read_parallel,
    tag,
)
from ..text.readers.tables import Table
from ..text.tokenizers.encoding import TextCounts
from ..text.tokenizers.tokenizer import Tokenizer
from ..text.words import has_no_spaces
from .base import ColumnNames, Evaluation, Rows, Targets, require_rows, truncation_notes
from .examples import TOKENIZE_ROWS, Examples, RowCounts
from .generation import TargetTask

# -- Corpus BLEU and chrF by sacrebleu, with its signatures (Post 2018) ---------------------------------------------

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
    whole = " ".join(references)
    tokenizer = "13a" if not has_no_spaces(whole) else "char" if _NOT_CHINESE.search(whole) else "zh"
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


# -- Tokenized sources and targets, packed for teacher forcing -------------------------------------------------------


@dataclass(frozen=True)
class TranslationExamples(Examples):
    """Rows of an encoder-decoder.

    input_ids: the sources; targets: number of target tokens including the end token, int64 [rows]; target_ids: for each
    row int32 [tokens + 1], beginning with the start token; is_too_long: bool [rows], whether a side was truncated.
    """

    target_ids: Sequence[np.ndarray] = field(default=(), repr=False)
    is_too_long: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool), repr=False)

    @cached_property
    def lengths(self) -> np.ndarray:
        if self.targets is None:
            return self.source_lengths
        return self.source_lengths + self.targets.numpy()

    @cached_property
    def source_lengths(self) -> np.ndarray:
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self))

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs the sources of rows, shortest first, and their targets in the same order as `target`. Labels:
        "example"; "words", the next token after each target token, and "owner", its row, int64 [target tokens].
        """
        chosen = np.asarray(indices, dtype=np.int64)
        if self.targets is None:
            return super().batch(chosen)
        others = self.targets.numpy()
        chosen = chosen[np.lexsort((others[chosen], self.source_lengths[chosen]))]
        targets = [self.target_ids[row] for row in chosen]
        labels = {
            "example": torch.from_numpy(chosen),
            "words": torch.from_numpy(np.concatenate([ids[1:] for ids in targets]).astype(np.int64)),
            "owner": torch.arange(len(chosen)).repeat_interleave(self.targets[torch.from_numpy(chosen)]),
        }
        batch = Batch.from_sequences([self.input_ids[row] for row in chosen], None, labels)
        return replace(batch, target=Batch.from_sequences([ids[:-1] for ids in targets]))

    def fitting(self) -> TranslationExamples:
        """The pairs without truncation: truncated targets would teach the model to stop early."""
        kept = np.flatnonzero(~self.is_too_long).tolist()
        if not kept or self.targets is None:
            raise InputError("Every pair is longer than max_length: raise it (--max-length).")
        return replace(
            self,
            input_ids=[self.input_ids[row] for row in kept],
            target_ids=[self.target_ids[row] for row in kept],
            targets=self.targets[torch.tensor(kept)],
            rows=[self.rows[row] for row in kept],
            is_too_long=self.is_too_long[kept],
        )


def source_ids(
    texts: Sequence[str], tokenizer: Tokenizer, max_length: int | None, counts: TextCounts
) -> list[np.ndarray]:
    """Tokenizes texts with special tokens, ending with the end token: for each text int32 [tokens]."""
    found = []
    for start in range(0, len(texts), TOKENIZE_ROWS):
        for ids in tokenizer.encode_ids(texts[start : start + TOKENIZE_ROWS])[0]:
            end = end_id(tokenizer)
            whole = ids if ids[-1:] == [end] else [*ids, end]
            kept = whole if max_length is None or len(whole) <= max_length else [*whole[: max_length - 1], end]
            unknown = 0 if tokenizer.unk_id is None else kept.count(tokenizer.unk_id)
            counts.add(len(kept), len(whole) - len(kept), unknown, 1)
            found.append(np.array(kept, dtype=np.int32))
    return found


def target_ids(texts: Sequence[str], tokenizer: Tokenizer, start: int, max_length: int | None) -> list[np.ndarray]:
    """Tokenizes targets, beginning with the start token: for each text int32 [tokens + 1]."""
    found = []
    for ids in source_ids(texts, tokenizer, None, TextCounts()):
        own = ids[1:] if len(ids) > 1 and ids[0] == start else ids
        found.append(np.concatenate([[start], own[:max_length]]).astype(np.int32))
    return found


def end_id(tokenizer: Tokenizer) -> int:
    """The end token. Raises InputError if the tokenizer has none."""
    if tokenizer.eos_id is None:
        raise InputError("The tokenizer has no end-of-text token, so translation could not stop.")
    return tokenizer.eos_id


BEAMS = 5


@dataclass(eq=False)
class Translation(TargetTask):
    """Translates texts into another language.

    label_smoothing: probability mass distributed over all tokens in training (section 5.4); languages: target languages
    of the source tags, such as <to-fr>; empty without tags. `bind` takes the start token, the target tokenizer and the
    language codes of a Marian model from the model.
    """

    name: ClassVar[str] = "translation"
    report: ClassVar[str] = "maskwright.tasks.report:TranslationReport"
    head = "seq2seq"
    target_label = "words"
    written = "translation"
    usage = ("translate", {"texts": ("your text",)})
    main_metric = "token_accuracy"
    adam: ClassVar[tuple[float, float]] = (0.98, 1e-9)  # section 5.3

    label_smoothing: float = 0.1
    languages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"label_smoothing is {self.label_smoothing}; it must be from 0 to below 1.")
        self.start_id: int | None = None
        self.target_tokenizer: Tokenizer | None = None
        self.codes: tuple[str, ...] = ()

    # -- rows and examples -----------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: Path | str | tuple[Path | str, Path | str],
        *,
        columns: ColumnNames = None,
        skip_bad_rows: bool = False,
    ) -> Table:
        if isinstance(path, tuple):
            return read_parallel(*path, skip_bad_rows=skip_bad_rows)
        if file_format(path, default="txt") == "txt":
            raise InputError(
                f"{path} contains texts without translations: also pass the line-aligned file of translations "
                "(a.de b.en), or pass a .tsv, .csv or .jsonl with source and target."
            )
        return read_pairs(path, columns=columns, skip_bad_rows=skip_bad_rows)

    @classmethod
    def from_rows(
        cls,
        train_rows: Rows,
        dev_rows: Rows = (),
        *,
        train_file: str | None = None,
        label_smoothing: float | None = None,
    ) -> Translation:
        require_rows(train_rows, train_file, "sources with targets")
        languages = languages_of(train_rows)
        return cls(0.1 if label_smoothing is None else label_smoothing, languages)

    def extend_vocabulary(self, model: Model) -> Model:
        tokenizer = model.tokenizer
        missing = (
            [] if tokenizer is None else [tag(one) for one in self.languages if tokenizer.token_to_id(tag(one)) is None]
        )
        if tokenizer is None or not missing:
            return model
        grown = with_tokenizer(model, tokenizer.with_tokens(missing))
        if isinstance(grown, EncoderDecoder) and grown.config.decoder_vocab_size is None and grown.target_tokenizer:
            grown.target_tokenizer = grown.target_tokenizer.with_tokens(missing)  # shared vocabulary
        return grown

    def bind(self, model: Model) -> None:
        if isinstance(model, EncoderDecoder):
            self.start_id = model.config.decoder_start_token_id
            self.target_tokenizer = model.target_tokenizer
            if model.tokenizer is not None:
                codes = model.tokenizer.language_codes
                self.codes = codes if len(codes) > 1 else ()  # a single language needs no code
                special = (model.tokenizer.id_to_token(index) for index in sorted(model.tokenizer.special_ids))
                own = {language_of(token) for token in special if token is not None} - {None}
                self.languages = tuple(sorted({*self.languages, *(one for one in own if one is not None)}))

    def tokenize(
        self, rows: Rows, tokenizer: Tokenizer, max_length: int | None, targets: Targets, counts: TextCounts
    ) -> TranslationExamples:
        """Tokenizes to at most `max_length` tokens per side. Raises InputError for an unknown target language."""
        check_languages(rows, self.languages, self.codes)
        texts = [row.text for row in rows]
        if targets is None:
            return TranslationExamples(source_ids(texts, tokenizer, max_length, counts), rows=rows, counts=counts)
        own, start = self.target_tokenizer or tokenizer, self._start(tokenizer)
        of_sources = RowCounts(total=counts)
        sources = source_ids(texts, tokenizer, max_length, of_sources)
        whole = target_ids(targets, own, start, None)
        written = [ids if max_length is None else ids[: max_length + 1] for ids in whole]
        num_cut = np.array([len(ids) - len(kept) for ids, kept in zip(whole, written, strict=True)])
        counts.cut_tokens += int(num_cut.sum())
        return TranslationExamples(
            sources,
            targets=torch.tensor([len(target) - 1 for target in written]),
            rows=rows,
            counts=counts,
            target_ids=written,
            is_too_long=np.array(of_sources.was_cut, dtype=bool) | (num_cut > 0),
        )

    def for_training(self, examples: Examples) -> Examples:
        if not isinstance(examples, TranslationExamples) or not bool(examples.is_too_long.any()):
            return examples
        num_cut = int(examples.is_too_long.sum())
        warn(f"{num_cut:,} of {len(examples):,} training pairs are longer than max_length and are skipped.")
        return examples.fitting()

    def notes(self, examples: Examples, name: str, max_length: int) -> list[str]:
        cut = int(examples.is_too_long.sum()) if isinstance(examples, TranslationExamples) else 0
        return truncation_notes(cut, len(examples), f"{name} pair", max_length)

    def _start(self, tokenizer: Tokenizer) -> int:
        if self.start_id is not None:
            return self.start_id
        own = self.target_tokenizer or tokenizer
        if own.bos_id is None:
            raise InputError("Neither the model nor the tokenizer has a start token.")
        return own.bos_id

    # -- training --------------------------------------------------------------------------------------------

    def target_states(self, model: Model, batch: Batch) -> Tensor:
        if not isinstance(model, EncoderDecoder) or batch.target is None:
            raise InputError("Training a translation model needs an encoder-decoder and pairs of texts.")
        return model.decode(batch.target, model.encode(batch).hidden, batch).hidden

    # -- answers ---------------------------------------------------------------------------------------------

    def predict(
        self,
        model: Model,
        examples: Examples,
        batch_tokens: int | None = None,
        *,
        beams: Beams | None = None,
        max_new_tokens: int | None = None,
        only_trees: bool = False,
    ) -> list[dict[str, Any]]:
        """{"translation", "score", "ended"} for each row, and further hypotheses as "others".

        score: log probability, with beams divided by length ** length_penalty; ended: False if the length limit was
        reached. only_trees: constrain decoding to bracket strings of trees over the source words; rows for which this
        finds nothing are decoded without the constraint.
        """
        trees_of = [row.text for row in examples.rows] if only_trees else None
        hypotheses = self.generate(model, examples.input_ids, beams, max_new_tokens, trees_of)
        tokenizer = self.target_tokenizer or tokenizer_of(model)
        found = []
        for text in hypotheses:
            first, *others = (
                {"translation": tokenizer.decode(one.ids).strip(), "score": one.score, "ended": one.is_ended}
                for one in text
            )
            found.append({**first, "others": others} if others else first)
        return found

    def generate(
        self,
        model: Model,
        sources: Sequence[np.ndarray],
        beams: Beams | None = None,
        max_new_tokens: int | None = None,
        trees_of: Sequence[str] | None = None,
    ) -> list[list[GeneratedText]]:
        """Generates token ids for sources from `source_ids`: hypotheses, best first. trees_of: source texts whose trees
        decoding is constrained to; see `predict`. Raises InputError unless the model is an encoder-decoder.
        """
        if not isinstance(model, EncoderDecoder) or model.tokenizer is None:
            raise InputError("Only an encoder-decoder with a tokenizer translates.")
        self.bind(model)
        tokenizer = self.target_tokenizer or model.tokenizer
        ends = {end_id(tokenizer)} if model.config.eos_token_id is None else {model.config.eos_token_id}
        never = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id]
        never += [tokenizer.token_to_id(tag(language)) for language in self.languages]
        never += [tokenizer.token_to_id(f">>{language}<<") for language in self.codes]
        banned = {one for one in never if one is not None} - ends
        rule = None if trees_of is None else BracketConstraint(tokenizer, trees_of, ends)
        decode = partial(
            translate_ids,
            model,
            beams=beams or Beams(BEAMS),
            end_ids=ends,
            banned_ids=banned,
            max_new_tokens=max_new_tokens,
        )
        with track("translating", len(sources), "texts") as progress:
            found = decode(sources, allows=rule, tell=lambda done: progress.update(done, ""))
        stuck = [row for row, text in enumerate(found) if not text]
        for row, text in zip(stuck, decode([sources[row] for row in stuck]), strict=True):
            found[row] = text
        return found

    def full_evaluation(self, model: Model, examples: Examples, batch_tokens: int | None = None) -> Evaluation:
        """As `evaluate`, with BLEU and chrF of beam-search translations; without sacrebleu it warns and omits them."""
        evaluation = self.evaluate(model, examples, batch_tokens)
        translations = [answer["translation"] for answer in self.predict(model, examples)]
        try:
            scores, signatures = corpus_scores(translations, [str(row.label) for row in examples.rows])
        except MissingExtraError as error:
            warn(str(error))
            return evaluation
        return Evaluation(evaluation.metrics | scores, evaluation.logits, evaluation.loss, signatures)


# -- Word alignments from cross-attention weights (Bahdanau et al. 2015, figure 3) ----------------------------------
#
# Recurrent models have one attention; for Transformers the weights are the mean over the heads of the second-to-last
# layer, which aligns best (Garg et al. 2019). Weights are summed over the subword tokens of a source word and averaged
# over those of a target word, so each row sums to 1.

Group = tuple[str, list[int]]  # a word and the positions of its subword tokens
NO_ATTENTION = (
    "This network has no attention, so there are no alignments: train one with attention with maskwright finetune "
    "translation --preset seq2seq-small."
)


@dataclass(frozen=True)
class Aligned:
    """Alignment of a text and its translation. Special tokens are included.

    source, target: words; weights: float64 [target words, source words], rows summing to 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray


def alignments(
    model: Model, task: Translation, pairs: Sequence[tuple[str, str]], max_length: int | None = None
) -> list[Aligned]:
    """Aligns each source with its translation. Leaves the model in evaluation mode.

    max_length: maximum tokens of each side. Raises InputError for a model without cross-attention.
    """
    check_attends(model)
    assert isinstance(model, EncoderDecoder) and model.tokenizer is not None
    task.bind(model)
    model.eval()
    own = model.target_tokenizer or model.tokenizer
    start = task.start_id if task.start_id is not None else own.bos_id
    if start is None:
        raise InputError("Neither the model nor the tokenizer has a start token.")
    found = []
    for source, target in pairs:
        (ids,) = source_ids([source], model.tokenizer, max_length, TextCounts())
        (targets,) = target_ids([target], own, start, max_length)
        weights = _weights(model, ids, targets[:-1])  # [target tokens, source tokens]
        across, down = words_of(source, model.tokenizer, ids), words_of(target, own, targets[1:])
        summed = np.stack([weights[:, places].sum(axis=1) for _, places in across], axis=1)
        averaged = np.stack([summed[places].mean(axis=0) for _, places in down])
        found.append(Aligned(tuple(word for word, _ in across), tuple(word for word, _ in down), averaged))
    return found


def attends(model: Model) -> bool:
    """Whether the model has cross-attention."""
    config = model.config
    return isinstance(model, EncoderDecoder) and (config.recurrent is None or config.attention_score != "none")


def check_attends(model: Model) -> None:
    """Raises InputError for a model without cross-attention."""
    if not isinstance(model, EncoderDecoder) or model.tokenizer is None:
        raise InputError("Only an encoder-decoder with a tokenizer aligns texts.")
    if not attends(model):
        raise InputError(NO_ATTENTION)


def shown_attention(model: Model) -> str:
    """A sentence about the attention that the weights are from."""
    layers = model.config.num_decoder_layers
    if model.config.recurrent is not None:
        return "The weights are those of the decoder's attention to the source."
    return f"The weights are the mean over the heads of the decoder's layer {max(layers - 1, 1)} of {layers}."


def words_of(text: str, tokenizer: Tokenizer, ids: np.ndarray) -> list[Group]:
    """Groups `ids`, int [tokens], with or without special tokens, by the words of a text; special tokens are separate
    groups.
    """
    encoding = tokenizer.encode_batch([text])[0]
    tokens = list(zip(encoding.ids, encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True))
    if tokens and tokens[0][1] is None and (not len(ids) or tokens[0][0] != ids[0]):
        tokens = tokens[1:]  # the start token is not among the ids
    keys: list[tuple[int, str | None, tuple[int, int]]] = []  # word number, text of a special token, character range
    for place, index in enumerate(ids.tolist()):
        owner = tokens[place] if place < len(tokens) and tokens[place][0] == index else None
        if owner is None or owner[1] is None or owner[2] is None:
            keys.append((-1 - place, tokenizer.id_to_token(index) or "", (0, 0)))
        else:
            keys.append((owner[2], None, owner[3]))
    found: list[Group] = []
    for _, group in groupby(enumerate(keys), key=lambda one: one[1][0]):
        places = list(group)
        special, begin, end = places[0][1][1], places[0][1][2][0], places[-1][1][2][1]
        found.append((text[begin:end].strip() if special is None else special, [place for place, _ in places]))
    return found


@torch.inference_mode()
def _weights(model: EncoderDecoder, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """float64 [target tokens, source tokens]. source, target: int [tokens], the target with its start token."""
    device = model.word_embeddings.device
    encoder_batch, decoder_batch = (Batch.from_sequences([side]).to(device) for side in (source, target))
    hidden = model.encode(encoder_batch).hidden
    decoded = model.decode(decoder_batch, hidden, encoder_batch, attentions=True)
    assert decoded.cross_attentions is not None
    layers = [layer[0].double().cpu().numpy() for layer in decoded.cross_attentions]  # each [heads, target, source]
    chosen: np.ndarray = layers[max(len(layers) - 2, 0)].mean(axis=0)  # the second-to-last, or the only one
    return chosen
