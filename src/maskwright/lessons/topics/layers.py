"""Features of layers, and semantic search."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from ...core import storage
from ...core.errors import InputError
from ...core.util import plural
from ...inference.embed import NAMED_LAYERS, TextEncoder, choose_layers
from ...inference.search import Searcher
from ...inference.similarity import word_similarities
from ...nn.layers import ScalarMix
from ...report import Bar, Bars, Grid, Table
from ...tasks.evaluation.published import published_table
from ...text.readers.tables import Row
from ...text.words import split_words
from ..inputs import Matrix
from ..recorder import LessonRecorder
from ..small import small_network, word_tokenizer


def lesson_layer_choices(record: LessonRecorder) -> None:
    states = [torch.full((2, 3), float(layer)) for layer in range(13)]  # layer n contains the number n
    table = published_table("conll2003-layers", "paper")
    wanted = {"embeddings": 0.0, "last": 12.0, "second-to-last": 11.0, "sum-all": 78.0, "sum-last-4": 42.0}
    for name, value in wanted.items():
        record.near(
            f"{name}: a component of the vector", value, float(choose_layers(name, 12).apply(states)[0, 0]), digits=0
        )
    joined = choose_layers("concat-last-4", 12)
    record.equal("concat-last-4", [9, 10, 11, 12], joined.apply(states)[0, ::3].int().tolist())
    record.equal(
        "hidden size of BERT-Base",
        {"last": 768, "concat-last-4": 3072},
        {name: choose_layers(name, 12).size(768) for name in ("last", "concat-last-4")},
    )
    scores = {row.name: row.values["Dev F1"] for row in table.rows}
    order = [
        scores[name] for name in ("embeddings", "last", "sum-all", "second-to-last", "sum-last-4", "concat-last-4")
    ]
    record.equal("published dev F1", [91.0, 94.9, 95.5, 95.6, 95.9, 96.1], order)
    doubtful = [row.name for row in table.rows if row.scores["Dev F1"].doubt]
    record.holds(
        "values of the first two rows",
        "(missing in the text)",
        ", ".join(doubtful),
        doubtful == ["embeddings", "last"],
        "these two are from the slide's figure; its text has the other four",
    )
    record.bars(
        "Published: CoNLL-2003 dev F1 of a tagger on frozen layers",
        [(name, scores[name]) for name in NAMED_LAYERS],
        ".1f",
    )
    gain = scores["concat-last-4"] - scores["last"]
    record.answer(
        f"No: in the published table, four concatenated layers are {gain:.1f} points better than the last one, which "
        "is specialized for masked LM. maskwright experiment layers trains the same tagger on all six choices, and on "
        "a scalar mix, on your data."
    )


def lesson_scalar_mix(record: LessonRecorder, shares: Matrix, values: Matrix, scale: float) -> None:
    mix = ScalarMix(3)
    (given,), (wanted,) = values, shares
    layers = [torch.tensor([[value]]) for value in given]
    record.near("initial weights", [1 / 3] * 3, mix.shares().detach(), law=True)
    shown = ", ".join(f"{one:g}" for one in given)
    record.near(f"the mix of {shown}: their mean", sum(given) / 3, float(mix(layers).detach()), of=given, law=True)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([math.log(one) for one in wanted]))
        mix.scale.fill_(scale)
    weights = [one / sum(wanted) for one in wanted]
    record.near("parameters log 2, 0, 0: weights", [0.5, 0.25, 0.25], mix.shares().detach(), digits=2)
    record.near("shares divided by their sum", weights, mix.shares().detach(), digits=2, law=True)
    formula = " + ".join(f"{weight:.2g}·{one:g}" for weight, one in zip(weights, given, strict=True))
    by_hand = scale * sum(weight * one for weight, one in zip(weights, given, strict=True))
    terms = [scale * one for one in given]
    record.near(f"{scale:g} · ({formula})", by_hand, float(mix(layers).detach()), of=terms, digits=2, law=True)
    names = ("embeddings", "layer 1", "layer 2")
    record.bars("Weights of the layers", zip(names, mix.shares().tolist(), strict=True), ".2f")
    mix(layers).sum().backward()
    pulls = mix.weights.grad
    assert pulls is not None
    record.answer(
        "By the gradient, like any parameter: the gradients of the mix with respect to the three parameters are "
        f"{', '.join(f'{one:.2f}' for one in pulls.tolist())}".replace("-", "\N{MINUS SIGN}")
        + ". The softmax keeps the sum of the weights at 1."
    )


def lesson_green(record: LessonRecorder, word: str, first: str, second: str, third: str) -> None:
    texts = (first, second, third)
    for name, one in zip(("first", "second", "third"), texts, strict=True):
        if word.lower() not in one.lower().split():
            raise InputError(f"word: '{word}' is not in the {name} sentence; pass a word of all three.")
    tokenizer = word_tokenizer(*texts)
    model = small_network(tokenizer)
    rows = [Row(text, None, None, number, "lesson") for number, text in enumerate(texts, 1)]
    found = word_similarities(TextEncoder(model, pooling="none"), rows, word)
    assert found.static is not None
    record.near(f"static word embeddings of '{word}'", [1.0] * 9, found.static, digits=1, law=True)
    others = [float(found.matrix[a, b]) for a in range(3) for b in range(a)]
    record.holds(
        f"contextual embeddings of '{word}'", "differ", ", ".join(f"{one:.2f}" for one in others), max(others) < 0.999
    )
    record.show(
        Grid(
            [f"sentence {n}" for n in (1, 2, 3)],
            ["1", "2", "3"],
            found.matrix.tolist(),
            f"Cosine similarities of '{word}' in context",
        ),
        Grid([f"sentence {n}" for n in (1, 2, 3)], ["1", "2", "3"], found.static.tolist(), "of its static embedding"),
    )
    depth = [
        float(word_similarities(TextEncoder(model, layers=layer, pooling="none"), rows, word).matrix[0, 1])
        for layer in (0, 1, 2)
    ]
    record.answer(
        f"The context has more influence in each layer: the cosine similarity of the first two is {depth[0]:.2f} at "
        f"the input (the same word at different positions), {depth[1]:.2f} after one layer, {depth[2]:.2f} after two. "
        "This network is untrained; training has to make similar senses similar. maskwright embed MODEL --matrix "
        "--word green shows this for a trained model."
    )


FILES = {
    "pharmacy.txt": (
        "A friend or relative may collect a prescription on behalf of the patient.",
        "The pharmacy is open from eight in the morning until ten in the evening.",
    ),
    "insurance.txt": ("Claims for medicine that you bought abroad are sent in with the receipt.",),
    "roses.txt": ("Roses are cut in March.",),
}


def lesson_medicine(record: LessonRecorder, query: str) -> None:
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
    model = small_network(tokenizer)
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
