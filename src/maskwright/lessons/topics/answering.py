"""Answer spans: their start and end tokens, and their scores."""

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
    record.equal(
        "the best start and the best end, chosen separately", "w6 … w5", f"w{start.argmax()} … w{end.argmax()}"
    )
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
    record.equal("no answer at a threshold of −5", True, answer.best(-5.0) is None)
    record.answer(
        f"No: the best start is w{start.argmax()}, the best end w{end.argmax()}, which ends before it begins. All "
        "valid pairs are scored together, and 'no answer' is one more candidate, with a separate threshold."
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
    record.near("no answer to an unanswerable question", [1.0, 1.0], list(score_answer("", [])), digits=1)
    record.show(Table(["answer", "exact match", "F1"], rows, note="Gold answers:  " + "; ".join(GOLDS)))
    single = score_answer("Broncos", GOLDS[:1])
    record.answer(
        f"'Broncos' would score {single[0]:.0f} and {single[1]:.2f} if 'Denver Broncos' were the only gold answer. "
        "With the answers of three annotators, the best match counts."
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
        "The best valid span",
        "Every token has a start score and an end score. A valid span does not end before it begins, is not in the "
        "question, and is not too long.",
        ("tasks.qa.spans:span_scores", "tasks.qa.spans:AnswerCandidates.best"),
        "Do the best start and the best end form the best answer?",
        _spans,
    ),
    Lesson(
        "answer-scores",
        PART,
        APPLICATIONS,
        "NLP Tasks: SQuAD",
        "Which team represented the AFC?",
        "Case, punctuation and articles do not count. Exact match compares the rest, F1 the words; with several gold "
        "answers, the best match counts.",
        ("tasks.qa.scores:score_answer",),
        "What is the score with a single annotator?",
        _scoring,
    ),
)
