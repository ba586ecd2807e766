"""`maskwright tokenizer`: train and compare, encode, decode, explain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..core import progress, registry
from ..core.config import VOCABULARY, Setting, check, check_name, option
from ..core.errors import InputError
from ..train.settings import SKIP_BAD_ROWS
from .common import Part, Result, Table
from .settings import make_group, takes_settings

if TYPE_CHECKING:
    from ..text.tokenizers.explain import Comparison

KINDS = registry.names("tokenizer")
TieBreak = Literal["first", "last", "lexicographic"]

TOKENIZER = Setting("Folder with a tokenizer or a model, or a tokenizer.json or vocab.txt.", is_argument=True)
TIE_BREAK = Setting("Tie-breaking among equally frequent BPE pairs.", default_help="first")


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of `maskwright tokenizer train`."""

    COMMAND: ClassVar[str] = "tokenizer train"

    corpus: tuple[str, ...] = option(
        help="Text files, folders or glob patterns; - for standard input.", is_argument=True
    )
    output: Path | None = option(None, "Output folder.", short="-o", default_help="none: needed without --compare")
    kind: tuple[str, ...] = option(
        (),
        f"Tokenizer algorithm ({', '.join(KINDS)}). Repeatable with --compare.",
        default_help="wordpiece; all with --compare",
    )
    compare: bool = option(False, "Train every kind, and compare them on a held-out tenth of the corpus.")
    tokenizer: tuple[Path, ...] = option((), "Tokenizer that --compare also measures. Repeatable.")
    vocab_size: int = option(8000, "Vocabulary size, including special tokens.")
    merges: int | None = option(
        None, "Stop after this many merges (bpe).", default_help="up to --vocab-size", minimum=0
    )
    tie_break: TieBreak | None = option(None, TIE_BREAK)
    lowercase: bool | None = option(None, "Ignore case and accents.", default_help="yes, no for byte-bpe")
    min_frequency: int | None = option(
        None, "Minimum frequency of a token.", panel=VOCABULARY, default_help="1", minimum=1
    )
    limit_alphabet: int | None = option(
        None, "Maximum number of characters.", panel=VOCABULARY, default_help="1000", minimum=1
    )
    split_punctuation: bool | None = option(
        None, "Split off punctuation marks (bpe).", panel=VOCABULARY, default_help="off"
    )
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)

    def __post_init__(self) -> None:
        check(self.compare or self.output is not None, "Missing: -o/--output (output folder).")
        check(not (self.compare and self.output), "--compare keeps no tokenizer: remove --output.")
        check(self.compare or not self.tokenizer, "--tokenizer goes with --compare.")
        check(self.compare or len(self.kind) < 2, "--kind is given twice: several go with --compare.")
        for name in self.kind:
            check_name("kind", "tokenizer", name, KINDS)


@dataclass(frozen=True, kw_only=True)
class EncodeSettings:
    """Settings of `maskwright tokenizer encode`."""

    COMMAND: ClassVar[str] = "tokenizer encode"

    tokenizer: Path = option(help=TOKENIZER)
    text: str = option(help="Text to encode.", is_argument=True)
    pair: str | None = option(None, "Second text of a pair.", is_argument=True)
    max_length: int | None = option(None, "Maximum sequence length in tokens.", minimum=1)
    truncation: Literal["longest_first", "only_first", "only_second"] = option(
        "longest_first", "Truncation strategy for pairs."
    )
    stride: int = option(0, "Overlap of adjacent windows, in tokens.", minimum=0)
    marks: Literal["right", "left"] | None = option(
        None, "Only show the subword tokens, with ## on the right part (la ##ern) or on the left one (la## ern)."
    )


@dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """Settings of `maskwright tokenizer decode`."""

    COMMAND: ClassVar[str] = "tokenizer decode"

    tokenizer: Path = option(help=TOKENIZER)
    ids: tuple[int, ...] = option(help="Token ids.", is_argument=True)
    keep_special: bool = option(False, "Show special tokens too.")


