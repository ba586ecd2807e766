"""Token classification: tags, entities and entity F1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Tasks"
WORDS = ["Albert", "is", "going", "to", "United", "States", "of", "America", "."]
GOLD = ["B-PER", "O", "O", "O", "B-LOC", "I-LOC", "I-LOC", "I-LOC", "O"]


def _tags(record: LessonRecorder) -> None:
    from ...report import Kind, Token, Tokens
    from ...tasks.tagging.schemes import agreement, encode_tags, repair, spans

    found = [(one.type, " ".join(WORDS[one.start : one.end])) for one in spans(GOLD)]
    record.equal("entities", [("PER", "Albert"), ("LOC", "United States of America")], found)
    record.equal("tags of these entities", " ".join(GOLD), " ".join(encode_tags(spans(GOLD), len(GOLD), "BIO")))
    missed = [*GOLD[:7], "O", "O"]
    right = sum(a == b for a, b in zip(GOLD, missed, strict=True))
    record.equal("correct tags without 'America'", 8, right)
    score = agreement([GOLD], [missed], spans)[""]
    record.near("entity F1 of the same prediction", 0.5, score.f1, digits=2)
    record.equal("O I-PER repaired", "O B-PER", " ".join(repair(["O", "I-PER"], "BIO")[0]))
    rows = []
    for name, tags in (("right", GOLD), ("without America", missed)):
        kinds: list[Kind] = [
            "first" if tag.endswith("PER") else "second" if tag.endswith("LOC") else "" for tag in tags
        ]
        rows.append((name, [Token(w, k, t) for w, k, t in zip(WORDS, kinds, tags, strict=True)]))
    record.show(Tokens(rows))
    record.answer(
        f"{right} of {len(GOLD)} tags are correct, {right / len(GOLD):.0%}, but 'United States of' is not the gold "
        f"entity: recall is 1 of 2 and precision 1 of 2, so F1 is {score.f1:.2f}."
    )


def _together(record: LessonRecorder) -> None:
    from itertools import product

    import torch

    from ...nn.crf import LinearChainCrf
    from ...report import Grid

    tags, words = ["B-PER", "I-PER", "O"], ["Mary", "Ann", "sings"]
    scores = torch.tensor([[0.9, 0.0, 1.0], [0.2, 1.2, 0.8], [0.1, 0.2, 2.0]])  # of each tag for each single word
    crf = LinearChainCrf(len(tags)).requires_grad_(False)
    crf.transitions[2, 1] = crf.start[1] = -3.0  # I-PER after O, or at the beginning

    def total(path: tuple[int, ...]) -> float:
        """Return the score of a tag sequence, summed by hand."""
        pairs = sum(float(crf.transitions[a, b]) for a, b in zip(path, path[1:], strict=False))
        return float(crf.start[path[0]]) + sum(float(scores[n, tag]) for n, tag in enumerate(path)) + pairs

    every = {path: total(path) for path in product(range(len(tags)), repeat=len(words))}
    best = crf.best_scores(scores, [len(words)])  # [words, tags]
    alone, found = scores.argmax(dim=1).tolist(), best.argmax(dim=1).tolist()
    record.equal("each word separately", "O I-PER O", " ".join(tags[tag] for tag in alone))
    record.equal("jointly, with the CRF", "B-PER I-PER O", " ".join(tags[tag] for tag in found))
    record.near(f"its score is the highest of all {len(every)}", max(every.values()), float(best[0, found[0]]))
    z = torch.tensor(list(every.values())).logsumexp(dim=0)
    wanted = [float(z) - every[path] for path in (tuple(found), tuple(alone))]
    losses = torch.cat([crf.losses(scores, torch.tensor(path), [len(words)]) for path in (found, alone)])
    record.near("−log p of both, summed over all tag sequences", wanted, losses)
    shares = [f"{p:.0%}" for p in (-losses).exp().tolist()]
    record.show(Grid(words, tags, scores.tolist(), "Scores of each word"))
    record.show(Grid(words, tags, best.tolist(), "The best tag sequence through each tag"))
    flat = LinearChainCrf(len(tags)).requires_grad_(False)
    same = flat.best_scores(scores, [len(words)]).argmax(dim=1).tolist() == alone
    record.equal("with transition scores 0: as separately", True, same)
    record.answer(
        "Because the CRF scores whole tag sequences. Separately, 'Mary' is O by a tenth of a point; with 'Ann' as "
        f"I-PER, which cannot follow O, B-PER wins: {shares[0]} compared with {shares[1]}. The sum over all "
        f"{len(every)} sequences is computed word by word, so a sentence of 50 words needs 50 steps instead of 3 to "
        "the power of 50."
    )


def _letters(record: LessonRecorder) -> None:
    import torch

    from ...nn.characters import CharacterWords, words_of
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
    ),
    Lesson(
        "words-of-letters",
        PART,
        APPLICATIONS,
        "CoNLL-2003: BiLSTM, characters, CRF",
        "Character-level word embeddings",
        "Convolutions over one, two and three characters are max-pooled over the word. The tagger of the slide uses "
        "such embeddings in addition to word embeddings.",
        ("nn.characters:words_of", "nn.characters:CharacterWords.forward"),
        "How does such a network represent an unknown word?",
        _letters,
    ),
)
