"""Names in a sentence: tags, entities, and how they are counted."""

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
    record.equal("tags that are right without 'America'", 8, right)
    score = agreement([GOLD], [missed], spans)[""]
    record.near("entity F1 of the same answer", 0.5, score.f1, digits=2)
    record.equal("O I-PER repaired", "O B-PER", " ".join(repair(["O", "I-PER"], "BIO")[0]))
    rows = []
    for name, tags in (("right", GOLD), ("without America", missed)):
        kinds: list[Kind] = [
            "first" if tag.endswith("PER") else "second" if tag.endswith("LOC") else "" for tag in tags
        ]
        rows.append((name, [Token(w, k, t) for w, k, t in zip(WORDS, kinds, tags, strict=True)]))
    record.show(Tokens(rows))
    record.answer(
        f"{right} of {len(GOLD)} tags are right, {right / len(GOLD):.0%}, but United States of is not the place that "
        f"was meant: 1 of 2 entities is found and 1 of 2 found ones is right, so F1 is {score.f1:.2f}."
    )


def _together(record: LessonRecorder) -> None:
    from itertools import product

    import torch

    from ...nn.crf import LinearChainCrf
    from ...report import Grid

    tags, words = ["B-PER", "I-PER", "O"], ["Mary", "Ann", "sings"]
    scores = torch.tensor([[0.9, 0.0, 1.0], [0.2, 1.2, 0.8], [0.1, 0.2, 2.0]])  # of each tag for each word alone
    crf = LinearChainCrf(len(tags)).requires_grad_(False)
    crf.transitions[2, 1] = crf.start[1] = -3.0  # I-PER after O, or at the beginning

    def total(path: tuple[int, ...]) -> float:
        """The score of a row of tags, added up by hand."""
        pairs = sum(float(crf.transitions[a, b]) for a, b in zip(path, path[1:], strict=False))
        return float(crf.start[path[0]]) + sum(float(scores[n, tag]) for n, tag in enumerate(path)) + pairs

    every = {path: total(path) for path in product(range(len(tags)), repeat=len(words))}
    best = crf.best_scores(scores, [len(words)])  # [words, tags]
    alone, found = scores.argmax(dim=1).tolist(), best.argmax(dim=1).tolist()
    record.equal("each word by itself", "O I-PER O", " ".join(tags[tag] for tag in alone))
    record.equal("judged together", "B-PER I-PER O", " ".join(tags[tag] for tag in found))
    record.near(f"its score is the best of all {len(every)}", max(every.values()), float(best[0, found[0]]))
    z = torch.tensor(list(every.values())).logsumexp(dim=0)
    wanted = [float(z) - every[path] for path in (tuple(found), tuple(alone))]
    losses = torch.cat([crf.losses(scores, torch.tensor(path), [len(words)]) for path in (found, alone)])
    record.near("−log p of both, all rows of tags added up", wanted, losses)
    shares = [f"{p:.0%}" for p in (-losses).exp().tolist()]
    record.show(Grid(words, tags, scores.tolist(), "Scores of each word alone"))
    record.show(Grid(words, tags, best.tolist(), "The best row of tags through each"))
    flat = LinearChainCrf(len(tags)).requires_grad_(False)
    same = flat.best_scores(scores, [len(words)]).argmax(dim=1).tolist() == alone
    record.equal("with scores of neighbors 0: as each alone", True, same)
    record.answer(
        "Because a row is judged as a row. 'Mary' alone is O by a tenth of a point; with 'Ann' as I-PER, which cannot "
        f"follow O, B-PER wins: {shares[0]} against {shares[1]}. The sum over all {len(every)} rows is made word by "
        "word, so a sentence of 50 words costs 50 steps and not 3 to the power of 50."
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
    record.equal("words of 16 characters", 3, words.lengths[0])
    owners = [[place for place, one in enumerate(words.of_token.tolist()) if one == word] for word in range(3)]
    record.equal("each with its letters", names, ["".join(text[place] for place in own).strip() for own in owners])
    draws = torch.Generator().manual_seed(0)
    filters = CharacterWords(8, 96, 3).requires_grad_(False)
    for weight in filters.parameters():
        weight.copy_(torch.randn(weight.shape, generator=draws) * (0.3 if weight.dim() == 2 else 0))
    table = torch.randn(len(letters) + 1, 8, generator=draws)
    vectors = filters(table[ids], words)  # [words, 96]
    likeness = torch.nn.functional.cosine_similarity(vectors[:1], vectors[1:]).tolist()
    record.holds("cats is nearer to cat's than to stac", "alike by spelling",
                f"{likeness[0]:.2f} and {likeness[1]:.2f}", likeness[0] > likeness[1])  # fmt: skip
    single = CharacterWords(8, 96, 1).requires_grad_(False)
    for weight in single.parameters():
        weight.copy_(torch.randn(weight.shape, generator=draws) * (0.3 if weight.dim() == 2 else 0))
    by_letter = single(table[ids], words)
    record.same("filters of one letter: cats and stac", "the same", by_letter[0], by_letter[2])
    largest = torch.tanh(single.filters[0](table[ids[:4]]).amax(dim=0))  # the largest answer of each filter
    gate = torch.sigmoid(largest @ single.gate.weight.T)
    by_hand = gate * torch.relu(largest @ single.change.weight.T) + (1 - gate) * largest
    record.same("cats: the largest answers and the highway, by hand", "the largest counts", by_letter[0], by_hand)
    longer = torch.cat([ids, ids])
    again = filters(table[longer], words_of(longer, [len(ids), len(ids)], space_id=0))
    record.same("the same words in another text", "the same", again[3:], vectors)
    bars = [Bar(f"cats, {name}", max(one, 0.0), f"{one:.2f}") for name, one in zip(names[1:], likeness, strict=True)]
    record.show(Bars(bars, title="Cosine of vectors made of letters, filters not trained"))
    record.answer(
        f"Its letters: no word is unknown, and a new ending is still near the word ({likeness[0]:.2f}). The order of "
        "letters is seen by filters of two and three: with filters of one letter cats and stac are the same."
    )


LESSONS = (
    Lesson(
        "names",
        PART,
        FRONTIERS,
        "Usage III: tagging",
        "B, I and O spell entities",
        "Each word gets a tag: B begins a name, I goes on with it, O is outside. What counts is the whole name.",
        ("tasks.tagging.schemes:spans", "tasks.tagging.schemes:agreement"),
        "One wrong tag in nine: how good is the answer?",
        _tags,
    ),
    Lesson(
        "tags-together",
        PART,
        APPLICATIONS,
        "CoNLL-2003: BiLSTM, characters, CRF",
        "Tags that are judged together",
        "A conditional random field adds a score for each two neighboring tags to those of the words, and takes the "
        "best row of tags. Its sums over all rows are compared with all of them, written out.",
        ("nn.crf:LinearChainCrf.best_scores", "nn.crf:LinearChainCrf.losses"),
        "Why is a word's best tag not always the one that it gets?",
        _together,
    ),
    Lesson(
        "words-of-letters",
        PART,
        APPLICATIONS,
        "CoNLL-2003: BiLSTM, characters, CRF",
        "A word is what its letters make of it",
        "Filters look at one, two and three neighboring letters, and of each the largest answer in the word is kept. "
        "The tagger of the slide reads words so, beside a table.",
        ("nn.characters:words_of", "nn.characters:CharacterWords.forward"),
        "What does such a network know of a word that it has never seen?",
        _letters,
    ),
)
