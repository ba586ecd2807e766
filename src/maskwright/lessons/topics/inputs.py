"""What BERT reads: special tokens, three vectors added, at most 512 tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
            f"without the {name} vector", "another input", f"outputs move by {changes[name]:.2f}", changes[name] > 1e-3
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
    record.same("input = token + segment + position, normed", "sum of three", normed, whole)
    record.show(Table(["left out", "largest change of an output"], list(changes.items())))
    swapped = Batch.from_sequences([encoding.ids], [[1 - one for one in encoding.type_ids]])
    still = small_network(40)
    moved = float((still.encode(swapped).hidden - still.encode(batch).hidden).abs().max())
    record.answer(
        f"Yes, with learned vectors it does: exchanging A and B moves the outputs by {moved:.2f}. A text alone is all "
        "segment A."
    )


def _pair(record: LessonRecorder) -> None:
    from ...report import Kind, Token, Tokens
    from ..small import word_tokenizer

    encoding = word_tokenizer(*PAIR)(*PAIR)
    record.off(
        "tokens of a pair",
        "[SOS] A <SEP> B <SEP>",
        "[CLS] my dog is cute [SEP] he likes playing [SEP]",
        " ".join(encoding.tokens),
        "some slides write [SOS] and <SEP>; BERT's vocabulary has [CLS] and [SEP]",
    )
    record.equal("types", [0, 0, 0, 0, 0, 0, 1, 1, 1, 1], encoding.type_ids)
    flip = encoding.type_ids.index(1)
    record.equal("the types flip behind the first [SEP]", "[SEP]", encoding.tokens[flip - 1])
    alone = word_tokenizer(*PAIR)(PAIR[0])
    record.equal("one text alone", [0] * 6, alone.type_ids)
    kinds: list[Kind] = [
        "special" if token.startswith("[") else "second" if one else "first"
        for token, one in zip(encoding.tokens, encoding.type_ids, strict=True)
    ]
    row = [
        Token(text, kind, "B" if one else "A")
        for text, kind, one in zip(encoding.tokens, kinds, encoding.type_ids, strict=True)
    ]
    record.show(Tokens([("", row)]))
    cut = word_tokenizer(*PAIR)(*PAIR, max_length=8)
    record.answer(
        f"The longer text gives way, token by token, and the special tokens stay: with room for 8 tokens the pair is "
        f"{' '.join(cut.tokens)}; {cut.num_truncated} tokens are counted as cut."
    )


def _limit(record: LessonRecorder) -> None:
    from ...core.errors import InputError
    from ...data.batch import Batch
    from ...models.presets import preset
    from ...report import Table
    from ..small import small_network

    base, large = preset("bert-base"), preset("bert-large")
    record.equal("most tokens", 512, base.max_position_embeddings)
    record.equal("width of a vector, base and large", [768, 1024], [base.hidden_size, large.hidden_size])
    model = small_network(20, max_position_embeddings=512)
    record.equal("512 tokens give vectors", 512, len(model.encode(Batch.from_sequences([[5] * 512])).hidden))
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
        "The table of learned positions has 512 rows, and no row for place 513. With sines and cosines there is no "
        f"table to learn, and a network may take {free.max_position_embeddings:,} tokens; long texts can also be read "
        "in windows (predict --long)."
    )


LESSONS = (
    Lesson(
        "pair-input",
        PART,
        AUTOENCODER,
        "Introducing BERT: segmentation embedding",
        "Two texts in one row",
        "[CLS] stands first and will stand for the whole; [SEP] ends each text. Types say which of the two texts a "
        "token belongs to.",
        ("text.tokenizers.tokenizer_files:set_special_tokens",),
        "What gives way when a pair is too long?",
        _pair,
    ),
    Lesson(
        "input-sum",
        PART,
        APPLICATIONS,
        "BERT Pretraining Task 2: input",
        "Token, segment and position are added",
        "Each token's input is the sum of three learned vectors: which token, which of the two texts, which place. "
        "Then the sum is normed.",
        ("nn.embeddings:Embeddings.forward",),
        "Does the network notice which of two texts is called A?",
        _sum,
    ),
    Lesson(
        "length-limit",
        PART,
        APPLICATIONS,
        "BERT: MLM (input)",
        "512 tokens, and not one more",
        "BERT learns a vector for each of 512 places. A longer text is refused with a reason, or cut, or read in "
        "windows; it is never read beyond the table.",
        ("models.model:Model.check",),
        "Why is there a limit at all?",
        _limit,
    ),
)
