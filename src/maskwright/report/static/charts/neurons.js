// The computation of a weight: the query, each key, their elementwise products, the score, the weight.

import { draw } from "../dom.js";
import { measure, shorten } from "./text.js";

const ROW = 22;

/** found: the response of /api/attention/neurons; label: the token of the query. */
export const neurons = (found, label, { name = "Query and key" } = {}) => (width) => {
  const side = Math.floor(Math.min(Math.max(...found.keys.map((one) => measure(one)), measure("query")) + 12, 0.22 * width));
  const numbers = 116;
  const strip = Math.max(Math.floor((width - side - numbers - 24) / 2), 60);
  const whole = side + 2 * strip + 24 + numbers;
  const height = 48 + (found.keys.length + 1) * ROW;
  const svg = draw("svg", { width: whole, height, viewBox: `0 0 ${whole} ${height}`, "aria-label": name });
  const [keyAt, productAt, scoreAt] = [side, side + strip + 12, whole - numbers + 46];
  const most = Math.max(...found.query.map(Math.abs), ...found.key.flat().map(Math.abs));
  const best = Math.max(...found.products.flat().map(Math.abs));
  const heads = [[keyAt, "start", "key"], [productAt, "start", "query × key"], [scoreAt, "end", "score"], [whole, "end", "weight"]];
  heads.forEach(([x, anchor, text]) => svg.append(draw("text", { x, y: 42 + ROW, "text-anchor": anchor, class: "dim", text })));
  svg.append(draw("text", { x: side - 8, y: 18, "text-anchor": "end", text: "query" }), draw("text", { x: keyAt + strip + 12, y: 18, class: "strong", text: shorten(label, strip) }));
  cells(svg, found.query, keyAt, 5, strip, most);
  found.keys.forEach((token, index) => {
    const y = 48 + (index + 1) * ROW;
    svg.append(draw("text", { x: side - 8, y: y + 14, "text-anchor": "end", text: shorten(token, side - 10) }));
    cells(svg, found.key[index], keyAt, y, strip, most);
    cells(svg, found.products[index], productAt, y, strip, best);
    svg.append(draw("text", { x: scoreAt, y: y + 14, "text-anchor": "end", class: "dim", text: found.scores[index].toFixed(2) }));
    svg.append(draw("rect", { x: whole - 56, y: y + 2, width: 56, height: 15, rx: 3, class: "shade", "fill-opacity": (0.85 * found.weights[index]).toFixed(3) }));
    svg.append(draw("text", { x: whole - 4, y: y + 14, "text-anchor": "end", text: found.weights[index].toFixed(3) }));
  });
  return svg;
};

/** A row of numbers: blue above 0, orange below, with the magnitude as opacity. */
function cells(svg, values, x, y, room, most) {
  const wide = room / values.length;
  svg.append(draw("rect", { x, y, width: room, height: 17, class: "track" }));
  values.forEach((value, index) => {
    const box = draw("rect", { x: (x + index * wide).toFixed(2), y, width: Math.max(wide - 0.5, 0.5).toFixed(2), height: 17, fill: value < 0 ? "var(--s1)" : "var(--s0)", "fill-opacity": (Math.abs(value) / (most || 1)).toFixed(3) });
    box.append(draw("title", { text: `${index}: ${value.toFixed(4)}` }));
    svg.append(box);
  });
}
