"""Reading what a page of the studio shows: tables under their headings, files that it saves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Rules of axe-core (landmark-one-main, region, heading-order, label-content-name-mismatch, empty-table-header,
# scrollable-region-focusable), for what the pages consist of: the elements that break one, with the name of the rule.
BARRIERS = r"""() => {
  const found = [];
  const seen = (one) => one.checkVisibility();
  const report = (rule, one) => found.push(`${rule}: ${one.outerHTML.slice(0, 120)}`);
  const all = (wanted) => [...document.querySelectorAll(wanted)].filter(seen);
  if (all("main, [role=main]").length !== 1) report("one main", document.body);
  const landmark = "main, header, nav, footer, aside, [role=region], [role=status], .skip";
  for (const one of all("body *")) {
    const isText = [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (isText && !one.matches("script, style, noscript") && !one.closest(landmark)) report("region", one);
    const style = getComputedStyle(one);
    const isScrolled = ["Width", "Height"].some((side, axis) =>
      one[`scroll${side}`] > one[`client${side}`] && /auto|scroll/.test([style.overflowX, style.overflowY][axis]));
    const isReached = [one, ...one.querySelectorAll("*")].some((inner) => inner.tabIndex >= 0);
    if (isScrolled && !isReached) report("scrollable", one);
  }
  let level = 0;
  for (const one of all("h1, h2, h3, h4")) {
    if (Number(one.tagName[1]) > level + 1) report("heading order", one);
    level = Number(one.tagName[1]);
  }
  for (const one of all("button[aria-label], a[aria-label]")) {
    const text = (node) => {
      if (node.nodeType === Node.TEXT_NODE) return node.textContent;
      return node.getAttribute?.("aria-hidden") ? "" : [...node.childNodes].map(text).join("");
    };
    const words = text(one).trim().toLowerCase();
    const name = one.getAttribute("aria-label").toLowerCase();
    if (/[\p{L}\p{N}]/u.test(words) && !name.includes(words)) report("name without its label", one);
  }
  const isEmpty = (one) => !one.textContent.trim();
  for (const one of all("th:not([aria-label], :has([role=img]))").filter(isEmpty)) report("empty heading", one);
  return found;
}"""

ROWS = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"


def cells(page: Page, title: str, number: int = 0) -> list[list[str]]:
    """The rows of the table under a heading, the first where there are several."""
    box = page.locator(f'[role="region"][aria-label="{title}"]').nth(number)
    return box.locator("tbody tr").evaluate_all(ROWS)


def saved(page: Page, label: str) -> bytes:
    """What the button with this label hands over."""
    with page.expect_download() as found:
        page.get_by_role("button", name=label, exact=True).click()
    return Path(found.value.path()).read_bytes()


def settled(page: Page) -> None:
    """Wait until nothing on the page is being computed."""
    page.wait_for_timeout(50)  # what was typed has reached the page
    page.wait_for_function("() => !document.querySelector('.busy')")
