"""The run report in a real browser: in both themes, on a phone and on a wide screen."""

from __future__ import annotations

from typing import Any

import pytest

from maskwright.report import (
    Bar,
    Bars,
    Confusion,
    Health,
    Paragraph,
    Report,
    RunMetadata,
    Table,
    WorstError,
    WorstErrors,
    render,
)
from report.report_sample import finetuning_report, pretraining_report

SIZES = (375, 1400)
SCHEMES = ("light", "dark")
ENOUGH = 4.5  # contrast of text, WCAG 2.2, 1.4.3

CONTRASTS = """() => {
  const parse = (text) => {  // rgb(255 ...), or what color-mix makes: color(srgb 1.0 ... / alpha)
    const numbers = (text.match(/[\\d.]+/g) || []).map(Number);
    return text.startsWith('color(srgb') ? numbers.map((one, place) => (place < 3 ? 255 * one : one)) : numbers;
  };
  const over = (top, under) => {
    const alpha = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => alpha * top[i] + (1 - alpha) * under[i]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const owner = node.parentElement;
    if (!node.data.trim() || !owner.checkVisibility()) continue;
    const layers = [];
    for (let up = owner; up; up = up.parentElement) layers.push(parse(getComputedStyle(up).backgroundColor));
    const back = layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
    const style = getComputedStyle(owner);
    const ink = over(parse(owner.namespaceURI.endsWith('svg') ? style.fill : style.color), back);
    const [high, low] = [light(ink), light(back)].sort((a, b) => b - a);
    found.push([(high + 0.05) / (low + 0.05), node.data.trim().slice(0, 40), style.color, back.join()]);
  }
  return found;
}"""

OVERLAPS = """() => {
  const clash = [];
  for (const svg of document.querySelectorAll('.plot > svg, .whiskers')) {
    const boxes = [...svg.querySelectorAll('.tick')].map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
      const [a, b] = [boxes[i][1], boxes[j][1]];
      if (a.width && a.left < b.right && b.left < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom)
        clash.push(boxes[i][0] + ' / ' + boxes[j][0]);
    }
  }
  return clash;
}"""

TICKS = """() => [...document.querySelectorAll('.plot .tick')].map((text) => {
  const box = text.getBoundingClientRect();
  return [text.textContent, parseFloat(getComputedStyle(text).fontSize), box.left, box.right];
})"""


@pytest.fixture(scope="module", params=[pretraining_report, finetuning_report], ids=["pretraining", "finetuning"])
def html(request: pytest.FixtureRequest) -> str:
    return render(request.param())


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_the_page_is_quiet_self_contained_and_fits(open_page: Any, html: str, width: int, scheme: str):
    opened = open_page(html, width, scheme)
    assert opened.complaints == []
    assert opened.requests == []
    assert opened.ask("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_text_stands_out_from_what_is_behind_it(open_page: Any, html: str, scheme: str):
    opened = open_page(html, 1400, scheme)
    opened.ask("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    contrasts = opened.ask(CONTRASTS)
    assert len(contrasts) > 100
    assert [entry for entry in contrasts if entry[0] < ENOUGH] == []


def test_the_two_themes_differ(open_page: Any, html: str):
    backs = [open_page(html, 800, scheme).ask("getComputedStyle(document.body).backgroundColor") for scheme in SCHEMES]
    assert backs[0] != backs[1]


@pytest.mark.parametrize("width", [320, *SIZES])
def test_labels_of_charts_can_be_read_and_do_not_meet(open_page: Any, html: str, width: int):
    opened = open_page(html, width)
    assert opened.ask(OVERLAPS) == []
    ticks = opened.ask(TICKS)
    assert ticks
    for text, size, left, right in ticks:
        assert size >= 11, f"'{text}' has {size} px"
        assert left >= 0
        assert right <= width, f"'{text}' ends at {right} of {width}"


def test_pointing_at_a_chart_shows_its_values(open_page: Any):
    opened = open_page(render(pretraining_report()), 1000)
    plot = opened.page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    shown = "[...document.querySelectorAll('.readout')].filter((one) => getComputedStyle(one).opacity > 0)"
    assert opened.ask(f"{shown}.length") == 0
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    texts = opened.ask(f"{shown}.map((one) => one.textContent)")
    assert len(texts) == 1
    assert texts[0].startswith("step ")


def test_a_table_that_is_too_wide_scrolls_in_its_own_box(open_page: Any):
    table = Table([f"column {number}" for number in range(30)], [list(range(30))], title="Wide")
    opened = open_page(render(Report("t", "h", blocks=[table])), 375)
    assert opened.ask("document.documentElement.scrollWidth") == 375
    assert opened.ask(
        "(() => { const box = document.querySelector('.wide'); return box.scrollWidth > box.clientWidth; })()"
    )


LONG = "https://example.org/" + "averylongpathwithoutanybreak" * 12
HOSTILE = "</style></script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"


@pytest.mark.parametrize("text", [LONG, HOSTILE, "שלום \u202e עולם " * 8], ids=["long", "hostile", "right-to-left"])
@pytest.mark.parametrize("width", SIZES)
def test_awkward_text_neither_runs_nor_breaks_the_page(open_page: Any, text: str, width: int):
    report = Report(
        text,
        text,
        Health("bad", [text]),
        [
            Paragraph(text, title=text),
            RunMetadata(text, {text: text}, {text: text}),
            Table(["a", "b"], [[text, text]], title="Table"),
            Bars([Bar(text, 1)], title="Bars"),
            Confusion([text, text], [[1, 2], [3, 4]]),
            WorstErrors([WorstError(text, text, text, 0.5, text_pair=text)]),
        ],
    )
    opened = open_page(render(report), width)
    assert opened.requests == []
    assert opened.complaints == []
    assert opened.ask("document.title") == " ".join(text.split())
    assert opened.ask("document.scripts.length + document.images.length") == 0
    assert opened.ask("document.documentElement.scrollWidth") == width


def test_paper_gets_the_light_theme_whatever_the_screen(open_page: Any):
    opened = open_page(render(finetuning_report()), 800, "dark")
    opened.page.emulate_media(media="print", color_scheme="dark")
    red, green, blue = opened.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert min(red, green, blue) > 240
    assert opened.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
