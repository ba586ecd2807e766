"""Semantic search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.util import plural
from ..inputs import text
from ..lesson import FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Features and meaning"
QUERY = "Can you get medicine for someone pharmacy"
FILES = {
    "pharmacy.txt": (
        "A friend or relative may collect a prescription on behalf of the patient.",
        "The pharmacy is open from eight in the morning until ten in the evening.",
    ),
    "insurance.txt": ("Claims for medicine that you bought abroad are sent in with the receipt.",),
    "roses.txt": ("Roses are cut in March.",),
}


def _medicine(record: LessonRecorder, query: str) -> None:
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import numpy as np

    from ...core import storage
    from ...inference.embed import TextEncoder
    from ...inference.search import Searcher
    from ...report import Bar, Bars, Table
    from ...text.words import split_words
    from ..small import small_network, word_tokenizer

    def words(text: str) -> set[str]:
        return {text[start:end].lower() for start, end in split_words(text)}

    passages = [passage for file in FILES.values() for passage in file]
    shared = {passage: sorted(words(passage) & words(query)) for passage in passages}
    answer, *others = passages
    record.equal("words of the query in the relevant passage", 0, len(shared[answer]))
    record.equal(
        "in the two others", "pharmacy; for medicine you", "; ".join(" ".join(shared[one]) for one in others[:2])
    )
    tokenizer = word_tokenizer(query, *passages)
    model = small_network(tokenizer.vocab_size)
    model.tokenizer = tokenizer
    encoder = TextEncoder(model)
    with TemporaryDirectory() as folder:
        for name, texts in FILES.items():
            storage.write_text(Path(folder) / name, "\n\n".join(texts) + "\n")
        searcher = Searcher(encoder)
        hits, same = searcher.search(folder, [query, answer], top_k=len(passages))
        read = {file: Path(folder, file).read_text(encoding="utf-8") for file in FILES}
    vectors = encoder.vectors([query, *passages]).astype(float)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = dict(zip(passages, (unit[1:] @ unit[0]).tolist(), strict=True))
    record.equal("compared passages: all", len(passages), len(hits), law=True)
    ranked = [one.score for one in hits]
    by_hand = [cosines[one.passage.text] for one in hits]
    record.near("scores: cosine similarities, by hand", by_hand, ranked, of=[1.0], law=True)
    record.equal("most similar first", True, ranked == sorted(ranked, reverse=True), law=True)
    record.equal("top result for a passage as the query", answer, same[0].passage.text, law=True)
    record.near("its score", 1.0, same[0].score, law=True)
    found = [read[Path(one.file).name][one.passage.start : one.passage.end] for one in hits]
    is_same = found == [one.passage.text for one in hits]
    record.equal("each passage is in its file at the offsets of the hit", True, is_same, law=True)
    rows = [(one.passage.text, Path(one.file).name, ", ".join(shared[one.passage.text]) or "none") for one in hits]
    record.show(Table(["passage", "file", "shared words"], rows))
    bars = [Bar(one.passage.text, max(one.score, 0.0), f"{one.score:.3f}") for one in hits]
    record.show(Bars(bars, title="Cosine similarity to the query, untrained network"))
    place = [one.passage.text for one in hits].index(answer) + 1
    record.answer(
        f"The passage about collecting a prescription shares {plural(len(shared[answer]), 'word', 'words')} with the "
        f"query. With random weights, its rank is {place} of {len(hits)}; training moves it to the first. For the "
        "query of the slide, its similarity with MiniLM is 0.581, and that of the two that share words with the query "
        "0.420 and 0.388 (docs/how-to/search.md)."
    )


LESSONS = (
    Lesson(
        "medicine",
        PART,
        FRONTIERS,
        "BERT in Google Search",
        "Can you get medicine for someone?",
        "Semantic search encodes the query and each passage as embeddings, and ranks by cosine similarity. The search "
        "is exact: every passage of a folder is compared.",
        ("inference.search:Searcher.search",),
        "Would counting shared words find the passage?",
        _medicine,
        (text("query", "Query", QUERY, 1, 40),),
    ),
)
