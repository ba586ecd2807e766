"""Answers as pieces of a text: tokens that begin and end them, and how they are scored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, AUTOENCODER, FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..sheet import Sheet

PART = "Tasks"
QUESTION = "What is the fashion capital of China?"
CONTEXT = "Shanghai is the largest city of China, and its people call it the fashion capital of China."
GOLDS = ("Denver Broncos", "the Denver Broncos", "Broncos")


def _trace(sheet: Sheet) -> None:
    from ...tasks.qa_trace import trace_answer
    from ...train.report import Kind, Token, Tokens
    from ..small import word_tokenizer

    found = trace_answer(QUESTION, CONTEXT, (0, len("Shanghai")))
    sheet.equal("tokens at white space", 27, len(found.tokens))
    sheet.equal("start, end", "TK10, TK10", f"{found.start}, {found.end}")
    sheet.equal("answer", "Shanghai", found.answer)
    pieces = trace_answer(QUESTION, CONTEXT, (0, len("Shanghai")), word_tokenizer(QUESTION, CONTEXT))
    sheet.off(
        "tokens by a tokenizer",
        "27",
        30,
        len(pieces.tokens),
        "the slide splits at white space and counts from 1; a tokenizer makes ?, ',' and . tokens of their own",
    )
    kinds: dict[str, Kind] = {"special": "special", "question": "first", "context": ""}
    row = [Token(one.text, "right" if one.name == found.start else kinds[one.part], one.name) for one in found.tokens]
    sheet.show(Tokens([("", row)]))
    sheet.answer(
        f"To {pieces.start}: the question mark is a token of its own and moves everything behind it by one. So a "
        "trace has to say which splitter it counts by; answers are kept as characters of the text, which no splitter "
        "moves."
    )


def _spans(sheet: Sheet) -> None:
    import numpy as np

    from ...tasks.qa_spans import Found, Span, span_scores
    from ...train.report import Grid

    start = np.array([0.0, 0.1, 5.0, 0.2, 2.0, 0.3, 6.0, 0.1])
    end = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 4.0, 0.4, 0.2])
    allowed = np.ones(8, dtype=bool)
    allowed[0] = False  # [CLS]
    scores = span_scores(start, end, allowed, 4)
    first, length = np.unravel_index(int(np.argmax(scores)), scores.shape)
    sheet.equal("the best valid span (words from 0)", "w2 … w5", f"w{first} … w{first + length}")
    sheet.near("its score: start 5 + end 4", 9.0, float(scores.max()), 1e-9, digits=1)
    sheet.equal("the best start and the best end alone", "w6 … w5", f"w{start.argmax()} … w{end.argmax()}")
    ruled_out = int(np.isinf(scores).sum())
    sheet.equal("spans from [CLS], or beyond the text", 4 + 3 + 2 + 1, ruled_out)
    shown = [[None if np.isinf(one) else float(one) for one in row] for row in scores]
    sheet.show(
        Grid(
            [f"w{n}" for n in range(8)],
            [f"{n} words" for n in range(1, 5)],
            shown,
            "Scores of spans, by first word and length",
            digits=1,
        )
    )
    answer = Found((Span("w2 … w5", 0, 1, 9.0, 0.9),), no_answer_margin=-3.0, no_answer_probability=0.05)
    sheet.equal("answered at a threshold of 0", True, answer.best(0.0) is not None)
    sheet.equal("refused at a threshold of −5", True, answer.best(-5.0) is None)
    sheet.answer(
        f"No: the best start is w{start.argmax()}, the best end w{end.argmax()}, which ends before it begins. All "
        "valid pairs are scored together, and 'no answer' is one more candidate with a threshold of its own."
    )


def _scoring(sheet: Sheet) -> None:
    from ...tasks.qa_scores import score_answer
    from ...train.report import Table

    tried = {
        "the Denver Broncos!": (1.0, 1.0),
        "Broncos": (1.0, 1.0),
        "Denver Broncos defeated": (0.0, 0.8),
        "Carolina Panthers": (0.0, 0.0),
    }
    rows = []
    for given, slide in tried.items():
        exact, f1 = score_answer(given, GOLDS)
        sheet.near(f"{given}: exact match, F1", list(slide), [exact, f1], 1e-9, digits=2)
        rows.append((given, exact, f1))
    sheet.near("no answer where there is none", [1.0, 1.0], list(score_answer("", [])), 1e-9, digits=1)
    sheet.show(Table(["answer", "exact match", "F1"], rows, note="Right: " + "; ".join(GOLDS)))
    single = score_answer("Broncos", GOLDS[:1])
    sheet.answer(
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
        "Shanghai at the tenth. (Its context is not in the text of the lecture; this one has as many words.)",
        ("tasks.qa_trace:trace_answer",),
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
        ("tasks.qa_spans:span_scores", "tasks.qa_spans:Found.best"),
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
        ("tasks.qa_scores:score_answer",),
        "What if only one person had been asked for the right answer?",
        _scoring,
    ),
)
