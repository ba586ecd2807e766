"""Positions, and the input of BERT: special tokens, the sum of three embeddings, at most 512 tokens."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from ...core.errors import InputError
from ...data.batch import Batch
from ...data.parses import tree_distances
from ...models.config import CHOICES
from ...models.presets import preset
from ...nn.positions import binary_positions, integer_positions, normalized_positions, sinusoidal_positions
from ...report import Grid, Kind, Table, Token, Tokens
from ...report.charts import Chart, Curves, Series
from ..inputs import Matrix
from ..recorder import LessonRecorder, difference, show, tiny
from ..small import small_network, word_tokenizer

LENGTH = 512


def lesson_sinusoids(record: LessonRecorder, width: int, position: int, distance: int) -> None:
    table = sinusoidal_positions(LENGTH, width)  # [positions, width]
    for place, index in ((1, 0), (10, 4), (position, 200 if width == 512 else width // 4 * 2)):
        angle = place / 10_000 ** (index / width)
        record.near(f"PE({place}, {index}) = sin", math.sin(angle), float(table[place, index]), digits=6, law=True)
        found = float(table[place, index + 1])
        record.near(f"PE({place}, {index + 1}) = cos", math.cos(angle), found, digits=6, law=True)
    apart = torch.pdist(table).min()
    record.holds("every row is unique", "unique", f"minimum distance {float(apart):.2f}", float(apart) > 0.1, law=True)
    added = (torch.ones(LENGTH, width) + table).shape[1]
    record.equal("width of token + position", width, added, law=True)
    rows = [str(place) for place in range(16)]
    columns = [str(index) for index in range(0, min(52, width), 2)]
    record.show(
        Grid(
            rows,
            columns,
            table[:16, :52:2].tolist(),
            f"Sinusoidal encoding of the first 16 positions, dimensions 0 to {columns[-1]}",
            digits=None,
        )
    )
    products = table @ table.T  # [positions, positions]
    lines = [products.diagonal(k) for k in (1, 10, distance)]
    spread = max(float(line.max() - line.min()) for line in lines)
    first = [line[:1].expand(len(line)) for line in lines]
    record.same("PE(p) · PE(p + k) is the same for all p", "(asked)", lines, first, said="differs by")
    line = Series("PE(p) · PE(p + k)", list(range(60)), products[0, :60].tolist())
    record.answer(
        f"Yes: the product of two rows depends only on their distance: at a distance of {distance} it is "
        f"{float(products[0, distance]):.1f} (it differs by at most {tiny(spread)} over 500 positions), so a head can "
        "learn to attend k tokens back from any position.",
        Curves([Chart("Product of two rows by distance", [line], x_label="distance k")], title=""),
    )


def lesson_position_ideas(record: LessonRecorder) -> None:
    binary = binary_positions(16)
    for place, slide in ((0, "0 0 0 0"), (5, "0 1 0 1"), (10, "1 0 1 0"), (15, "1 1 1 1")):
        record.equal(f"{place} in binary", slide, " ".join(str(int(bit)) for bit in binary[place]))
    flips = binary.diff(dim=0).abs().sum(dim=0).int().tolist()
    record.equal("changes of each digit from 0 to 15", [1, 3, 7, 15], flips)
    whole = integer_positions(1000)
    record.holds(
        "an integer index grows without bound",
        "large values",
        f"{float(whole.max()):.0f} at position 999",
        float(whole.max()) == 999.0,
    )
    short, long = float(normalized_positions(5)[2, 0]), float(normalized_positions(9)[2, 0])
    record.near("position 2 of 5, and of 9, normalized", [0.5, 0.25], [short, long], digits=2)
    waves = sinusoidal_positions(16, 8)
    record.holds(
        "sine and cosine terms are bounded",
        "−1 to 1",
        f"{show(float(waves.min()), 2)} to {show(float(waves.max()), 2)}",
        float(waves.abs().max()) <= 1,
    )
    schemes = [name for name in CHOICES["positions"] if name != "none"]
    record.holds("available position types", "(several)", ", ".join(schemes), len(schemes) >= 4)
    places = [str(place) for place in range(16)]
    record.show(
        Grid(places, ["8", "4", "2", "1"], binary.tolist(), "The numbers 0 to 15 in binary", digits=0),
        Grid(places, [str(index) for index in range(8)], waves.tolist(), "Sinusoidal encoding, width 8"),
    )
    fast, slow = waves[:, 0].diff().abs().sum(), waves[:, 6].diff().abs().sum()
    record.answer(
        f"Halving rates of change, but without jumps: over 16 positions the first sine changes by {float(fast):.1f} in "
        f"total, the last one by {float(slow):.2f}. Neighboring positions stay close in every dimension, unlike 7 = "
        "0111 and 8 = 1000."
    )


def lesson_relative_positions(record: LessonRecorder, shift: int, limit: int) -> None:
    moved, pairs = {}, {}
    for scheme in ("relative_key", "rotary", "absolute"):
        model = small_network(50, positions=scheme)
        batch = Batch.from_sequences([[7, 3, 21, 9, 14]])
        later = replace(batch, position_ids=batch.position_ids + shift)
        first, second = (model.encode(one, attentions=True).attentions for one in (batch, later))
        assert first is not None and second is not None
        pairs[scheme] = (first[0][0], second[0][0])
        moved[scheme] = difference(*pairs[scheme])
    record.same(f"relative: weights after a shift by {shift}", "unchanged", *pairs["relative_key"])
    record.same("rotary: the same", "(not shown)", *pairs["rotary"])
    record.holds("absolute: the same", "changed", f"differ by {moved['absolute']:.2f}", moved["absolute"] > 0.01)
    record.show(
        Table(
            ["positions", "largest change of a weight"],
            [(k, f"{v:.1e}") for k, v in moved.items()],
            right=["largest change of a weight"],
        )
    )
    model = small_network(50, positions="relative_key", relative_distance=limit)
    ids = [7, *[3] * (limit + 2), 9]
    found = model.encode(Batch.from_sequences([ids]), attentions=True).attentions
    assert found is not None
    far = found[0][0][:, 0, limit + 1 : limit + 3]
    same = difference(far[:, 0], far[:, 1])
    near = float((found[0][0][:, 0, 1] - found[0][0][:, 0, 2]).abs().max())
    record.holds("the same word at distance 1 and 2", "distinguished", f"differ by {near:.3f}", near > 1e-3)
    record.same("distances beyond the limit share an embedding", "clipped", far[:, 0], far[:, 1])
    record.answer(
        f"They share one embedding: with a limit of {limit}, the first token attends equally to equal words at "
        f"distances {limit + 1} and {limit + 2} (the weights differ by {tiny(same)}). Direction and short distances "
        "are exact, large distances are not distinguished."
    )


def lesson_tree_distances(record: LessonRecorder, words: str, heads: Matrix) -> None:
    parsed, given = words.split(), [int(head) for head in heads[0]]
    if len(parsed) != len(given):
        raise InputError(f"heads: {len(given)} numbers for {len(parsed)} words; pass one for each word.")
    try:
        arcs = tree_distances(given)  # [words, words], negative to the left
    except ValueError as error:
        raise InputError(f"heads: {error}; pass the number of each word's head, and 0 once.") from None
    places = np.arange(len(parsed))
    steps = places[None, :] - places[:, None]
    far = int(np.abs(arcs)[0].argmax()) if record.is_own else 6
    first, second = (0, far) if record.is_own else (1, 7)  # animal and tired
    record.equal(
        f"{parsed[first]} and {parsed[second]}: distance in words, in arcs",
        (6, 1),
        (int(steps[first, second]), int(arcs[first, second])),
    )
    pairs = [(0, len(parsed) - 1)] if record.is_own else [(1, 7), (1, 3), (5, 6), (0, 4)]
    if not record.is_own:
        record.equal("street and was: distance in words, in arcs", (1, 4), (int(steps[5, 6]), int(arcs[5, 6])))
    neighbors = int((np.abs(arcs) == 1).sum()) // 2
    record.equal("pairs that are one arc apart: one less than words", len(parsed) - 1, neighbors, law=True)
    record.equal("reversed pair: the same number with the opposite sign", True, bool((arcs == -arcs.T).all()), law=True)
    chain = tree_distances([*range(2, len(parsed) + 1), 0])  # the head of each word is the next word
    record.equal("a chain as a tree: the distances are those of the text", True, bool((chain == steps).all()), law=True)
    record.show(Grid(parsed, parsed, np.abs(arcs).tolist(), "Distances in arcs", digits=0))
    rows = [(f"{parsed[a]} – {parsed[b]}", abs(int(steps[a, b])), abs(int(arcs[a, b]))) for a, b in pairs]
    record.show(Table(["words", "distance in the text", "distance in the tree"], rows))
    record.answer(
        f"Here at most {int(np.abs(arcs).max())} arcs, compared with {len(parsed) - 1} positions in the text: trees "
        "are shallow. A subject is one arc from its predicate, however long the clause between them is. In a "
        "network with relative positions, these distances can replace the linear ones (parsed_batch)."
    )


PAIR = ("my dog is cute", "he likes playing")


def lesson_input_sum(record: LessonRecorder) -> None:
    encoding = word_tokenizer(*PAIR)(*PAIR)
    tables = {"token": "word", "position": "position", "segment": "token_type"}
    batch = Batch.from_sequences([encoding.ids], [encoding.type_ids])
    model = small_network(40)
    before = model.encode(batch).hidden
    changes = {}
    for name, field in tables.items():
        model = small_network(40)
        with torch.no_grad():
            getattr(model.encoder.embeddings, field).weight.zero_()
        changes[name] = float((model.encode(batch).hidden - before).abs().max())
        record.holds(
            f"without the {name} vector",
            "different input",
            f"outputs change by {changes[name]:.2f}",
            changes[name] > 1e-3,
        )
    embeddings = small_network(40).encoder.embeddings
    assert embeddings.position and embeddings.token_type and embeddings.norm
    parts = [
        embeddings.word(batch.input_ids),
        embeddings.position(batch.position_ids),
        embeddings.token_type(batch.token_type_ids),
    ]
    whole = embeddings(batch.input_ids, batch.position_ids, batch.token_type_ids, torch.float32)
    normed = embeddings.norm(torch.stack(parts).sum(dim=0))
    record.same("input = token + segment + position, normalized", "sum of three", normed, whole)
    record.show(Table(["removed", "largest change of an output"], list(changes.items())))
    swapped = Batch.from_sequences([encoding.ids], [[1 - one for one in encoding.type_ids]])
    still = small_network(40)
    moved = float((still.encode(swapped).hidden - still.encode(batch).hidden).abs().max())
    record.answer(
        f"Yes, with learned embeddings: exchanging A and B changes the outputs by {moved:.2f}. A single text is all "
        "segment A."
    )


def lesson_pair_input(record: LessonRecorder, first: str, second: str, limit: int) -> None:
    tokenizer = word_tokenizer(first, second)
    encoding = tokenizer(first, second)
    record.off(
        "tokens of a pair",
        "[SOS] A <SEP> B <SEP>",
        "[CLS] my dog is cute [SEP] he likes playing [SEP]",
        " ".join(encoding.tokens),
        "some slides write [SOS] and <SEP>; BERT's vocabulary has [CLS] and [SEP]",
    )
    record.equal("types", [0, 0, 0, 0, 0, 0, 1, 1, 1, 1], encoding.type_ids)
    flip = encoding.type_ids.index(1)
    record.equal("the segment changes after the first [SEP]", "[SEP]", encoding.tokens[flip - 1], law=True)
    alone = tokenizer(first)
    record.equal("single text", [0] * len(alone.tokens), alone.type_ids, law=True)
    kinds: list[Kind] = [
        "special" if token.startswith("[") else "second" if one else "first"
        for token, one in zip(encoding.tokens, encoding.type_ids, strict=True)
    ]
    row = [
        Token(text, kind, "B" if one else "A")
        for text, kind, one in zip(encoding.tokens, kinds, encoding.type_ids, strict=True)
    ]
    record.show(Tokens([("", row)]))
    cut = tokenizer(first, second, max_length=limit)
    record.answer(
        f"The longer text is truncated token by token, and the special tokens stay: with at most {limit} tokens the "
        f"pair is {' '.join(cut.tokens)}; {cut.num_truncated} tokens are counted as truncated."
    )


def lesson_length_limit(record: LessonRecorder) -> None:
    base, large = preset("bert-base"), preset("bert-large")
    record.equal("maximum number of tokens", 512, base.max_position_embeddings)
    record.equal("hidden size, base and large", [768, 1024], [base.hidden_size, large.hidden_size])
    model = small_network(20, max_position_embeddings=512)
    record.equal("outputs for 512 tokens", 512, len(model.encode(Batch.from_sequences([[5] * 512])).hidden))
    said = ""
    try:
        model.encode(Batch.from_sequences([[5] * 513]))
    except InputError as error:
        said = str(error)
    record.holds("513 tokens", "too many", said or "accepted", "513" in said and "512" in said)
    rows = [
        (name, one.num_hidden_layers, one.hidden_size, one.num_attention_heads, one.max_position_embeddings)
        for name, one in (("bert-base", base), ("bert-large", large))
    ]
    columns = ["preset", "layers", "width", "heads", "tokens"]
    record.show(Table(columns, rows, right=columns[1:]))
    free = preset("bert-base", positions="sinusoidal", max_position_embeddings=4096)
    record.answer(
        "The table of learned position embeddings has 512 rows, and none for position 513. Sinusoidal positions need "
        f"no learned table, so a network can use {free.max_position_embeddings:,} tokens; long texts can also be split "
        "into windows (predict --long)."
    )
