"""The trace of an answer: tokens counted from 1, start and end named, the splitter said."""

from __future__ import annotations

import json

import pytest

from maskwright.core.errors import InputError
from maskwright.tasks.qa.windows import trace_answer
from tasks.questions import tokenizer

QUESTION = "What is the fashion capital of China?"
CONTEXT = (
    "Shanghai is the largest city of China, and many people there call it the fashion capital of China."  # 18 words
)


def test_the_answer_is_the_tenth_of_27_tokens_and_of_28_with_the_closing_one():
    trace = trace_answer(QUESTION, CONTEXT, (0, len("Shanghai")))
    assert (trace.splitter, trace.num_tokens_without_end, len(trace.tokens)) == ("whitespace", 27, 28)
    assert trace.tokens[-1].text == "[SEP]"
    assert (trace.start, trace.end, trace.answer) == ("TK10", "TK10", "Shanghai")
    assert [token.text for token in trace.tokens[:10]] == ["[CLS]", *QUESTION.split(), "[SEP]", "Shanghai"]
    assert (
        str(trace).splitlines()[0]
        == "28 tokens (whitespace), 27 without the final one; start=TK10 end=TK10 answer: Shanghai"
    )
    assert [line for line in str(trace).splitlines() if line.startswith(">")] == ["> TK10  Shanghai"]


def test_a_tokenizer_gives_more_tokens_and_is_named():
    trace = trace_answer(QUESTION, CONTEXT, (0, len("Shanghai")), tokenizer())
    assert trace.splitter == "wordpiece" and len(trace.tokens) > 28
    encoding = tokenizer()(QUESTION, CONTEXT)
    assert [token.text for token in trace.tokens] == encoding.tokens
    names = [token.name for token in trace.tokens]
    inside = trace.tokens[names.index(trace.start) : names.index(trace.end) + 1]
    assert (inside[0].start, inside[-1].end) == (0, len("Shanghai")) and {token.part for token in inside} == {"context"}


def test_no_answer_is_traced_too_and_json_holds_it():
    trace = trace_answer(QUESTION, CONTEXT, None)
    assert (trace.start, trace.end, trace.answer) == (None, None, "") and "no answer" in str(trace)
    facts = json.loads(json.dumps(trace.to_json()))
    assert facts["num_tokens"] == 28 == len(facts["tokens"]) and facts["num_tokens_without_end"] == 27
    assert facts["tokens"][1] == {
        "name": "TK2",
        "text": "What",
        "part": "question",
    }


@pytest.mark.parametrize("span", [(-1, 3), (5, 5), (9, 4), (0, 1000), (8, 9)])
def test_what_is_no_answer_is_refused(span):
    with pytest.raises(InputError, match=r"not in its context|No token"):
        trace_answer(QUESTION, CONTEXT, span)
