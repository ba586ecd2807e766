// Tables and pictures with a heading and save buttons.

import { fixed, grouped, make, refill } from "./dom.js";
import { csvText, download, pngBlob, svgText } from "./save.js";

const MOST_ROWS = 1000; // rows drawn: more would make the page slow

/**
 * A table. columns: [{ name, kind }], kind "number", "code", "word" or none; `update(rows)` fills it, a row being values
 * or { cells, class }; a value may be { text, value, class, node }: what is shown, what CSV gets, how it looks, and
 * an element to show instead of the text.
 * Of very many rows the first are shown (`most`); CSV has all. onsort(index): called when the head of a
 * column that is not `isFixed` is clicked; `order(index, isDown)` marks it.
 */
export function table(title, columns, { file = "table", scroll = true, level = "h3", most = MOST_ROWS, onsort = null } = {}) {
  let rows = [];
  const body = make("tbody");
  const headOf = (column, index) => (onsort && !column.isFixed ? make("button", { type: "button", class: "sort", text: column.name, on: { click: () => onsort(index) } }) : column.name);
  const heads = columns.map((column, index) => make(column.name ? "th" : "td", { scope: column.name ? "col" : null, class: column.kind === "number" ? "number" : null }, headOf(column, index)));
  const save = () => download(`${file}.csv`, csvText(columns.map((column) => column.name), rows.map((row) => row.map(plain))), "text/csv");
  const tools = make("span", { class: "tools" }, button("CSV", `Save the table ${title} as CSV`, save));
  const above = make("div", { class: "above" }, make(level, { text: title }), tools);
  const box = make("div", { class: scroll ? "wide scroll" : "wide", tabindex: "0", role: "region", "aria-label": title });
  box.append(make("table", {}, make("thead", {}, make("tr", {}, heads)), body));
  const more = make("p", { class: "note" });
  const whole = make("div", { class: "result" }, above, box);
  whole.update = (given) => {
    rows = given.map((row) => row.cells ?? row);
    more.textContent = `The first ${grouped(most)} of ${grouped(rows.length)} rows; the CSV has all.`;
    if (rows.length > most) box.after(more);
    else more.remove();
    refill(body, given.slice(0, most).map((row) => make("tr", { class: row.class ?? null }, (row.cells ?? row).map((value, index) => cellOf(value, columns[index])))));
  };
  whole.order = (chosen, isDown) => heads.forEach((head, index) => {
    if (index === chosen) head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  return whole;
}

function cellOf(value, column) {
  const rich = value !== null && typeof value === "object";
  const shown = rich ? value.text : value;
  const names = [column?.kind, rich ? value.class : null].filter(Boolean).join(" ");
  return make("td", { class: names || null }, rich && "node" in value ? value.node : String(shown ?? ""));
}

const plain = (value) => (value !== null && typeof value === "object" ? (value.value ?? value.text) : value);

/**
 * A matrix of weights as a collapsible table with row sums, which is made while it is open.
 * `update(rows, columns, values, text)`: names, values[row][column], summary.
 */
export function matrixTable(title, file) {
  let fill = () => {};
  const [summary, place] = [make("summary"), make("div")];
  const whole = make("details", { on: { toggle: () => fill() } }, summary, place);
  whole.update = (rows, columns, values, text = "Weights as a table") => {
    summary.textContent = text;
    fill = () => {
      if (!whole.open) return;
      const made = table(title, [{ name: "", kind: "word" }, ...columns.map((name) => ({ name, kind: "number" })), { name: "sum", kind: "number" }], { file });
      const cell = (value) => ({ text: fixed(value, 2), value });
      made.update(values.map((row, index) => [rows[index], ...row.map(cell), cell(row.reduce((sum, value) => sum + value, 0))]));
      refill(place, made);
    };
    fill();
  };
  return whole;
}

/**
 * A picture. `update(draw)` shows what `draw(width)` returns, an SVG element with width and height, again whenever the
 * width of its place changes.
 */
export function picture(title, { file = "picture", level = "h3" } = {}) {
  let drawing = null;
  let drawnAt = 0;
  const canvas = make("div", { class: "canvas" });
  const svg = () => canvas.querySelector("svg");
  const tools = make(
    "span",
    { class: "tools" },
    button("SVG", `Save the picture ${title} as SVG`, () => svg() && download(`${file}.svg`, svgText(svg()), "image/svg+xml")),
    button("PNG", `Save the picture ${title} as PNG`, async () => svg() && download(`${file}.png`, await pngBlob(svg()))),
  );
  const heading = make(level, { text: title });
  const whole = make("figure", { class: "result" }, make("div", { class: "above" }, heading, tools), canvas);
  const redraw = () => {
    const width = Math.floor(canvas.clientWidth);
    if (!drawing || !width) return;
    drawnAt = width;
    const made = drawing(width);
    made.setAttribute("role", "img");
    if (!made.hasAttribute("aria-label")) made.setAttribute("aria-label", heading.textContent);
    refill(canvas, made);
    if (canvas.scrollWidth > canvas.clientWidth) canvas.tabIndex = 0; // scrolled by keyboard, too
    else canvas.removeAttribute("tabindex");
  };
  whole.update = (draw) => {
    drawing = draw;
    redraw();
  };
  whole.rename = (text) => (heading.textContent = text);
  new ResizeObserver(() => Math.floor(canvas.clientWidth) !== drawnAt && redraw()).observe(canvas);
  return whole;
}

/** A small save button. */
export function button(text, label, action) {
  return make("button", { type: "button", class: "quiet", "aria-label": label, title: label, text, on: { click: action } });
}

/** A text that selects what it names, as a link in a table. name: its full name, if the text is short. */
export function picker(text, isPressed, action, name = null) {
  return make("button", { type: "button", class: "link", "aria-pressed": isPressed ? "true" : "false", title: name, "data-key": name, text, on: { click: action } });
}

/** A section of a page with its heading. */
export function section(title, ...children) {
  return make("section", {}, make("h2", { text: title }), children);
}
