"""Answer spans: their start and end tokens, and their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs import Matrix, integer, matrix, number, text
from ..lesson import APPLICATIONS, AUTOENCODER, FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Tasks"
QUESTION = "What is the fashion capital of China?"
CONTEXT = "Shanghai is the largest city of China, and many people there call it the fashion capital of China."
GOLDS = ("Denver Broncos", "the Denver Broncos", "Broncos")
START_END = ((0.0, 0.1, 5.0, 0.2, 2.0, 0.3, 6.0, 0.1), (0.0, 0.1, 0.2, 0.3, 1.0, 4.0, 0.4, 0.2))


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


def _spans(record: LessonRecorder, longest: int, threshold: float, scores: Matrix) -> None:
    import numpy as np

    from ...report import Grid
    from ...tasks.qa.windows import AnswerCandidates, Span, span_scores

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


def _scoring(record: LessonRecorder, answer: str, golds: str) -> None:
    from ...report import Table
    from ...tasks.qa.task import score_answer

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
        ("tasks.qa.windows:span_scores", "tasks.qa.windows:AnswerCandidates.best"),
        "Do the best start and the best end form the best answer?",
        _spans,
        (
            integer("longest", "Longest answer in words", 4, 1, 8),
            number("threshold", "Threshold of no answer", 0, -10, 10, 0.5),
            matrix("scores", "Scores: a row of starts, a row of ends", START_END, -100, 100, rows=2, columns=8),
        ),
    ),
    Lesson(
        "answer-scores",
        PART,
        APPLICATIONS,
        "NLP Tasks: SQuAD",
        "Which team represented the AFC?",
        "Case, punctuation and articles do not count. Exact match compares the rest, F1 the words; with several gold "
        "answers, the best match counts.",
        ("tasks.qa.task:score_answer",),
        "What is the score with a single annotator?",
        _scoring,
        (
            text("answer", "Answer to score", "Broncos"),
            text("golds", "Gold answers, separated by ;", "; ".join(GOLDS)),
        ),
    ),
)