@dataclass(frozen=True, kw_only=True)
class ExplainSettings:
    """Settings of `maskwright tokenizer explain`."""

    COMMAND: ClassVar[str] = "tokenizer explain"

    words: str = option(help="Words with their counts.", metavar="WORD:COUNT,…")
    kind: Literal["bpe", "wordpiece-score"] = option("bpe", "Merge criterion.")
    merges: int | None = option(None, "Stop after this many merges.", minimum=0)
    vocab_size: int | None = option(None, "Stop at this many symbols.", minimum=1)
    tie_break: TieBreak | None = option(None, TIE_BREAK)
    encode: str | None = option(None, "Words to encode with the merges (bpe).", metavar="WORD,…")
    candidates: int = option(5, "Number of candidate pairs to show per merge.", minimum=1)


@takes_settings(TrainSettings)
def train(settings: TrainSettings) -> Iterator[Result]:
    """Train a tokenizer on text.

    Examples:

        maskwright tokenizer train --kind wordpiece --vocab-size 8000 -o tok/ corpus.txt

        maskwright tokenizer train --kind bpe --merges 500 -o tok/ books/ news.jsonl.xz

        maskwright tokenizer train --compare corpus.txt --vocab-size 4000
    """
    if settings.compare:
        yield _compared(settings)
        return
    from ..core import storage
    from ..text.tokenizers.tokenizer import Tokenizer

    options: dict[str, Any] = {
        "num_merges": settings.merges,
        "tie_break": settings.tie_break,
        "lowercase": settings.lowercase,
        "min_frequency": settings.min_frequency,
        "limit_alphabet": settings.limit_alphabet,
        "split_punctuation": settings.split_punctuation,
    }
    given = {name: value for name, value in options.items() if value is not None}
    output, wanted = settings.output or Path(), settings.vocab_size
    with storage.new_folder(output) as folder:
        tokenizer = Tokenizer.train(
            settings.corpus, (*settings.kind, "wordpiece")[0], wanted, skip_bad_rows=settings.skip_bad_rows, **given
        )
        tokenizer.write_to(folder)
    size = tokenizer.vocab_size
    if size < wanted and settings.merges is None:
        progress.note(f"The corpus is too small for {wanted:,} tokens: the vocabulary has {size:,}.")
    result = {"tokenizer": str(output), "vocab_size": size, **tokenizer.facts}
    yield (
        result,
        (
            f"{name.replace('_', ' '):<18} {f'{value:,}' if type(value) is int else value}"
            for name, value in result.items()
        ),
    )
    progress.note(f'Try it: maskwright tokenizer encode {output} "some text"')


@takes_settings(EncodeSettings)
def encode(settings: EncodeSettings) -> Iterator[Result]:
    """Encode a text: tokens, ids and character offsets.

    Examples:

        maskwright tokenizer encode tok/ "learning to transformerify"

        maskwright tokenizer encode tok/ "one text" "its pair" --max-length 16 --json

        maskwright tokenizer encode tok/ "taaaaasty laern" --marks left
    """
    from ..text.tokenizers.explain import format_subwords
    from ..text.tokenizers.tokenizer import Tokenizer

    loaded, text, pair = Tokenizer.load(settings.tokenizer), settings.text, settings.pair
    encoding = loaded(
        text, pair, max_length=settings.max_length, truncation=settings.truncation, stride=settings.stride
    )
    shown = {
        "ids": encoding.ids,
        "tokens": encoding.tokens,
        "offsets": encoding.offsets,
        "type_ids": encoding.type_ids,
        "num_truncated": encoding.num_truncated,
        "num_unknown": encoding.num_unknown,
    }
    if settings.marks is not None:
        pieces = format_subwords(loaded, loaded.encode_plain([text])[0], settings.marks)
        yield shown | {"pieces": pieces}, (pieces,)
        return
    texts = (text, pair or "")
    rows = [
        (
            token,
            id,
            type_id,
            "" if which is None else f"{start}-{end}",
            "" if which is None else texts[which][start:end],
        )
        for token, id, type_id, (start, end), which in zip(
            encoding.tokens, encoding.ids, encoding.type_ids, encoding.offsets, encoding.sequence_ids, strict=True
        )
    ]
    yield shown, (Table(["token", "id", "type", "place", "text"], rows, right=["id", "type"]),)
    if encoding.num_truncated or encoding.num_unknown:
        progress.note(f"Left out: {encoding.num_truncated} tokens; unknown: {encoding.num_unknown}.")


