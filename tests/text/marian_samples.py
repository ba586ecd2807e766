"""Marian folders for tests, as they are published: two SentencePiece models, a table of ids, settings, weights."""

import io
import json

from text.tokenizer_samples import CORPUS

TARGETS = [
    "Der alte Mann erzählte eine ältere Geschichte; die älteste von allen war die feinste.",
    "Sie ging die unterste Straße entlang, langsam, und ging zurück.",
    "Lernen zu lernen ist das Schönste: wer es gelernt hat, verlernt es nie!",
    "Im Jahr 1999 verkaufte der Wirt (ein Franzose) 3,5 Tonnen Crème brûlée.",
    "Größe, Maß, Übermut, Öl; groß größer am größten, klein kleiner am kleinsten",
]
TOKENS = ("</s>", "<unk>", "<pad>")


def pieces(texts, **options):
    import sentencepiece

    stream = io.BytesIO()
    settings = {"vocab_size": 120, "model_type": "unigram", "character_coverage": 0.98, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 20), model_writer=stream, minloglevel=2, **(settings | options)
    )
    return stream.getvalue()


def listed(model):
    import sentencepiece

    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [library.id_to_piece(id) for id in range(len(library))]


def marian_files(folder, codes=(), two=False, **options):
    """Write the tokenizer of a Marian model; returns the IDs of the sources.

    codes: target language codes; two: each side has a separate table.
    """
    folder.mkdir(parents=True, exist_ok=True)
    source, target = pieces(CORPUS, **options), pieces(TARGETS, **options)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    sides = [listed(source), listed(target)]
    together = [piece for both in zip_all(*sides) for piece in both]
    tables = [table(one, codes, two) for one in (sides if two else [together])]
    (folder / "vocab.json").write_text(json.dumps(tables[0]), encoding="utf-8")
    if two:
        (folder / "target_vocab.json").write_text(json.dumps(tables[1]), encoding="utf-8")
    settings = {"source_lang": "en", "target_lang": "de", **({"separate_vocabs": True} if two else {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return tables[0]


def zip_all(*sides):
    """SentencePiece tokens of both sides in turn, so that the order of the table is that of neither model."""
    longest = max(map(len, sides))
    return [tuple(side[place] for side in sides if place < len(side)) for place in range(longest)]


def table(found, codes, two):
    """Ids: what ends and what is unknown first, padding mostly last; some tokens of the model are missing."""
    kept = [piece for number, piece in enumerate(dict.fromkeys(found)) if piece not in TOKENS and number % 17]
    names = ["</s>", "<unk>", *(f">>{code}<<" for code in codes), *kept]
    names.insert(2 if two else len(names), "<pad>")  # two tables have it in the same place
    return {name: id for id, name in enumerate(names)}
