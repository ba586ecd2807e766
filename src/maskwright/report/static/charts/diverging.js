// Horizontal bars to both sides of 0, with their names and values.

import { draw } from "../dom.js";
import { measure, shorten } from "./text.js";

const ROW = 24;

/** A drawing of rows { label, value, shown } for `picture.update`. most: the value of a full bar. */
export const diverging = (rows, { most = 0, name = "Differences" } = {}) => (width) => {
  const height = Math.max(rows.length, 1) * ROW + 4;
  const full = most || Math.max(1e-9, ...rows.map((row) => Math.abs(row.value)));
  const labels = Math.min(0.4 * width, 10 + Math.max(20, ...rows.map((row) => measure(row.label))));
  const values = 10 + Math.max(20, ...rows.map((row) => measure(row.shown)));
  const half = Math.max((width - labels - values) / 2, 10);
  const middle = labels + half;
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": name });
  rows.forEach((row, index) => {
    const y = index * ROW + 4;
    const long = Math.min(Math.abs(row.value) / full, 1) * half;
    const label = draw("text", { x: 0, y: y + 13, text: shorten(row.label, labels - 8) });
    label.append(draw("title", { text: row.label }));
    svg.append(
      label,
      draw("rect", { x: row.value < 0 ? middle - long : middle, y: y + 2, width: long, height: 14, rx: 2, class: `fill c${row.value < 0 ? 1 : 0}` }),
      draw("text", { x: width, y: y + 13, "text-anchor": "end", text: row.shown }),
    );
  });
  svg.append(draw("line", { x1: middle, x2: middle, y1: 2, y2: height - 2, class: "axis" }));
  return svg;
};
