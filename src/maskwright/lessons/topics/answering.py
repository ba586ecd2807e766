"""Answers as pieces of a text: tokens that begin and end them, and how they are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, AUTOENCODER, FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Tasks"
QUESTION = "What is the fashion capital of China?"
CONTEXT = "Shanghai is the largest city of China, and many people there call it the fashion capital of China."
GOLDS = ("Denver Broncos", "the Denver Broncos", "Broncos")


def _trace(record: LessonRecorder) -> None:
    from ...report import Kind, Token, Tokens
    from ...tasks.qa.trace import trace_answer
    from ..small import word_tokenizer

    found = trace_answer(QUESTION, CONTEXT, (0, len("Shanghai")))
    record.equal("tokens split at whitespace, without the closing [SEP]", 27, found.num_tokens_without_end)
    record.off(
        "tokens that BERT reads, split in the same way",
        "27",
        28,
        len(found.tokens),
        "the slide leaves the closing [SEP] out; BERT's input ends with it",
    )
    record.equal("start, end", "TK10, TK10", f"{found.start}, {found.end}")
    record.equal("answer", "Shanghai", found.answer)
    pieces = trace_answer(QUESTION, CONTEXT, (0, len("Shanghai")), word_tokenizer(QUESTION, CONTEXT))
    record.off(
        "tokens by a tokenizer",
        "27",
        31,
        len(pieces.tokens),
        "the slide splits at whitespace and counts from 1; a tokenizer makes ?, ',' and . separate tokens",
    )
    kinds: dict[str, Kind] = {"special": "special", "question": "first", "context": ""}
    row = [Token(one.text, "right" if one.name == found.start else kinds[one.part], one.name) for one in found.tokens]
    record.show(Tokens([("", row)]))
    record.answer(
        f"To {pieces.start}: the question mark is a token of its own and moves everything behind it by one. So a "
        "trace has to say which splitter it counts by; answers are kept as characters of the text, which no splitter "
        "moves."
    )


def _spans(record: LessonRecorder) -> None:
    import numpy as np

    from ...report import Grid
    from ...tasks.qa.spans import AnswerCandidates, Span, span_scores

    start = np.array([0.0, 0.1, 5.0, 0.2, 2.0, 0.3, 6.0, 0.1])
    end = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 4.0, 0.4, 0.2])
    allowed = np.ones(8, dtype=bool)
    allowed[0] = False  # [CLS]
    scores = span_scores(start, end, allowed, 4)
    first, length = np.unravel_index(int(np.argmax(scores)), scores.shape)
    record.equal("the best valid span (words from 0)", "w2 … w5", f"w{first} … w{first + length}")
    record.near("its score: start 5 + end 4", 9.0, float(scores.max()), digits=1)
    record.equal("the best start and the best end alone", "w6 … w5", f"w{start.argmax()} … w{end.argmax()}")
    ruled_out = int(np.isinf(scores).sum())
    record.equal("spans from [CLS], or beyond the text", 4 + 3 + 2 + 1, ruled_out)
    shown = [[None if np.isinf(one) else float(one) for one in row] for row in scores]
    record.show(
        Grid(
            [f"w{n}" for n in range(8)],
            [f"{n} words" for n in range(1, 5)],
            shown,
            "Scores of spans, by first word and length",
            digits=1,
        )
    )
    answer = AnswerCandidates((Span("w2 … w5", 0, 1, 9.0, 0.9),), no_answer_margin=-3.0, no_answer_probability=0.05)
    record.equal("answered at a threshold of 0", True, answer.best(0.0) is not None)
    record.equal("refused at a threshold of −5", True, answer.best(-5.0) is None)
    record.answer(
        f"No: the best start is w{start.argmax()}, the best end w{end.argmax()}, which ends before it begins. All "
        "valid pairs are scored together, and 'no answer' is one more candidate with a threshold of its own."
    )


def _scoring(record: LessonRecorder) -> None:
    from ...report import Table
    from ...tasks.qa.scores import score_answer

    tried = {
        "the Denver Broncos!": (1.0, 1.0),
        "Broncos": (1.0, 1.0),
        "Denver Broncos defeated": (0.0, 0.8),
        "Carolina Panthers": (0.0, 0.0),
    }
    rows = []
    for given, slide in tried.items():
        exact, f1 = score_answer(given, GOLDS)
        record.near(f"{given}: exact match, F1", list(slide), [exact, f1], digits=2)
        rows.append((given, exact, f1))
    record.near("no answer where there is none", [1.0, 1.0], list(score_answer("", [])), digits=1)
    record.show(Table(["answer", "exact match", "F1"], rows, note="Right: " + "; ".join(GOLDS)))
    single = score_answer("Broncos", GOLDS[:1])
    record.answer(
        f"'Broncos' would score {single[0]:.0f} and {single[1]:.2f} against 'Denver Broncos' alone. With three "
        "people's answers the best match counts, so what somebody also said is right."
    )


LESSONS = (
    Lesson(
        "answer-trace",
        PART,
        AUTOENCODER,
        "Question Answering",
        "TK10 of 27",
        "An answer is a start and an end among the tokens of question and context. The slide counts 27 and finds "
        "Shanghai at the tenth. The context here is our own sentence of exactly as many words as the slide's: 18.",
        ("tasks.qa.trace:trace_answer",),
        "Where does the answer move if punctuation is split off?",
        _trace,
    ),
    Lesson(
        "answer-spans",
        PART,
        FRONTIERS,
        "Usage IV: extraction-based QA",
        "A start and an end that fit each other",
        "Every token gets a score for beginning the answer and one for ending it. A span must not end before it "
        "begins, nor stand in the question, nor be too long.",
        ("tasks.qa.spans:span_scores", "tasks.qa.spans:AnswerCandidates.best"),
        "Is the best start with the best end the best answer?",
        _spans,
    ),
    Lesson(
        "answer-scores",
        PART,
        APPLICATIONS,
        "NLP Tasks: SQuAD",
        "Which team represented the AFC?",
        "Case, punctuation and articles do not count. Exact match asks for the rest, F1 for the words, and of several "
        "right answers the one that fits best counts.",
        ("tasks.qa.scores:score_answer",),
        "What if only one person had been asked for the right answer?",
        _scoring,
    ),
)
