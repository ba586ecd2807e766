"""`maskwright tokenizer`: train, encode, decode, explain, compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..core import progress, registry
from ..core.errors import InputError
from .common import DebugFlag, JsonFlag, QuietFlag, SkipBadRowsFlag, print_json, print_table, print_text, with_default
from .settings import SettingsCommand

if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[tuple(registry.names("tokenizer"))]
TieBreak = Literal["first", "last", "lexicographic"]
Truncation = Literal["longest_first", "only_first", "only_second"]

app = typer.Typer(
    help="Train, use, inspect and compare tokenizers.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

VOCABULARY = "Vocabulary"  # a panel of --help

TokenizerArgument = Annotated[
    Path, typer.Argument(help="Folder with a tokenizer or a model, or a tokenizer.json or vocab.txt.")
]
TieBreakOption = Annotated[
    TieBreak | None, typer.Option(help="Tie-breaking among equally frequent BPE pairs.  \\[default: first]")
]


@app.command(cls=SettingsCommand)
def train(
    corpus: Annotated[list[str], typer.Argument(help="Text files, folders or patterns; - for standard input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Output folder.")],
    kind: Annotated[Kind, typer.Option(help="Tokenizer algorithm.")] = "wordpiece",
    vocab_size: Annotated[int, typer.Option(help="Vocabulary size, including special tokens.")] = 8000,
    merges: Annotated[int | None, typer.Option(min=0, help="Stop after this many merges (bpe).")] = None,
    tie_break: TieBreakOption = None,
    lowercase: Annotated[
        bool | None, typer.Option(help="Ignore case and accents.  \\[default: yes, no for byte-bpe]")
    ] = None,
    min_frequency: Annotated[
        int | None, typer.Option(min=1, help="Minimum frequency of a token.", rich_help_panel=VOCABULARY)
    ] = None,
    limit_alphabet: Annotated[
        int | None,
        typer.Option(min=1, help=with_default("Maximum number of characters.", "1000"), rich_help_panel=VOCABULARY),
    ] = None,
    split_punctuation: Annotated[
        bool | None,
        typer.Option(help=with_default("Split off punctuation marks (bpe).", "off"), rich_help_panel=VOCABULARY),
    ] = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Train a tokenizer on text.

    Examples:

        maskwright tokenizer train --kind wordpiece --vocab-size 8000 -o tok/ corpus.txt

        maskwright tokenizer train --kind bpe --merges 500 -o tok/ books/ news.jsonl.xz
    """
    from ..core import storage
    from ..text.tokenizers.tokenizer import Tokenizer

    options: dict[str, Any] = {
        "num_merges": merges,
        "tie_break": tie_break,
        "lowercase": lowercase,
        "min_frequency": min_frequency,
        "limit_alphabet": limit_alphabet,
        "split_punctuation": split_punctuation,
    }
    given = {name: value for name, value in options.items() if value is not None}
    with storage.new_folder(output) as folder:
        tokenizer = Tokenizer.train(corpus, kind, vocab_size, skip_bad_rows=skip_bad_rows, **given)
        tokenizer.write_to(folder)
    size, wanted = tokenizer.vocab_size, vocab_size
    if size < wanted and merges is None:
        progress.note(f"The corpus is too small for {wanted:,} tokens: the vocabulary has {size:,}.")
    result = {"tokenizer": str(output), "vocab_size": size, **tokenizer.facts}
    if json:
        print_json(result)
        return
    for name, value in result.items():
        print_text(f"{name.replace('_', ' '):<18} {f'{value:,}' if type(value) is int else value}")
    progress.note(f'Try it: maskwright tokenizer encode {output} "some text"')


