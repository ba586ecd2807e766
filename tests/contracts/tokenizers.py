"""The contract of tokenizer kinds: ids that fit, files that give the same ids, no text that changes another's."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from inference.samples import TEXTS
from maskwright.core import registry
from maskwright.text.tokenizers.tokenizer import Tokenizer

VOCAB_SIZE = 400
PROBES = [*TEXTS, "a text of words that were never seen", "don't  stop\tnow"]


@cache
def _trained(name: str, entry: object) -> Tokenizer:
    return Tokenizer.train_from_iterator(iter(TEXTS), name, VOCAB_SIZE)


def trained(name: str) -> Tokenizer:
    """A tokenizer of this kind over the sample texts, made once for each entry."""
    return _trained(name, registry.resolve("tokenizer", name))


def has_its_shapes(name: str, folder: Path) -> None:
    """IDs inside the vocabulary, special tokens, offsets inside the text; known words are decoded."""
    tokenizer = trained(name)
    assert tokenizer.vocab_size <= VOCAB_SIZE
    roles = [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
    assert None not in roles and len(set(roles)) == len(roles)
    for text in PROBES:
        encoding = tokenizer(text)
        assert len(encoding.ids) == len(encoding.tokens) == len(encoding.offsets) == len(encoding.type_ids)
        assert all(0 <= index < tokenizer.vocab_size for index in encoding.ids)
        assert (encoding.ids[0], encoding.ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
        assert all(0 <= start <= stop <= len(text) for start, stop in encoding.offsets)
    ids = tokenizer(TEXTS[1]).ids
    assert tokenizer.decode(ids).replace(" ", "") == TEXTS[1].replace(" ", "")


def packs(name: str, folder: Path) -> None:
    """A single text has the same IDs as in a batch, on the fast path and on the full one."""
    tokenizer = trained(name)
    alone = [tokenizer(text).ids for text in PROBES]
    assert [encoding.ids for encoding in tokenizer.encode_batch(PROBES)] == alone
    assert tokenizer.encode_ids(PROBES)[0] == alone
    batch = tokenizer.batch(PROBES)
    assert [ids.tolist() for ids in batch.input_ids.split(batch.lengths)] == alone


def travels(name: str, folder: Path) -> None:
    """Saved and loaded it gives the same ids, and the same files again."""
    tokenizer = trained(name)
    tokenizer.save(folder / "tokenizer")
    loaded = Tokenizer.load(folder / "tokenizer")
    assert [loaded(text).ids for text in PROBES] == [tokenizer(text).ids for text in PROBES]
    assert (loaded.kind, loaded.files()) == (name, tokenizer.files())


def repeats(name: str, folder: Path) -> None:
    """Training twice on one text gives the same files."""
    again = Tokenizer.train_from_iterator(iter(TEXTS), name, VOCAB_SIZE)
    assert again.files() == trained(name).files()


TOKENIZER = {
    "shapes": has_its_shapes,
    "packing": packs,
    "saving": travels,
    "seed": repeats,
}
