"""Tagging, answers, class imbalance and anomaly detection."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import torch

from ...core.errors import InputError
from ...core.randomness import generator
from ...models.config import ModelConfig
from ...models.probes import AutoencoderHead
from ...nn.crf import LinearChainCrf
from ...nn.embeddings import CharacterWords, words_of
from ...report import Bar, Bars, Grid, Kind, Table, Token, Tokens
from ...tasks.evaluation.metrics import accuracy, f1, pr_auc
from ...tasks.evaluation.rare import choose_threshold
from ...tasks.qa.task import score_answer
from ...tasks.qa.windows import AnswerCandidates, Span, span_scores, trace_answer
from ...tasks.tagging.schemes import agreement, encode_tags, repair, spans
from ..inputs import Matrix
from ..recorder import LessonRecorder
from ..small import word_tokenizer

TAGS = re.compile(r"O|[BI]-\w+")


def lesson_names(record: LessonRecorder, words: str, gold: str, predicted: str) -> None:
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


def lesson_tags_together(record: LessonRecorder, transition: float, matrix: Matrix) -> None:
    tags, words = ["B-PER", "I-PER", "O"], ["Mary", "Ann", "sings"]
    scores = torch.tensor(matrix)  # [words, tags]
    crf = LinearChainCrf(len(tags)).requires_grad_(False)
    crf.transitions[2, 1] = crf.start[1] = transition  # I-PER after O, or at the beginning

    def total(path: tuple[int, ...]) -> float:
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


def lesson_words_of_letters(record: LessonRecorder) -> None:
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


QUESTION = "What is the fashion capital of China?"
CONTEXT = "Shanghai is the largest city of China, and many people there call it the fashion capital of China."


def lesson_answer_trace(record: LessonRecorder) -> None:
    found = trace_answer(QUESTION, CONTEXT, (0, len("Shanghai")))
    record.equal("tokens between whitespace, without the closing [SEP]", 27, found.num_tokens_without_end)
    record.off(
        "input tokens of BERT, tokenized in the same way",
        "27",
        28,
        len(found.tokens),
        "the slide omits the closing [SEP]; BERT's input ends with it",
    )
    record.equal("start, end", "TK10, TK10", f"{found.start}, {found.end}")
    record.equal("answer", "Shanghai", found.answer)
    pieces = trace_answer(QUESTION, CONTEXT, (0, len("Shanghai")), word_tokenizer(QUESTION, CONTEXT))
    record.off(
        "tokens by a tokenizer",
        "27",
        31,
        len(pieces.tokens),
        "the slide tokenizes on whitespace and counts from 1; in a tokenizer, ?, ',' and . are separate tokens",
    )
    kinds: dict[str, Kind] = {"special": "special", "question": "first", "context": ""}
    row = [Token(one.text, "right" if one.name == found.start else kinds[one.part], one.name) for one in found.tokens]
    record.show(Tokens([("", row)]))
    record.answer(
        f"To {pieces.start}: the question mark is a separate token and shifts everything after it by one. A trace "
        "therefore names its tokenization; answers are stored as character offsets of the text, which do not depend "
        "on it."
    )


def lesson_answer_spans(record: LessonRecorder, longest: int, threshold: float, scores: Matrix) -> None:
    start, end = (np.array(row) for row in scores)
    count = len(start)
    allowed = np.ones(count, dtype=bool)
    allowed[0] = False  # [CLS]
    found = span_scores(start, end, allowed, longest)
    first, length = np.unravel_index(int(np.argmax(found)), found.shape)
    last = first + length
    record.equal("the best valid span (words from 0)", "w2 … w5", f"w{first} … w{last}")
    record.near(
        f"its score: start of w{first} + end of w{last}", start[first] + end[last], float(found.max()), law=True
    )
    every = [start[a] + end[b] for a in range(1, count) for b in range(a, min(count, a + longest))]
    record.near(f"the highest of all {len(every)} valid spans", max(every), float(found.max()), law=True)
    record.equal(
        "the best start and the best end, chosen separately", "w6 … w5", f"w{start.argmax()} … w{end.argmax()}"
    )
    ruled_out = int(np.isinf(found).sum())
    record.equal("spans from [CLS], or beyond the text", found.size - len(every), ruled_out, law=True)
    shown = [[None if np.isinf(one) else float(one) for one in row] for row in found]
    record.show(
        Grid(
            [f"w{n}" for n in range(count)],
            [f"{n} words" for n in range(1, found.shape[1] + 1)],
            shown,
            "Scores of spans, by first word and length",
            digits=1,
        )
    )
    answer = AnswerCandidates((Span("w2 … w5", 0, 1, 9.0, 0.9),), no_answer_margin=-3.0, no_answer_probability=0.05)
    record.equal("answered at a threshold of 0", True, answer.best(0.0) is not None, law=True)
    record.equal("no answer at a threshold of −5", True, answer.best(-5.0) is None, law=True)
    is_answered = answer.best(threshold) is not None
    what = f"no answer leads by −3: answered at a threshold of {threshold:g}"
    record.equal(what, threshold >= -3, is_answered, law=True)
    record.answer(
        f"Not always: the best start is w{start.argmax()}, the best end w{end.argmax()}, the best valid span w{first} "
        f"… w{last}. All valid pairs are scored together, and 'no answer' is one more candidate, with a separate "
        "threshold."
    )


def lesson_answer_scores(record: LessonRecorder, answer: str, golds: str) -> None:
    tried = {
        "the Denver Broncos!": (1.0, 1.0),
        "Broncos": (1.0, 1.0),
        "Denver Broncos defeated": (0.0, 0.8),
        "Carolina Panthers": (0.0, 0.0),
    }
    rows = []
    accepted = [one.strip() for one in golds.split(";")]
    for given, slide in ({answer: (0.0, 0.0)} | tried).items():
        exact, f1 = score_answer(given, accepted)
        record.near(f"{given}: exact match, F1", list(slide), [exact, f1], digits=2)
        rows.append((given, exact, f1))
    record.near("no answer to an unanswerable question", [1.0, 1.0], list(score_answer("", [])), digits=1, law=True)
    record.near("the first gold answer itself", [1.0, 1.0], list(score_answer(accepted[0], accepted)))
    record.show(Table(["answer", "exact match", "F1"], rows, note="Gold answers:  " + "; ".join(accepted)))
    single = score_answer(answer, accepted[:1])
    record.answer(
        f"'{answer}' would score {single[0]:.0f} and {single[1]:.2f} if '{accepted[0]}' were the only gold answer. "
        "With the answers of three annotators, the best match counts."
    )


def lesson_imbalance(record: LessonRecorder, rare: float, separation: float) -> None:
    rng = generator(0, "lesson rare")
    rows = []
    always = 0.0
    for share in (0.10, rare):
        gold = (np.arange(2000) < 2000 * share).astype(int)
        never = np.zeros(2000, dtype=int)
        always = accuracy(gold, never)
        true = gold.mean()  # of 2,000 texts
        record.near(f"accuracy of 'never', {share:.0%} rare", 1 - true, always, digits=2, law=True)
        record.near(f"its F1, {share:.0%} rare", 0.0, f1(gold, never), digits=1, law=True)
        ranked = pr_auc(gold, np.ones(2000))
        record.near(f"PR-AUC of a random ranking, {share:.0%} rare", true, ranked, digits=2, law=True)
        scores = rng.normal(gold * separation, 1.0)
        cut = choose_threshold(scores, gold.astype(bool), [str(row) for row in range(2000)]).value
        given, half = (scores > cut).astype(int), (scores > separation).astype(int)
        rows.append((f"{share:.0%}", accuracy(gold, given), f1(gold, given), f1(gold, half), pr_auc(gold, scores)))
        record.holds(
            f"a chosen threshold, {share:.0%} rare",
            "not 0.5",
            f"F1 {f1(gold, given):.3f}, at the middle {f1(gold, half):.3f}",
            f1(gold, given) >= f1(gold, half),
            law=True,
        )
    record.show(Table(["rare", "accuracy", "F1", "F1 at the middle", "PR-AUC"], rows))
    record.bars(
        f"Accuracy with {rare:.0%} rare examples",
        [("majority-class baseline", always), ("the model", rows[-1][1])],
        ".1%",
    )
    record.answer(
        f"Hardly: a model that finds the rare examples has an accuracy of {rows[-1][1]:.1%}, the baseline "
        f"{always:.1%}. Their F1 is {rows[-1][2]:.2f} and 0."
    )


def lesson_reconstruction(record: LessonRecorder, outside: float, threshold: float) -> None:
    head = AutoencoderHead(
        ModelConfig(vocab_size=10, hidden_size=8, num_attention_heads=2, intermediate_size=16)
    ).requires_grad_(False)
    with torch.no_grad():  # a network that reconstructs the first two dimensions, and not the other six
        for part in (head.down, head.up):
            part.weight.zero_()
            part.bias.zero_()
        head.down.weight[0, 0] = head.down.weight[1, 1] = 1.0
        head.up.weight[0, 0] = head.up.weight[1, 1] = 1.0
        head.center.zero_()
        head.log_scale.zero_()
    like = torch.zeros(1, 8)
    like[0, 0], like[0, 1] = 6.0, 6.0
    unlike = torch.zeros(1, 8)
    unlike[0, 5] = outside
    errors = [float(head(one).detach()) for one in (like, unlike)]
    record.equal("width of the bottleneck: a quarter", 2, head.down.weight.shape[0])
    record.near("error of a vector in its subspace", 0.0, errors[0], of=errors, law=True)
    record.near(f"error of a vector outside: {outside:g}² / 8", outside**2 / 8, errors[1], digits=2, law=True)
    verdicts = ["anomaly" if error > threshold else "like the training data" for error in errors]
    record.equal(f"threshold {threshold:g}: inside, outside", "like the training data, anomaly", ", ".join(verdicts))
    head.fit_scale(torch.tensor([[1.0] * 8, [3.0] * 8]))
    record.near("center and scale of 1 and 3", [2.0, 0.0], [float(head.center[0]), float(head.log_scale[0])], digits=1)
    record.show(
        Bars(
            [
                Bar("like the training data", errors[0] + 1e-9, f"{errors[0]:.2f}"),
                Bar("unlike the training data", errors[1], f"{errors[1]:.2f}"),
            ],
            title="Reconstruction error",
        )
    )
    record.answer(
        f"None: it is trained only on the common class, and a large reconstruction error ({errors[1]:.2f} compared "
        f"with {errors[0]:.2f} here) marks an anomaly. The page docs/how-to/imbalance.md compares it with weighted "
        "fine-tuning on real data; maskwright finetune anomaly trains it."
    )
