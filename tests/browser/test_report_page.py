"""The run report in a real browser: in both themes, on a phone and on a wide screen."""

from typing import Any

import pytest

from maskwright.report import Report, render
from report.sample import blocks, whole

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

# Labels of charts that meet, leave the page or are too small to read.
CLASHES = """() => [...document.querySelectorAll('.charts svg')].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll('text.dim')].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const small = boxes.filter(([, a]) => a.left < 0 || a.right > innerWidth || a.height < 11).map(([text]) => text);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom;
  return [...small, ...boxes.flatMap(([one, a], i) =>
    boxes.slice(0, i).filter(([, b]) => a.width && meet(a, b)).map(([other]) => `${one} / ${other}`))];
})"""


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (375, "dark"), (1400, "light")])
def test_the_page_is_quiet_fits_and_can_be_read(open_page: Any, width: int, scheme: str):
    opened = open_page(render(whole()), width, scheme)
    assert opened.complaints == [] and opened.requests == []
    assert opened.ask("document.documentElement.scrollWidth") == width
    assert opened.ask("document.querySelectorAll('[data-chart] > svg').length") == 7
    assert opened.ask(CLASHES) == []
    opened.ask("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    contrasts = opened.ask(CONTRASTS)
    assert len(contrasts) > 100 and [entry for entry in contrasts if entry[0] < ENOUGH] == []


def test_curves_are_smoothed_over_the_measured_values_and_seeds_have_their_mean(open_page: Any):
    opened = open_page(render(whole()), 1000)
    loss, _, seeds, _ = opened.page.locator(".charts svg").all()
    assert loss.locator("path.raw").count() == 1 and loss.locator("path.line").count() == 2
    assert seeds.locator("path.raw").count() == 3 and seeds.locator("circle").count() == 6
    wiggle = """(path) => {
      const ys = path.getAttribute("d").slice(1).split("L").map((one) => Number(one.split(" ")[1]));
      return ys.slice(1).reduce((sum, y, index) => sum + Math.abs(y - ys[index]), 0); }"""
    raw, smooth = (loss.locator(f"path.{name}").first.evaluate(wiggle) for name in ("raw", "line"))
    assert smooth < 0.6 * raw
    loss.hover()
    assert loss.locator(".pointed text").text_content().startswith("step ")


LONG = "https://example.org/" + "averylongpathwithoutanybreak" * 12
HOSTILE = "</style></script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"


@pytest.mark.parametrize("text", [LONG, HOSTILE, "שלום \u202e עולם " * 8], ids=["long", "hostile", "right-to-left"])
def test_awkward_text_neither_runs_nor_breaks_the_page(open_page: Any, text: str):
    opened = open_page(render(Report(text, text, blocks=blocks(f" {text}"))), 375)
    assert opened.requests == [] and opened.complaints == []
    assert opened.ask("document.title") == " ".join(text.split())
    assert opened.ask("document.images.length") == 0
    assert opened.ask("document.documentElement.scrollWidth") == 375


def test_paper_gets_the_light_theme_whatever_the_screen(open_page: Any):
    opened = open_page(render(whole()), 800, "dark")
    opened.page.emulate_media(media="print", color_scheme="dark")
    red, green, blue = opened.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert min(red, green, blue) > 240
    assert opened.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
