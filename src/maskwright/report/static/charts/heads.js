// Attention: lines between two columns of tokens, and all heads at once as small matrices.

import { draw } from "../dom.js";
import { measure, shorten } from "./text.js";

const ROW = 22;
const STEPS = 6; // shades of a small matrix: each is one path, so that 144 heads stay small
const SHADE_OF = Uint8Array.from({ length: 256 }, (_, weight) => Math.max(Math.min(Math.ceil(Math.sqrt(weight / 255) * STEPS - 0.35), STEPS), 0));

/**
 * Lines from each query to its keys, with the weight as opacity. token: only the lines from this query are shown, and, if
 * the keys are the same tokens (isSelf), in another color the lines to it; -1: all lines. onpick(index): called when a token is selected.
 */
export const headLines = (queries, keys, weights, { token = -1, isSelf = false, onpick = null, name = "Attention" } = {}) => (width) => {
  const height = Math.max(queries.length, keys.length) * ROW + 8;
  const side = Math.floor(Math.min(Math.max(...[...queries, ...keys].map((one) => measure(one))) + 18, 0.36 * width));
  const whole = Math.min(width, 2 * side + 420);
  const svg = draw("svg", { width: whole, height, viewBox: `0 0 ${whole} ${height}`, "aria-label": name });
  const y = (index) => index * ROW + ROW / 2 + 4;
  weights.forEach((row, query) => {
    row.forEach((weight, key) => {
      const isTo = isSelf && token === key && token !== query;
      if (weight < 0.01 || (token >= 0 && token !== query && !isTo)) return;
      const line = draw("line", { x1: side, y1: y(query), x2: whole - side, y2: y(key), class: isTo ? "weight to" : "weight", "stroke-opacity": weight.toFixed(3) });
      line.append(draw("title", { text: `${queries[query]} → ${keys[key]}: ${weight.toFixed(4)}` }));
      svg.append(line);
    });
  });
  const label = (text, index, x, anchor, strength, isPicked) => {
    const action = isPicked && onpick && (() => onpick(index));
    const group = draw("g", { class: action ? "pick" : null, on: action ? { click: action } : {} });
    group.append(draw("rect", { x: anchor === "end" ? 0 : whole - side + 4, y: index * ROW + 5, width: side - 4, height: ROW - 2, rx: 3, class: "shade", "fill-opacity": strength.toFixed(3) }));
    group.append(draw("text", { x, y: y(index) + 4, "text-anchor": anchor, class: token === index && action ? "strong" : null, text: shorten(text, side - 14) }));
    svg.append(group);
  };
  queries.forEach((text, index) => label(text, index, side - 8, "end", token === index ? 0.35 : 0, true));
  keys.forEach((text, index) => label(text, index, whole - side + 10, "start", token >= 0 ? 0.85 * weights[token][index] : 0, isSelf));
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
      const cells = draw("g", { transform: `scale(${inner / keys} ${inner / queries})`, class: "cells" });
      for (const [opacity, path] of shades(layer, head, queries, keys, weightOf)) cells.append(draw("path", { d: path, "stroke-opacity": opacity }));
      group.append(cells);
      group.append(draw("title", { text: `layer ${layer + 1}, head ${head + 1}` }));
      svg.append(group);
    }
  }
  return svg;
};

// Weights of one head as the lines of a path for each shade: equal neighbors of a row are one line, a row is 1 high.
function shades(layer, head, queries, keys, weightOf) {
  const paths = Array.from({ length: STEPS + 1 }, () => []);
  for (let query = 0; query < queries; query += 1) {
    let [start, step] = [0, 0];
    for (let key = 0; key <= keys; key += 1) {
      const next = key < keys ? SHADE_OF[weightOf(layer, head, query, key)] : 0;
      if (next === step) continue;
      if (step) paths[step].push(`M${start} ${query}.5h${key - start}`);
      [start, step] = [key, next];
    }
  }
  return paths.flatMap((parts, step) => (parts.length ? [[(step / STEPS).toFixed(2), parts.join("")]] : []));
}
