"""What holds for every page of the studio: both themes, phone and screen, keyboard, names, hostile text, silence."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from browser.reading import barriers, in_looks, settled, unfold
from browser.test_report_page import CONTRASTS, ENOUGH
from maskwright.studio.pages import PAGES, offered
from studio.models import (
    write_answerer,
    write_chooser,
    write_classifier,
    write_masked,
    write_tagger,
    write_translator,
    write_writer,
)
from studio.serving import serving

WRITERS = {
    "masked": write_masked,
    "classes": write_classifier,
    "names": write_tagger,
    "answers": write_answerer,
    "choices": write_chooser,
    "writer": write_writer,
    "translator": write_translator,
}
NAMES = [page.name for page in PAGES if page.name != "lessons"]
HOSTILE = (
    "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    "</textarea><svg onload=\"document.title='taken'\"> javascript:alert(1) {{title}} ${document.title='taken'} [MASK]"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    models = [make(folder / name) for name, make in WRITERS.items()]
    with serving(tmp_path_factory.mktemp("runs"), *models) as found:
        yield found


def test_every_page_is_offered_and_in_the_menu(served, visit):
    page = visit(served, "/tokens").page
    assert page.locator(".side nav a").all_text_contents() == [one.title for one in offered(served.studio)]
    assert {one.name for one in offered(served.studio)} >= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_quiet_fits_and_can_be_read(served, visit, name):
    opened = visit(served, f"/{name}", width=375, scheme="light")
    settled(opened.page)
    unfold(opened.page)
    for width, scheme in in_looks(opened.page):
        assert barriers(opened.page) == [], (width, scheme)
        assert opened.ask("document.documentElement.scrollWidth") <= width
        poor = [entry for entry in opened.ask(CONTRASTS) if entry[0] < ENOUGH]
        assert [entry for entry in poor if not entry[1].replace(".", "").replace("-", "").isdigit()] == []
        if folder := os.environ.get("MASKWRIGHT_SCREENSHOTS"):
            opened.page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png", full_page=True)
    assert opened.page.locator("#status").text_content() == ""
    assert opened.complaints == [] and opened.requests == []


@pytest.mark.parametrize("name", NAMES)
def test_every_control_is_reached_with_tab(served, visit, name):
    opened = visit(served, f"/{name}")
    settled(opened.page)
    assert opened.ask("[...document.querySelectorAll('h1')].length") == 1
    page = opened.page
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert opened.ask("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert opened.ask("document.activeElement.id") == "work"
    wanted = opened.ask(
        """() => [...document.querySelectorAll('main button, main input, main select, main textarea, main a')]
        .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0).length"""
    )
    seen = set()
    for _ in range(wanted + 25):
        page.keyboard.press("Tab")
        seen.add(
            opened.ask(
                """() => { const here = document.activeElement;
                if (!here.closest('main')) return -1;
                const controls = 'main button, main input, main select, main textarea, main a';
                const all = [...document.querySelectorAll(controls)]
                  .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0);
                const style = getComputedStyle(here);
                if (here.matches('button, input, select, textarea, a') && style.outlineStyle === 'none') return -2;
                return all.indexOf(here); }"""
            )
        )
        if len(seen - {-1, -2}) >= wanted:
            break
    assert -2 not in seen, "a control does not show that it is focused"
    assert seen >= set(range(wanted))


@pytest.mark.parametrize("name", NAMES)
def test_hostile_text_stays_text(served, visit, name):
    state = "&".join(f"{key}={quote(HOSTILE)}" for key in ("text", "pair", "cut", "words", "question", "sentences"))
    opened = visit(served, f"/{name}#{state}&word=")
    settled(opened.page)
    assert "taken" not in opened.page.title() and opened.requests == []
    assert opened.ask("document.querySelectorAll('main img, main script, main iframe').length") == 0
    assert not [line for line in opened.complaints if "422" not in line]
    assert opened.ask("document.documentElement.scrollWidth") <= 1400


def test_the_state_is_in_the_address_and_comes_back(served, visit):
    text = "rain fell & the river=rose #1 100% 🙂"
    page = visit(served, "/tokens").page
    page.get_by_label("Text", exact=True).fill(text)
    address = page.evaluate("location.href")
    assert "#" in address and "text=" in address
    again = visit(served, address.removeprefix(served.origin)).page
    assert again.get_by_label("Text", exact=True).input_value() == text
    again.locator(".side nav a", has_text="Inspect").click()
    again.wait_for_url("**/inspect#*")
    again.wait_for_selector("body[data-ready]")
    assert again.get_by_label("Text", exact=True).input_value() == text


def test_text_is_never_part_of_an_address_that_is_sent(served, visit):
    opened = visit(served, "/tokens")
    asked = []
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.get_by_label("Text", exact=True).fill("a secret sentence")
    opened.page.reload()
    opened.page.wait_for_selector("body[data-ready]")
    assert asked and not [url for url in asked if "secret" in url.partition("#")[0]]


def test_another_page_cannot_read_the_studio(served, browser):
    """A page of another origin, in a browser that has the studio's cookie, gets nothing and changes nothing."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(served.first_address)
        page.route("http://evil.example/*", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html"))
        page.goto("http://evil.example/")
        for script in (
            f"fetch('{served.origin}/api/studio', {{credentials: 'include'}})"
            ".then((a) => a.text()).catch(() => 'refused')",
            f"fetch('{served.origin}/api/tokens/learn', {{method: 'POST', body: '{{}}', credentials: 'include'}})"
            ".then((a) => a.text()).catch(() => 'refused')",
            f"import('{served.origin}/static/lib/dom.js').then(() => 'read').catch(() => 'refused')",
        ):
            assert page.evaluate(script) == "refused"
        seen = page.evaluate(
            f"""() => new Promise((done) => {{ const frame = document.createElement('iframe');
            frame.onload = () => {{
              try {{ done(frame.contentDocument ? 'seen' : 'hidden'); }} catch {{ done('hidden'); }} }};
            frame.src = '{served.origin}/tokens'; document.body.append(frame); }})"""
        )
        assert seen == "hidden"
    finally:
        context.close()


def test_a_studio_that_ended_or_restarted_is_reported(visit, tmp_path):
    with serving(tmp_path / "runs", write_classifier(tmp_path / "classes")) as ended:
        page = visit(ended, "/classify").page
        settled(page)
        page.context.clear_cookies()  # as those of an earlier studio at the same port
        page.get_by_label("Text", exact=True).fill("the dog")
        settled(page)
        assert page.locator("#status").text_content() == (
            "Open the newest address that maskwright studio printed: it carries a key."
        )
        again = page.context.new_page()
        again.goto(ended.first_address)
        page.get_by_label("Text", exact=True).fill("the dog ran")
        settled(page)
        assert page.locator("#status").text_content() == ""
    page.get_by_label("Text", exact=True).fill("the dog ran home")
    settled(page)
    assert page.locator("#status").text_content() == "The studio does not answer: is it still running?"


def test_addresses_of_retired_pages_lead_to_inspect(served, visit):
    page = visit(served, "/attention#text=the%20cat%20sat&view=matrix&layer=2").page
    settled(page)
    assert "/inspect#" in page.url and page.get_by_role("tab", selected=True).inner_text() == "Matrix"
    assert page.get_by_label("Text", exact=True).input_value() == "the cat sat"
