// Attention: lines between two columns of tokens, and all heads at once as small matrices.

import { draw } from "../dom.js";
import { measure, shorten } from "./text.js";

const ROW = 22;
const STEPS = 6; // shades of a small matrix: each is one path, so that 144 heads stay small

/**
 * Lines from each query to its keys, with the weight as opacity. token: the only query shown, -1 for
 * all; onpick(index): called when a query is selected.
 */
export const headLines = (queries, keys, weights, { token = -1, onpick = null, name = "Attention" } = {}) => (width) => {
  const height = Math.max(queries.length, keys.length) * ROW + 8;
  const side = Math.floor(Math.min(Math.max(...[...queries, ...keys].map((one) => measure(one))) + 18, 0.36 * width));
  const whole = Math.min(width, 2 * side + 420);
  const svg = draw("svg", { width: whole, height, viewBox: `0 0 ${whole} ${height}`, "aria-label": name });
  const y = (index) => index * ROW + ROW / 2 + 4;
  weights.forEach((row, query) => {
    if (token >= 0 && token !== query) return;
    row.forEach((weight, key) => {
      if (weight < 0.01) return;
      const line = draw("line", { x1: side, y1: y(query), x2: whole - side, y2: y(key), class: "weight", "stroke-opacity": weight.toFixed(3) });
      line.append(draw("title", { text: `${queries[query]} → ${keys[key]}: ${weight.toFixed(4)}` }));
      svg.append(line);
    });
  });
  const label = (text, index, x, anchor, strength, action) => {
    const group = draw("g", { class: action ? "pick" : null, on: action ? { click: action } : {} });
    group.append(draw("rect", { x: anchor === "end" ? 0 : whole - side + 4, y: index * ROW + 5, width: side - 4, height: ROW - 2, rx: 3, class: "shade", "fill-opacity": strength.toFixed(3) }));
    group.append(draw("text", { x, y: y(index) + 4, "text-anchor": anchor, class: token === index && action ? "strong" : null, text: shorten(text, side - 14) }));
    svg.append(group);
  };
  queries.forEach((text, index) => label(text, index, side - 8, "end", token === index ? 0.35 : 0, onpick && (() => onpick(index))));
  keys.forEach((text, index) => label(text, index, whole - side + 10, "start", token >= 0 ? 0.85 * weights[token][index] : 0, null));
  return svg;
};

/**
 * Every head of every layer as a small matrix. weightOf(layer, head, query, key): 0 to 255; chosen: [layer, head]; all
 * count from 0; onpick(layer, head).
 */
export const headGrid = (layers, heads, queries, keys, weightOf, { chosen = [-1, -1], onpick = null, name = "All heads" } = {}) => (width) => {
  const left = 58;
  const cell = Math.min(Math.max(Math.floor((width - left) / heads), 34), 110);
  const inner = cell - 6;
  const [whole, height] = [left + cell * heads, 24 + cell * layers];
  const svg = draw("svg", { width: whole, height, viewBox: `0 0 ${whole} ${height}`, "aria-label": name });
  for (let head = 0; head < heads; head += 1) svg.append(draw("text", { x: left + (head + 0.5) * cell, y: 15, "text-anchor": "middle", class: "dim", text: heads > 8 && cell < 60 ? head + 1 : `head ${head + 1}` }));
  for (let layer = 0; layer < layers; layer += 1) {
    svg.append(draw("text", { x: 0, y: 24 + (layer + 0.5) * cell, class: "dim", text: `layer ${layer + 1}` }));
    for (let head = 0; head < heads; head += 1) {
      const [x, y] = [left + head * cell + 3, 24 + layer * cell];
      const isChosen = chosen[0] === layer && chosen[1] === head;
      const group = draw("g", { class: "pick", transform: `translate(${x} ${y})`, on: onpick ? { click: () => onpick(layer, head) } : {} });
      group.append(draw("rect", { x: -1.5, y: -1.5, width: inner + 3, height: inner + 3, rx: 3, class: isChosen ? "frame chosen" : "frame" }));
      for (const [opacity, path] of shades(layer, head, queries, keys, weightOf, inner)) group.append(draw("path", { d: path, fill: "var(--s0)", "fill-opacity": opacity }));
      group.append(draw("title", { text: `layer ${layer + 1}, head ${head + 1}` }));
      svg.append(group);
    }
  }
  return svg;
};

function shades(layer, head, queries, keys, weightOf, size) {
  const [wide, tall] = [size / keys, size / queries];
  const paths = Array.from({ length: STEPS }, () => []);
  for (let query = 0; query < queries; query += 1) {
    for (let key = 0; key < keys; key += 1) {
      const step = Math.ceil((Math.sqrt(weightOf(layer, head, query, key) / 255) * STEPS) - 0.35);
      if (step > 0) paths[Math.min(step, STEPS) - 1].push(`M${(key * wide).toFixed(1)} ${(query * tall).toFixed(1)}h${wide.toFixed(2)}v${tall.toFixed(2)}h-${wide.toFixed(2)}z`);
    }
  }
  return paths.flatMap((parts, index) => (parts.length ? [[((index + 1) / STEPS).toFixed(2), parts.join("")]] : []));
}
