"""Token classification: tags, entities and entity F1."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...core.errors import InputError
from ..inputs import Matrix, matrix, number, text
from ..lesson import APPLICATIONS, FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Tasks"
WORDS = "Albert is going to United States of America ."
GOLD = "B-PER O O O B-LOC I-LOC I-LOC I-LOC O"
MISSED = "B-PER O O O B-LOC I-LOC I-LOC O O"
TAGS = re.compile(r"O|[BI]-\w+")
SCORES = ((0.9, 0.0, 1.0), (0.2, 1.2, 0.8), (0.1, 0.2, 2.0))  # of each tag for each single word


def _tags(record: LessonRecorder, words: str, gold: str, predicted: str) -> None:
    from ...report import Kind, Token, Tokens
    from ...tasks.tagging.schemes import agreement, encode_tags, repair, spans

    text = words.split()
    wanted, missed = (_tags_of(name, tags, len(text)) for name, tags in (("gold", gold), ("predicted", predicted)))
    found = [(one.type, " ".join(text[one.start : one.end])) for one in spans(wanted)]
    record.equal("entities", [("PER", "Albert"), ("LOC", "United States of America")], found)
    record.equal("tags of these entities", " ".join(wanted), " ".join(encode_tags(spans(wanted), len(wanted), "BIO")))
    right = sum(a == b for a, b in zip(wanted, missed, strict=True))
    record.equal("correct tags of the prediction", 8, right)
    score = agreement([wanted], [missed], spans)[""]
    record.near("entity F1 of the prediction", 0.5, score.f1, digits=2)
    both = len(set(spans(wanted)) & set(spans(missed)))
    total = len(spans(wanted)) + len(spans(missed))
    record.near("F1 by hand: 2 · both / (gold + predicted)", 2 * both / total if total else 0.0, score.f1, law=True)
    record.equal("O I-PER repaired", "O B-PER", " ".join(repair(["O", "I-PER"], "BIO")[0]))
    rows = []
    for name, tags in (("gold", wanted), ("predicted", missed)):
        kinds: list[Kind] = [
            "first" if tag.endswith("PER") else "second" if tag.endswith("LOC") else "" for tag in tags
        ]
        rows.append((name, [Token(w, k, t) for w, k, t in zip(text, kinds, tags, strict=True)]))
    record.show(Tokens(rows))
    record.answer(
        f"{right} of {len(wanted)} tags are correct, {right / len(wanted):.0%}, but only complete entities count: "
        f"recall is {both} of {len(spans(wanted))} and precision {both} of {len(spans(missed))}, so F1 is "
        f"{score.f1:.2f}."
    )


def _tags_of(name: str, tags: str, count: int) -> list[str]:
    """Split tags. Raises InputError for another number of tags than words, or a tag of another scheme."""
    found = tags.split()
    wrong = [one for one in found if not TAGS.fullmatch(one)]
    if wrong:
        raise InputError(f"{name}: '{wrong[0]}' is not a BIO tag; pass O, B-TYPE or I-TYPE.")
    if len(found) != count:
        raise InputError(f"{name}: {len(found)} tags for {count} words; pass one for each word.")
    return found


def _together(record: LessonRecorder, transition: float, matrix: Matrix) -> None:
    from itertools import product

    import torch

    from ...nn.crf import LinearChainCrf
    from ...report import Grid

    tags, words = ["B-PER", "I-PER", "O"], ["Mary", "Ann", "sings"]
    scores = torch.tensor(matrix)  # [words, tags]
    crf = LinearChainCrf(len(tags)).requires_grad_(False)
    crf.transitions[2, 1] = crf.start[1] = transition  # I-PER after O, or at the beginning

    def total(path: tuple[int, ...]) -> float:
        """Return the score of a tag sequence, summed by hand."""
        pairs = sum(float(crf.transitions[a, b]) for a, b in zip(path, path[1:], strict=False))
        return float(crf.start[path[0]]) + sum(float(scores[n, tag]) for n, tag in enumerate(path)) + pairs

    every = {path: total(path) for path in product(range(len(tags)), repeat=len(words))}
    best = crf.best_scores(scores, [len(words)])  # [words, tags]
    alone, found = scores.argmax(dim=1).tolist(), best.argmax(dim=1).tolist()
    record.equal("each word separately", "O I-PER O", " ".join(tags[tag] for tag in alone))
    record.equal("jointly, with the CRF", "B-PER I-PER O", " ".join(tags[tag] for tag in found))
    record.near(
        f"its score is the highest of all {len(every)}", max(every.values()), float(best[0, found[0]]), law=True
    )
    z = torch.tensor(list(every.values())).logsumexp(dim=0)
    wanted = [float(z) - every[path] for path in (tuple(found), tuple(alone))]
    losses = torch.cat([crf.losses(scores, torch.tensor(path), [len(words)]) for path in (found, alone)])
    record.near("−log p of both, summed over all tag sequences", wanted, losses, of=list(every.values()), law=True)
    shares = [f"{p:.0%}" for p in (-losses).exp().tolist()]
    record.show(Grid(words, tags, scores.tolist(), "Scores of each word"))
    record.show(Grid(words, tags, best.tolist(), "The best tag sequence through each tag"))
    flat = LinearChainCrf(len(tags)).requires_grad_(False)
    same = flat.best_scores(scores, [len(words)]).argmax(dim=1).tolist() == alone
    record.equal("with transition scores 0: as separately", True, same, law=True)
    record.answer(
        f"Because the CRF scores whole tag sequences: I-PER after O, or at the beginning, costs {-transition:g} "
        f"points, so the best sequence has {shares[0]}, that of the best single tags {shares[1]}. The sum over all "
        f"{len(every)} sequences is computed word by word, so a sentence of 50 words needs 50 steps instead of 3 to "
        "the power of 50."
    )


def _letters(record: LessonRecorder) -> None:
    import torch

    from ...nn.embeddings import CharacterWords, words_of
    from ...report import Bar, Bars

    text = "cats cat's stac "
    letters = sorted(set(text) - {" "})
    ids = torch.tensor([0 if one == " " else letters.index(one) + 1 for one in text])
    words = words_of(ids, [len(text)], space_id=0)
    names = text.split()
    record.equal("words, 16 characters", 3, words.lengths[0])
    owners = [[place for place, one in enumerate(words.of_token.tolist()) if one == word] for word in range(3)]
    record.equal("characters of each word", names, ["".join(text[place] for place in own).strip() for own in owners])
    draws = torch.Generator().manual_seed(0)
    filters = CharacterWords(8, 96, 3).requires_grad_(False)
    for weight in filters.parameters():
        weight.copy_(torch.randn(weight.shape, generator=draws) * (0.3 if weight.dim() == 2 else 0))
    table = torch.randn(len(letters) + 1, 8, generator=draws)
    vectors = filters(table[ids], words)  # [words, 96]
    likeness = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:]).tolist()
    record.holds("cats is more similar to cat's than to stac", "similar spelling",
                f"{likeness[0]:.2f} and {likeness[1]:.2f}", likeness[0] > likeness[1])  # fmt: skip
    single = CharacterWords(8, 96, 1).requires_grad_(False)
    for weight in single.parameters():
        weight.copy_(torch.randn(weight.shape, generator=draws) * (0.3 if weight.dim() == 2 else 0))
    by_letter = single(table[ids], words)
    record.same("filters of width 1: cats and stac", "the same", by_letter[0], by_letter[2])
    largest = torch.tanh(single.filters[0](table[ids[:4]]).amax(dim=0))  # the maximum of each filter
    gate = torch.sigmoid(largest @ single.gate.weight.T)
    by_hand = gate * torch.relu(largest @ single.change.weight.T) + (1 - gate) * largest
    record.same("cats: max-pooling and highway layer, by hand", "max-pooling", by_letter[0], by_hand)
    longer = torch.cat([ids, ids])
    again = filters(table[longer], words_of(longer, [len(ids), len(ids)], space_id=0))
    record.same("the same words in another text", "the same", again[3:], vectors)
    bars = [Bar(f"cats, {name}", max(one, 0.0), f"{one:.2f}") for name, one in zip(names[1:], likeness, strict=True)]
    record.show(Bars(bars, title="Cosine similarity of character-level embeddings, untrained filters"))
    record.answer(
        f"Its characters: no word is unknown, and a new ending keeps the word similar ({likeness[0]:.2f}). Filters of "
        "width two and three encode the order of characters: with filters of width one, cats and stac are equal."
    )


LESSONS = (
    Lesson(
        "names",
        PART,
        FRONTIERS,
        "Usage III: tagging",
        "BIO tags",
        "Each word has a tag: B begins an entity, I continues it, O is outside. Only complete entities are counted.",
        ("tasks.tagging.schemes:spans", "tasks.tagging.schemes:agreement"),
        "One wrong tag of nine: what is the entity F1?",
        _tags,
        (
            text("predicted", "Predicted tags", MISSED, 1, 200),
            text("gold", "Gold tags", GOLD, 1, 200),
            text("words", "Words", WORDS),
        ),
    ),
    Lesson(
        "tags-together",
        PART,
        APPLICATIONS,
        "CoNLL-2003: BiLSTM, characters, CRF",
        "Conditional random field",
        "A conditional random field adds transition scores of adjacent tags to the scores of the words, and predicts "
        "the best tag sequence. The lesson compares its sums with an enumeration of all sequences.",
        ("nn.crf:LinearChainCrf.best_scores", "nn.crf:LinearChainCrf.losses"),
        "Why is the prediction not always the best tag of each word?",
        _together,
        (
            number("transition", "Score of I-PER after O, or at the beginning", -3, -10, 3),
            matrix("matrix", "Scores of B-PER, I-PER and O, one row per word", SCORES, -10, 10, rows=3, columns=3),
        ),
    ),
    Lesson(
        "words-of-letters",
        PART,
        APPLICATIONS,
        "CoNLL-2003: BiLSTM, characters, CRF",
        "Character-level word embeddings",
        "Convolutions over one, two and three characters are max-pooled over the word. The tagger of the slide uses "
        "such embeddings in addition to word embeddings.",
        ("nn.embeddings:words_of", "nn.embeddings:CharacterWords.forward"),
        "How does such a network represent an unknown word?",
        _letters,
    ),
)
