"""Lessons on your own numbers or text: a table of scores or weights, or a sentence in any script."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import InputError

if TYPE_CHECKING:
    from .recorder import LessonRecorder

MATRIX, TEXT = "matrix", "text"
MOST = 64  # rows, columns and words of a figure
FAR = 80.0  # a score so high that the other weights are zero

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class OwnInput:
    """The input of a lesson instead of the slide's example.

    matrix: rows of scores or weights, () for none; text: a sentence, "" for none; head_dim: scores are divided by its
    square root (default 64, as in the original Transformer).
    """

    matrix: Matrix = ()
    text: str = ""
    head_dim: int = 64

    def given(self) -> tuple[str, ...]:
        """Return the names of the inputs that are present."""
        return tuple(name for name, value in ((MATRIX, self.matrix), (TEXT, self.text)) if value)

    def words(self) -> list[str]:
        """Words of the text; a Chinese or Japanese character is one word. Raises InputError for more than MOST."""
        from ..text.words import split_words

        words = [self.text[start:end] for start, end in split_words(self.text)]
        if len(words) > MOST:
            raise InputError(f"The text has {len(words):,} words; a lesson shows {MOST} at most. Shorten it.")
        return words


def parse_matrix(source: str, *, files: bool = True) -> Matrix:
    """Reads rows of numbers: "27 10 12; 89 31 67", or the path of a text file with one row per line.

    Numbers are separated by spaces, tabs or commas; files: whether `source` may be a path. Raises InputError naming the
    row that is not valid.
    """
    try:
        is_file = files and len(source) < 1_000 and Path(source).is_file()
        text = Path(source).read_text(encoding="utf-8-sig") if is_file else source
    except (OSError, ValueError) as error:
        raise InputError(f"The matrix {source!r} cannot be read: {error}.") from None
    place = f"matrix file {source}" if is_file else "matrix"
    rows: list[tuple[float, ...]] = []
    lines = [line for line in text.replace(";", "\n").splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            row = tuple(float(cell) for cell in line.replace(",", " ").split())
        except ValueError as error:
            wrong = str(error).rpartition(": ")[2]
            raise InputError(f"{place}, row {number}: {wrong} is not a number.") from None
        if not all(math.isfinite(cell) for cell in row):
            raise InputError(f"{place}, row {number}: all numbers must be finite.")
        if rows and len(row) != len(rows[0]):
            raise InputError(
                f"{place}, row {number} has {len(row)} numbers, row 1 has {len(rows[0])}: make them equal."
            )
        rows.append(row)
    if not rows:
        raise InputError(f"{place}: no numbers. Pass rows such as '27 10 12; 89 31 67'.")
    if max(len(rows), len(rows[0])) > MOST:
        raise InputError(f"{place}: {len(rows)} x {len(rows[0])} numbers; a lesson shows {MOST} x {MOST} at most.")
    return tuple(rows)


def inspect_scores(record: LessonRecorder, own: OwnInput) -> None:
    """Softmax of attention scores divided by √d, next to the weights without the division."""
    import torch

    from ..report import Grid, Table
    from .parts.scaling import attention_weights, entropy

    if not own.matrix:
        raise InputError("This lesson needs a matrix of scores; a text only labels its columns.")
    scores = torch.tensor(own.matrix, dtype=torch.float64)  # [queries, keys]
    keys = _names(own, scores.shape[1])
    queries = keys if scores.shape[0] == scores.shape[1] else [f"row {n}" for n in range(1, len(scores) + 1)]
    plain, scaled = attention_weights(scores), attention_weights(scores, own.head_dim)
    root = math.sqrt(own.head_dim)
    for name, row, weights in zip(queries, own.matrix, scaled, strict=True):
        shares = [math.exp((one - max(row)) / root) for one in row]
        by_hand = [share / sum(shares) for share in shares]
        record.near(f"{name}: softmax(z / √{own.head_dim}), by hand", by_hand, weights)
    record.same("each row sums to", "1", scaled.sum(dim=1), scaled.new_ones(len(scaled)), said="1 within")
    record.show(
        Grid(queries, keys, (scores / root).tolist(), f"Scores divided by √{own.head_dim}", digits=2),
        Grid(queries, keys, scaled.tolist(), "Weights of the scaled scores", digits=4),
        Grid(queries, keys, plain.tolist(), "Weights without the division", digits=4),
    )
    cells = [[" ".join(f"{one:.2f}" for one in row) for row in (scores / root).tolist()]]
    cells += [[" ".join(f"{one:.4f}" for one in row) for row in weights.tolist()] for weights in (scaled, plain)]
    cells += [[f"{float(one):.3f}" for one in entropy(weights)] for weights in (scaled, plain)]
    columns = ["", f"z / √{own.head_dim}", "weights", "weights unscaled", "entropy", "entropy unscaled"]
    record.show(Table(columns, list(zip(queries, *cells, strict=True)), right=columns[1:]))
    hot = int((plain.max(dim=1).values > 0.99).sum())
    record.answer(
        f"Without the division, {hot} of {len(plain)} rows have a weight above 0.99; with it, "
        f"{int((scaled.max(dim=1).values > 0.99).sum())} do."
    )


def inspect_weights(record: LessonRecorder, own: OwnInput) -> None:
    """Sums of the rows of a printed table of weights; or the attention table of a sentence in an untrained head."""
    if own.matrix:
        _sum_rows(record, own)
    else:
        attention_table(record, own.words())


def _sum_rows(record: LessonRecorder, own: OwnInput) -> None:
    from ..report import Bar, Bars, Grid

    columns = _names(own, len(own.matrix[0]))
    rows = columns if len(own.matrix) == len(columns) else [f"row {n}" for n in range(1, len(own.matrix) + 1)]
    sums = [sum(row) for row in own.matrix]
    bound = 0.005 * len(columns)
    for name, total in zip(rows, sums, strict=True):
        is_rounding = abs(total - 1) <= bound + 1e-9
        record.holds(f"{name}: sum", f"1 ± {bound:g}", f"{total:.4f}".rstrip("0").ljust(4, "0"), is_rounding)
    record.show(Grid(rows, columns, [list(row) for row in own.matrix], "The table"))
    record.show(
        Bars([Bar(name, max(one, 0.0), f"{one:.2f}") for name, one in zip(rows, sums, strict=True)], title="Sums")
    )
    record.answer(f"Rounding each of {len(columns)} weights to two decimals changes a sum by at most {bound:g}.")


def attention_table(record: LessonRecorder, words: list[str]) -> None:
    """The weights of one untrained head on [CLS] and these words, each row of which sums to 1."""
    from ..data.batch import Batch
    from ..report import Grid
    from .small import small_network, word_tokenizer

    if not words:
        raise InputError("The text has no words: pass a sentence.")
    tokenizer = word_tokenizer(" ".join(words), lowercase=False)
    ids = [*tokenizer.opening_ids, *(one for own in tokenizer.encode_plain(words) for one in own)]
    seen = small_network(tokenizer.vocab_size, max_position_embeddings=4 * MOST).encode(
        Batch.from_sequences([ids]), attentions=True
    )
    assert seen.attentions is not None
    weights = seen.attentions[0][0][0].detach()  # first layer, first head: [tokens, tokens]
    tokens = [tokenizer.tokens[one] for one in ids]
    record.equal("size of the table", [len(tokens)] * 2, list(weights.shape))
    record.same("sum of each row", "1", weights.sum(dim=1), weights.new_ones(len(tokens)), said="1 within")
    record.show(Grid(tokens, tokens, weights.tolist(), "Attention weights of an untrained head"))
    rounded = (weights * 100).round().sum(dim=1) / 100
    bound = 0.005 * len(tokens)
    record.holds(
        "sums of the rows after rounding to two decimals",
        f"1 ± {bound:g}",
        f"{float(rounded.min()):.2f} to {float(rounded.max()):.2f}",
        bool(((rounded - 1).abs() <= bound + 1e-6).all()),
    )


def weighted_sum(record: LessonRecorder, own: OwnInput) -> None:
    """Sum word embeddings with the weights of given scores; by default only the first two words have weight."""
    import torch

    from ..nn.attention import scaled_dot_product
    from ..report import Token, Tokens

    words = own.words() or [f"x{n}" for n in range(1, len(own.matrix[0]) + 1)]
    if len(words) < 2:
        raise InputError("A weighted sum needs two words or more: pass a longer text.")
    if own.matrix and (len(own.matrix) != 1 or len(own.matrix[0]) != len(words)):
        size = f"{len(own.matrix)} x {len(own.matrix[0])}"
        raise InputError(f"The text has {len(words)} words, the matrix {size} numbers: pass one row with one per word.")
    row = own.matrix[0] if own.matrix else (FAR, FAR, *(0.0,) * (len(words) - 2))
    vectors = torch.eye(len(words), dtype=torch.float64)
    query = math.sqrt(len(words)) * torch.tensor([row], dtype=torch.float64)  # q · k / √d is the score of a word
    total, weights = scaled_dot_product(query, vectors, vectors)
    shares = [math.exp(one - max(row)) for one in row]
    by_hand = [share / sum(shares) for share in shares]
    record.near("weights of " + " ".join(words), by_hand, weights[0], digits=2)
    formula = " + ".join(f"{share:.2f}·{word}" for share, word in zip(by_hand, words, strict=True))
    record.near(f"Vec = {formula}", by_hand, total[0], digits=2)
    record.near("weights sum to", 1.0, float(weights.sum()), digits=2)
    tokens = [Token(word, "right" if one > 0.1 else "", f"{one:.2f}") for word, one in zip(words, by_hand, strict=True)]
    record.show(Tokens([("sum", tokens)]))
    record.answer(f"Vec = {formula}: each word has a separate unit vector here, so the sum shows the weights.")


def _names(own: OwnInput, count: int) -> list[str]:
    """Names of the columns: the words of the text, or numbers. Raises InputError where their number differs."""
    words = own.words()
    if words and len(words) != count:
        raise InputError(f"The text has {len(words)} words, the matrix {count} columns: pass as many of both.")
    return words or [str(n) for n in range(1, count + 1)]
