"""Text in a report is text: whatever it holds, the page has the same elements, no script, and shows it unchanged."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from maskwright.report import (
    AlignmentMap,
    Bar,
    Bars,
    Chart,
    Checkpoint,
    Checkpoints,
    Command,
    Comparison,
    Confusion,
    Curves,
    Facts,
    Figure,
    Health,
    HeatMap,
    Histogram,
    KeyFigures,
    MaskExample,
    MaskExamples,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Scatter,
    Section,
    Series,
    System,
    Table,
    Weights,
    WorstError,
    WorstErrors,
    render,
)
from maskwright.report.numbers import clean, element, escape
from report.html_reading import Node, read_html

ATTACK = "</style></title><script>alert(1)</script><img src=x onerror=\"alert('2')\">"
anything = st.text(st.characters(), min_size=1, max_size=40)  # all planes, lone surrogates too


def page_of(text: str) -> str:
    """A page with `text` wherever a page can hold text."""
    return render(
        Report(
            text,
            text,
            Health("watch", [text], text),
            [
                KeyFigures([Figure(text, text, text, text)], title=text),
                RunMetadata(text, {text: text}, {text: text}, title=text),
                Facts({text: (text, text)}, title=text, note=text),
                Bars([Bar(text, 1, text)], title=text, note=text),
                Histogram([0, 1, 2], [1, 2], text, text, text, {text: 1.2}, text),
                Curves([Chart(text, [Series(text, [0, 1], [1, 2])], text, "number", {text: 1}, note=text)], text, text),
                HeatMap([text, text], [text, text], [[1, 0.2], [0.2, 1]], text, title=text, note=text),
                AlignmentMap([text, text], [text], [[0.8, 0.2]], text, title=text, note=text),
                Scatter([(0, 1), (2, 3)], [0, 1], [text, text], [text, text], text, title=text, note=text),
                Weights([text], [text], [text], title=text),
                Confusion([text, text], [[1, 2], [3, 4]], title=text, note=text),
                WorstErrors([WorstError(text, text, text, 0.5, text_pair=text, line=1)], title=text, note=text),
                MaskExamples([MaskExample(text, text, [(text, 0.5)], text)], title=text, note=text),
                MaskExamples([MaskExample(text, text, [("other", 0.5)], text, 7, 0.1)], title=text, note=text),
                Comparison([System(text, {text: 0.5}, note=text), System(text, {text: text})], title=text, note=text),
                Checkpoints([Checkpoint(1, {text: text}, text)], title=text, note=text),
                Section(text, [Paragraph(text, title=text), Table([text], [[text]], title=text, note=text)], text),
                NextSteps([Command(text, text)], title=text),
            ],
            made=text,
            version=text,
        )
    )


def is_word(node: Node) -> bool:
    return node.tag == "span" and node.classes == ["together"]


def shape(node: Node) -> list:
    """The tags of a tree, without those that only cut text into words."""
    inside = [shape(part) for part in node.parts if isinstance(part, Node) and not is_word(part)]
    return [node.tag, [part for part in inside if part]]


EXPECTED = shape(read_html(page_of("plain")))


@given(anything)
@example(ATTACK)
@example('" onmouseover="alert(1)')
@example("]]><!--")
@example("&lt;script&gt;")
@example("\ud800\u202e\u0000\r\n")
@example("javascript:alert(1)")
@settings(max_examples=60)
def test_no_text_changes_the_elements_of_the_page(text: str):
    tree = read_html(page_of(text))
    assert shape(tree) == EXPECTED
    for node in tree.all():
        assert node.tag != "script"
        for name, value in node.attributes.items():
            assert not name.startswith("on"), f"{name} on <{node.tag}>"
            assert name not in {"src", "action", "srcdoc", "xlink:href"}
            if name == "href":
                assert (value or "").startswith(("#", "data:image/svg+xml,"))
            if name == "style":
                assert (value or "").startswith("width:")


@given(anything)
@example(ATTACK)
@settings(max_examples=60)
def test_what_is_shown_is_the_text(text: str):
    tree = read_html(page_of(text))
    assert tree.all("title")[0].text == clean(text)
    assert tree.all(class_="name")[0].text == clean(text)
    assert tree.all("pre")[0].text == clean(text)
    assert [cell.text for cell in tree.all("td", "wrong")] == [clean(text)]
    assert tree.all("td", "text")[0].all("p")[1].text == clean(text)


@given(anything)
def test_every_page_can_be_written_as_utf8(text: str):
    page_of(text).encode("utf-8")


def test_lone_surrogates_and_control_characters_become_a_replacement_character():
    assert clean("a\ud800b\x00c\x1bd\ufffee\tf\ng") == "a\ufffdb\ufffdc\ufffdd\ufffde\tf\ng"
    assert clean("line\r\nline\rline") == "line\nline\nline"
    assert clean("mañana 🎉 עברית") == "mañana 🎉 עברית"


def test_data_keeps_its_direction_to_itself():
    tree = read_html(page_of("עברית \u202e"))
    for node in [
        *tree.all("h1"),
        *tree.all("mark"),
        *tree.all("td", "wrong")[0].all("span"),
        *tree.all("td", "text")[0].all("p"),
    ]:
        assert node.attributes["dir"] == "auto"


def test_markup_is_escaped_once():
    assert escape(escape("a < b")) == "a &lt; b"
    assert element("b", element("i", "&"), "<", class_='"') == '<b class="&quot;"><i>&amp;</i>&lt;</b>'
