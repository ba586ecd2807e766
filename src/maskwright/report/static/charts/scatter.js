// Points with their names, on equal scales.

import { draw } from "../dom.js";
import { measure, shorten } from "./text.js";

const SIDE = 20; // left of the axis

/** points: [{ x, y, label, hint, color }], without labels with the number of its color in the middle of each; axes: the names of both directions. */
export const scatter = (points, { name = "Map", axes = ["", ""] } = {}) => (width) => {
  const height = Math.round(Math.min(Math.max(0.62 * width, 280), 520));
  const [side, top, foot] = [SIDE, 14, 34];
  const span = (key) => [Math.min(...points.map((point) => point[key])), Math.max(...points.map((point) => point[key]))];
  const [[left, right], [low, high]] = [span("x"), span("y")];
  const scale = Math.min((width - 2 * side - 60) / (right - left || 1), (height - top - foot - 24) / (high - low || 1));
  const x = (value) => width / 2 + (value - (left + right) / 2) * scale;
  const y = (value) => (height - foot + top) / 2 - (value - (low + high) / 2) * scale;
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": name });
  svg.append(
    draw("line", { x1: side, x2: width - side, y1: height - foot + 6, y2: height - foot + 6, class: "axis" }),
    draw("line", { x1: side, x2: side, y1: top, y2: height - foot + 6, class: "axis" }),
    draw("text", { x: width - side, y: height - 10, "text-anchor": "end", class: "dim", text: axes[0] }),
    draw("text", { transform: `translate(${side - 6} ${top}) rotate(-90)`, "text-anchor": "end", class: "dim", text: axes[1] }),
  );
  const isNamed = points.some((point) => point.label);
  const boxes = [];
  for (const point of points) {
    const [px, py] = [x(point.x), y(point.y)];
    const dot = draw("circle", { cx: px, cy: py, r: isNamed ? 5 : points.length < 1000 ? 3.5 : 2, class: `dot ${isNamed ? "" : "small "}c${(point.color ?? 0) % 6}` });
    dot.append(draw("title", { text: point.hint ?? point.label }));
    svg.append(dot);
    boxes.push({ x1: px - 6, x2: px + 6, y1: py - 6, y2: py + 6 });
  }
  if (isNamed) for (const point of points) svg.append(...labeled(point, x(point.x), y(point.y), width, boxes));
  else for (const [color, own] of Object.entries(Object.groupBy(points, (point) => point.color))) {
    const [px, py] = ["x", "y"].map((key) => own.reduce((sum, point) => sum + point[key], 0) / own.length);
    svg.append(draw("text", { x: x(px), y: y(py) + 6, "text-anchor": "middle", class: `center c${color % 6}`, text: Number(color) + 1 }));
  }
  return svg;
};

/** A position for the name without overlap: right, left, above or below; none if crowded (shown on hover). */
function labeled(point, px, py, width, boxes) {
  const text = shorten(point.label, 0.42 * width);
  const wide = measure(text);
  const middle = Math.max(SIDE + 4, Math.min(px - wide / 2, width - wide - 2));
  for (const [start, ty, anchor] of [[px + 9, py + 4, "start"], [px - 9 - wide, py + 4, "end"], [middle, py - 10, "start"], [middle, py + 18, "start"]]) {
    const box = { x1: start - 2, x2: start + wide + 2, y1: ty - 11, y2: ty + 4 };
    if (box.x1 < SIDE || box.x2 > width || boxes.some((other) => box.x1 < other.x2 && other.x1 < box.x2 && box.y1 < other.y2 && other.y1 < box.y2)) continue;
    boxes.push(box);
    return [draw("text", { x: anchor === "end" ? start + wide : start, y: ty, "text-anchor": anchor, text })];
  }
  return [];
}
