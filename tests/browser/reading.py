"""Reading what a page of the studio shows: tables under their headings, files that it saves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from axe_playwright_python.base import AXE_SCRIPT

if TYPE_CHECKING:
    from playwright.sync_api import Page

LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1400, "light"), (375, "dark"))
# Changes to the rules of axe-core: labels in names and targets of 24 pixels (WCAG 2.2) are off by default; contrast is
# measured by `CONTRASTS`, which also reads text in pictures. Words of a sentence may be small (WCAG 2.5.8, inline).
RULES = {
    "label-content-name-mismatch": {"enabled": True},
    "target-size": {"enabled": True},
    "color-contrast": {"enabled": False},
}
CHECK = """async (rules) => {
  const { violations } = await axe.run({ rules, resultTypes: ["violations"], preload: false });
  return violations.flatMap((rule) => rule.nodes.map((one) => `${rule.id}: ${one.target} ${one.html.slice(0, 120)}`))
    .filter((found) => !/^target-size.*class="reason/.test(found));
}"""

ROWS = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"


def in_looks(page: Page) -> Iterator[tuple[int, str]]:
    """Show the page in each width and color scheme of LOOKS."""
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        settled(page)
        yield width, scheme


def barriers(page: Page) -> list[str]:
    """What axe-core finds in the page as it is shown: the rule, the element."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found: list[str] = page.evaluate(CHECK, RULES)
    return found


def all_barriers(page: Page) -> list[str]:
    return [f"{width} {scheme}: {found}" for width, scheme in in_looks(page) for found in barriers(page)]


def cells(page: Page, title: str, number: int = 0) -> list[list[str]]:
    """The rows of the table under a heading, the first where there are several."""
    box = page.locator(f'[role="region"][aria-label="{title}"]').nth(number)
    return box.locator("tbody tr").evaluate_all(ROWS)


def saved(page: Page, label: str) -> bytes:
    with page.expect_download() as found:
        page.get_by_role("button", name=label, exact=True).click()
    return Path(found.value.path()).read_bytes()


def unfold(page: Page) -> None:
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    settled(page)


def settled(page: Page) -> None:
    """Wait until nothing on the page is being computed."""
    page.wait_for_timeout(50)  # what was typed has reached the page
    page.wait_for_function("() => !document.querySelector('.busy')")
