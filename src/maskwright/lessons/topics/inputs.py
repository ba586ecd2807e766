"""The input of BERT: special tokens, the sum of three embeddings, at most 512 tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs import integer, text
from ..lesson import APPLICATIONS, AUTOENCODER, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Positions and input"
PAIR = ("my dog is cute", "he likes playing")


def _sum(record: LessonRecorder) -> None:
    import torch

    from ...data.batch import Batch
    from ...report import Table
    from ..small import small_network, word_tokenizer

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


def _pair(record: LessonRecorder, first: str, second: str, limit: int) -> None:
    from ...report import Kind, Token, Tokens
    from ..small import word_tokenizer

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


def _limit(record: LessonRecorder) -> None:
    from ...core.errors import InputError
    from ...data.batch import Batch
    from ...models.presets import preset
    from ...report import Table
    from ..small import small_network

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


LESSONS = (
    Lesson(
        "pair-input",
        PART,
        AUTOENCODER,
        "Introducing BERT: segmentation embedding",
        "Two texts in one sequence",
        "[CLS] is first and represents the whole sequence; [SEP] ends each text. Segment IDs mark the text of each "
        "token.",
        ("text.tokenizers.tokenizer_files:set_special_tokens",),
        "What is truncated if a pair is too long?",
        _pair,
        (
            text("first", "Text A", PAIR[0]),
            text("second", "Text B", PAIR[1]),
            integer("limit", "Maximum number of tokens", 8, 5, 64),
        ),
    ),
    Lesson(
        "input-sum",
        PART,
        APPLICATIONS,
        "BERT Pretraining Task 2: input",
        "Token, segment and position embeddings are added",
        "Each token's input is the sum of three learned embeddings: token, segment and position. The sum is then "
        "normalized.",
        ("nn.embeddings:Embeddings.forward",),
        "Does the order of segments A and B affect the network?",
        _sum,
    ),
    Lesson(
        "length-limit",
        PART,
        APPLICATIONS,
        "BERT: MLM (input)",
        "At most 512 tokens",
        "BERT learns an embedding for each of 512 positions. A longer text is rejected with an error, truncated, or "
        "split into windows.",
        ("models.model:Model.check",),
        "Why is there a limit?",
        _limit,
    ),
)
