// Curves over steps: one or more series on common axes, with readable ticks.

import { draw } from "../dom.js";
import { measure } from "./text.js";

const DASHES = [null, "7 3", "2 4", "9 3 2 3", "4 4", "1 3"];

/** series: [{ name, xs, ys }], drawn in the colors of their order (or `color`). */
export const lines = (series, { name = "Curves", unit = "step", height = 220 } = {}) => (width) => {
  const drawn = series.map((one, index) => ({ color: index, ...one, points: one.xs.map((x, place) => [x, one.ys[place]]).filter(([, y]) => Number.isFinite(y)) }));
  const points = drawn.flatMap((one) => one.points);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": name });
  if (!points.length) return svg;
  const ys = ticks(Math.min(...points.map(([, y]) => y)), Math.max(...points.map(([, y]) => y)), 4);
  const xs = ticks(Math.min(...points.map(([x]) => x)), Math.max(...points.map(([x]) => x)), Math.max(2, Math.floor(width / 110)), 1);
  const left = 10 + Math.max(...ys.map((tick) => measure(label(tick, ys), 12)));
  const [top, foot, right] = [10, 26, 14];
  const x = (value) => left + ((value - xs[0]) / (xs.at(-1) - xs[0] || 1)) * (width - left - right);
  const y = (value) => height - foot - ((value - ys[0]) / (ys.at(-1) - ys[0] || 1)) * (height - foot - top);
  for (const tick of ys) {
    svg.append(draw("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "grid" }));
    svg.append(draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end", class: "dim", text: label(tick, ys) }));
  }
  xs.forEach((tick, index) => {
    const anchor = index === xs.length - 1 ? "end" : index ? "middle" : "start";
    svg.append(draw("text", { x: index === xs.length - 1 ? width - right : x(tick), y: height - 8, "text-anchor": anchor, class: "dim", text: index === xs.length - 1 ? `${unit} ${label(tick, xs)}` : label(tick, xs) }));
  });
  for (const one of drawn) {
    const path = one.points.map(([px, py], index) => `${index ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
    const line = draw("path", { d: path, class: `line c${one.color % 6}`, "stroke-dasharray": DASHES[one.color % 6] });
    line.append(draw("title", { text: one.name }));
    svg.append(line);
    const [px, py] = one.points.at(-1);
    const dot = draw("circle", { cx: x(px), cy: y(py), r: 4, class: `dot c${one.color % 6}` });
    dot.append(draw("title", { text: `${one.name}: ${py}` }));
    svg.append(dot);
  }
  return svg;
};

/** Round numbers around a range, at least `smallest` apart. */
export function ticks(least, most, count, smallest = 0) {
  const span = most - least || Math.abs(most) || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(power * [1, 2, 5, 10].find((one) => one * power >= rough), smallest);
  const first = Math.floor(least / step + 1e-9);
  const last = Math.max(Math.ceil(most / step - 1e-9), first + 1);
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

function label(value, all) {
  const step = Math.abs(all[1] - all[0]);
  if (step >= 1) return value.toLocaleString("en-US");
  return step < 1e-4 ? value.toExponential(1) : value.toFixed(Math.ceil(-Math.log10(step) - 1e-9));
}