@app.command(cls=SettingsCommand)
def encode(
    tokenizer: TokenizerArgument,
    text: Annotated[str, typer.Argument(help="Text to encode.")],
    pair: Annotated[str | None, typer.Argument(help="Second text of a pair.")] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Maximum sequence length in tokens.")] = None,
    truncation: Annotated[Truncation, typer.Option(help="Truncation strategy for pairs.")] = "longest_first",
    stride: Annotated[int, typer.Option(min=0, help="Overlap of adjacent windows, in tokens.")] = 0,
    marks: Annotated[
        Literal["right", "left"] | None,
        typer.Option(help="Only show subword tokens, with ## on the right or the left part."),
    ] = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Encode a text: tokens, ids and character offsets.

    Examples:

        maskwright tokenizer encode tok/ "learning to transformerify"

        maskwright tokenizer encode tok/ "one text" "its pair" --max-length 16 --json

        maskwright tokenizer encode tok/ "taaaaasty laern" --marks left
    """
    from ..text.tokenizers.notation import format_subwords
    from ..text.tokenizers.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer)
    encoding = loaded(text, pair, max_length=max_length, truncation=truncation, stride=stride)
    shown = {
        "ids": encoding.ids,
        "tokens": encoding.tokens,
        "offsets": encoding.offsets,
        "type_ids": encoding.type_ids,
        "num_truncated": encoding.num_truncated,
        "num_unknown": encoding.num_unknown,
    }
    if marks is not None:
        pieces = format_subwords(loaded, loaded.encode_plain([text])[0], marks)
        print_json(shown | {"pieces": pieces}) if json else print_text(pieces)
        return
    if json:
        print_json(shown)
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
    print_table(["token", "id", "type", "place", "text"], rows, right=["id", "type"])
    if encoding.num_truncated or encoding.num_unknown:
        progress.note(f"Left out: {encoding.num_truncated} tokens; unknown: {encoding.num_unknown}.")


@app.command(cls=SettingsCommand)
def decode(
    tokenizer: TokenizerArgument,
    ids: Annotated[list[int], typer.Argument(help="Token ids.")],
    keep_special: Annotated[bool, typer.Option(help="Show special tokens too.")] = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Decode ids to text.

    Examples:

        maskwright tokenizer decode tok/ 2 7 8 9 3

        maskwright tokenizer decode tok/ 2 7 8 9 3 --keep-special --json
    """
    from ..text.tokenizers.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer)
    unknown = [id for id in ids if not 0 <= id < loaded.vocab_size]
    if unknown:
        raise InputError(f"Id {unknown[0]} is not in the vocabulary: ids go from 0 to {loaded.vocab_size - 1}.")
    text = loaded.decode(ids, skip_special_tokens=not keep_special)
    print_json({"text": text}) if json else print_text(text)


@app.command(cls=SettingsCommand)
def explain(
    words: Annotated[str, typer.Option(help="Words with their counts.", metavar="WORD:COUNT,…")],
    kind: Annotated[Literal["bpe", "wordpiece-score"], typer.Option(help="Merge criterion.")] = "bpe",
    merges: Annotated[int | None, typer.Option(min=0, help="Stop after this many merges.")] = None,
    vocab_size: Annotated[int | None, typer.Option(min=1, help="Stop at this many symbols.")] = None,
    tie_break: TieBreakOption = None,
    encode: Annotated[str | None, typer.Option(help="Words to encode with the merges (bpe).", metavar="WORD,…")] = None,
    candidates: Annotated[int, typer.Option(min=1, help="Number of candidate pairs to show per merge.")] = 5,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show each merge with pair counts (or scores) before and after it.

    Examples:

        maskwright tokenizer explain --kind bpe --words old:7,older:3,finest:9,lowest:4 --merges 5

        maskwright tokenizer explain --words old:7,older:3,finest:9,lowest:4 --merges 5 --encode oldest,estimate

        maskwright tokenizer explain --kind wordpiece-score --words old:7,older:3,finest:9,lowest:4 --merges 3
    """
    from ..text.tokenizers import explain as explaining

    counts = explaining.parse_words(words)
    explanation = explaining.explain(
        counts, kind, num_merges=merges, vocab_size=vocab_size, tie_break=tie_break or "first"
    )
    if encode and kind != "bpe":
        raise InputError("--encode shows how BPE merges apply; WordPiece takes the longest match instead.")
    encoded = {
        word.strip(): explaining.encode_steps(word.strip(), explanation.merges)
        for word in (encode or "").split(",")
        if word.strip()
    }
    if json:
        print_json(explanation.as_dict() | ({"encoded": encoded} if encoded else {}))
        return
    print_text(explaining.render(explanation, candidates))
    for states in encoded.values():
        print_text("\n" + "\n  -> ".join(" ".join(state) for state in states))


@app.command(cls=SettingsCommand)
def compare(
    corpus: Annotated[list[str], typer.Argument(help="Text files, folders or patterns.")],
    vocab_size: Annotated[int, typer.Option(help="Vocabulary size of every kind.")] = 8000,
    kind: Annotated[
        list[str] | None, typer.Option(help="Tokenizer kind to train. Repeatable.  \\[default: all]")
    ] = None,
    tokenizer: Annotated[list[Path] | None, typer.Option(help="Also measure this tokenizer. Repeatable.")] = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Train every tokenizer kind on one corpus and compare them on a held-out tenth.

    Examples:

        maskwright tokenizer compare corpus.txt --vocab-size 4000

        maskwright tokenizer compare corpus.txt --kind bpe --kind wordpiece --tokenizer tok/ --json
    """
    from ..text.tokenizers.compare import compare as run
    from ..text.tokenizers.tokenizer import Tokenizer

    comparison = run(
        corpus,
        vocab_size,
        kind,
        tokenizers=[Tokenizer.load(path) for path in tokenizer or ()],
        skip_bad_rows=skip_bad_rows,
        on_kind=lambda name: progress.note(f"Training {name} …"),
    )
    if json:
        print_json(comparison.as_dict())
        return
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
    print_table(columns, rows, right=columns[1:7])
    for name, reason in comparison.left_out.items():
        print_text(f"{name} is left out: {reason}")
    print_text(
        f"Trained on {comparison.train_texts:,} sentences; measured on {comparison.held_out_texts:,} others "
        f"({comparison.held_out_words:,} words): every tenth {comparison.unit} was held out."
    )
