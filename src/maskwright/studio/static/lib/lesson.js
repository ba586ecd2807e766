// Saves pictures and tables of a lesson's page. No script runs in that page, so the studio does it.

import { make, refill } from "./dom.js";
import { csvText, download, pngBlob, svgText } from "./save.js";
import { button } from "./show.js";

const HELD = 'svg[role="img"], table, ul.bars';

/** A collapsible list of all pictures and tables with their buttons; `update(page, name)` lists those of a document. */
export function keeping() {
  const list = make("ul", { class: "kept" });
  const whole = make("details", { hidden: true }, make("summary", { text: "Save its pictures and tables" }), list);
  whole.update = (page, name) => {
    const found = [...page.querySelectorAll(HELD)];
    whole.hidden = !found.length;
    refill(list, found.map((one, index) => make("li", {}, make("span", { text: nameOf(one) }), buttonsOf(one, nameOf(one), `${name}-${index + 1}`))));
  };
  return whole;
}

function buttonsOf(held, name, file) {
  if (held.localName !== "svg") return [button("CSV", `Save the table ${name} as CSV`, () => download(`${file}.csv`, csvText(...rowsOf(held)), "text/csv"))];
  return [
    button("SVG", `Save the picture ${name} as SVG`, () => download(`${file}.svg`, svgText(held), "image/svg+xml")),
    button("PNG", `Save the picture ${name} as PNG`, async () => download(`${file}.png`, await pngBlob(held))),
  ];
}

/** The name of a picture or table: its own name, else its caption, else the heading above it. */
function nameOf(held) {
  if (held.localName === "svg") return held.getAttribute("aria-label");
  const heading = held.closest("section")?.querySelector("h1, h2, h3, h4, figcaption");
  return heading?.textContent ?? "The lesson's numbers";
}

/** Column names and rows; bars are names with the text at their end. */
function rowsOf(held) {
  const texts = (cells) => [...cells].map((cell) => cell.textContent.trim());
  if (held.localName === "ul") return [["name", "value"], [...held.children].map((row) => texts(row.querySelectorAll(".label, .amount")))];
  const [head, ...rows] = [...held.rows].map((row) => texts(row.cells));
  return [head, rows];
}