@takes_settings(DecodeSettings)
def decode(settings: DecodeSettings) -> Iterator[Result]:
    """Decode token ids to text.

    Examples:

        maskwright tokenizer decode tok/ 2 7 8 9 3

        maskwright tokenizer decode tok/ 2 7 8 9 3 --keep-special --json
    """
    from ..text.tokenizers.tokenizer import Tokenizer

    loaded = Tokenizer.load(settings.tokenizer)
    unknown = [id for id in settings.ids if not 0 <= id < loaded.vocab_size]
    if unknown:
        raise InputError(f"Id {unknown[0]} is not in the vocabulary: ids go from 0 to {loaded.vocab_size - 1}.")
    text = loaded.decode(settings.ids, skip_special_tokens=not settings.keep_special)
    yield {"text": text}, (text,)


@takes_settings(ExplainSettings)
def explain(settings: ExplainSettings) -> Iterator[Result]:
    """Show each merge with pair counts (or scores) before and after it.

    Examples:

        maskwright tokenizer explain --kind bpe --words old:7,older:3,finest:9,lowest:4 --merges 5

        maskwright tokenizer explain --words old:7,older:3,finest:9,lowest:4 --merges 5 --encode oldest,estimate

        maskwright tokenizer explain --kind wordpiece-score --words old:7,older:3,finest:9,lowest:4 --merges 3
    """
    from ..text.tokenizers import explain as explaining

    explanation = explaining.explain(
        explaining.parse_words(settings.words),
        settings.kind,
        num_merges=settings.merges,
        vocab_size=settings.vocab_size,
        tie_break=settings.tie_break or "first",
    )
    if settings.encode and settings.kind != "bpe":
        raise InputError("--encode shows how BPE merges apply; WordPiece takes the longest match instead.")
    encoded = {
        word.strip(): explaining.encode_steps(word.strip(), explanation.merges)
        for word in (settings.encode or "").split(",")
        if word.strip()
    }
    steps = ["\n" + "\n  -> ".join(" ".join(state) for state in states) for states in encoded.values()]
    value = explanation.as_dict() | ({"encoded": encoded} if encoded else {})
    yield value, (explaining.render(explanation, settings.candidates), *steps)


def _compared(settings: TrainSettings) -> Result:
    from ..text.tokenizers.explain import compare
    from ..text.tokenizers.tokenizer import Tokenizer

    comparison = compare(
        settings.corpus,
        settings.vocab_size,
        settings.kind or None,
        tokenizers=[Tokenizer.load(path) for path in settings.tokenizer],
        skip_bad_rows=settings.skip_bad_rows,
        on_kind=lambda name: progress.note(f"Training {name} …"),
    )
    return asdict(comparison), _measures(comparison)


def _measures(comparison: Comparison) -> Iterator[Part]:
    rows = [
        (
            item.name,
            f"{item.vocab_size:,}",
            f"{item.unk_rate:.2%}",
            f"{item.unk_words:.2%}",
            f"{item.tokens_per_word:.2f}",
            f"{item.vocab_used:.0%}",
            "–" if item.affixes_shared is None else f"{item.affixes_shared:.0%} of {item.affix_pieces:,}",
            "; ".join(f"{piece}: {', '.join(words[:2])}" for piece, words in list(item.examples.items())[:2]),
        )
        for item in comparison.measures
    ]
    columns = ["kind", "vocabulary", "unk", "unk words", "tokens/word", "vocab used", "shared affixes", "for example"]
    yield Table(columns, rows, right=columns[1:7])
    for name, reason in comparison.left_out.items():
        yield f"{name} is skipped: {reason}"
    yield (
        f"Trained on {comparison.train_texts:,} sentences; measured on {comparison.held_out_texts:,} others "
        f"({comparison.held_out_words:,} words): every tenth {comparison.unit} was held out."
    )


app = make_group(
    "Train, compare, use and explain tokenizers.",
    {"train": train, "encode": encode, "decode": decode, "explain": explain},
)
