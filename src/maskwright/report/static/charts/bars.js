// Horizontal bars with their names and values.

import { draw } from "../dom.js";
import { shorten } from "./text.js";

const ROW = 26;

/** A drawing of rows { label, value, shown, strong } for `picture.update`. most: the value of a full bar. */
export const bars = (rows, { most = 1, name = "Bars" } = {}) => (width) => {
  const height = Math.max(rows.length, 1) * ROW + 4;
  const labels = Math.min(0.42 * width, 12 + 7.4 * Math.max(4, ...rows.map((row) => [...row.label].length)));
  const values = 12 + 7.6 * Math.max(1, ...rows.map((row) => row.shown.length));
  const room = Math.max(width - labels - values, 20);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": name });
  rows.forEach((row, index) => {
    const y = index * ROW + 4;
    const share = Math.min(Math.max(row.value / (most || 1), 0), 1);
    const label = draw("text", { x: 0, y: y + 14, class: row.strong ? "strong" : null, text: shorten(row.label, labels - 8) });
    label.append(draw("title", { text: row.label }));
    svg.append(
      label,
      draw("rect", { x: labels, y: y + 3, width: room, height: 14, rx: 2, class: "track" }),
      draw("rect", { x: labels, y: y + 3, width: Math.max(share * room, row.value > 0 ? 1 : 0), height: 14, rx: 2, class: row.strong ? "bar strong" : "bar" }),
      draw("text", { x: width, y: y + 14, "text-anchor": "end", class: row.strong ? "strong" : null, text: row.shown }),
    );
  });
  return svg;
};
