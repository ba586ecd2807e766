// Curves over steps: one or more series on common axes, with readable ticks, and values at the pointer.

import { draw, refill } from "../dom.js";
import { valueAt } from "./series.js";
import { measure } from "./text.js";

const DOTS_TO = 24; // points; a line with more shows no dot for each
const DASHES = [null, "7 3", "2 4", "9 3 2 3", "4 4", "1 3"];

/** series: [{ name, xs, ys, behind }], drawn in the colors of their order (or `color`); behind: thin lines, [{ xs, ys }]. baselines: heights of dashed lines; isPercent: fractions as percentages. */
export const lines = (series, { name = "Curves", unit = "step", height = 230, isLog = false, isPercent = false, baselines = [] } = {}) => (width) => {
  const drawn = series.map((one, index) => ({ color: index, ...one, points: one.xs.map((x, place) => [x, one.ys[place]]).filter(([, y]) => Number.isFinite(y)) }));
  const thin = drawn.flatMap((one) => (one.behind ?? []).map((line) => ({ color: one.color, points: line.xs.map((x, place) => [x, line.ys[place]]) })));
  const points = [...drawn, ...thin].flatMap((one) => one.points);
  const levels = baselines.filter((value) => !isLog || value > 0);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": name });
  if (!points.length) return svg;
  const [least, most] = [Math.min, Math.max].map((end) => [...points.map(([, y]) => y), ...levels].reduce((one, other) => end(one, other)));
  const ys = isLog ? logTicks(least, most) : ticks(least, most, 4);
  const xs = ticks(points.reduce((found, [x]) => Math.min(found, x), Infinity), points.reduce((found, [x]) => Math.max(found, x), -Infinity), Math.max(2, Math.floor(width / 110)), points.every(([x]) => Number.isInteger(x)) ? 1 : 0);
  const written = isPercent ? (value) => `${short(100 * value)} %` : short;
  const labelOf = (tick) => (isPercent ? written(tick) : isLog ? logLabel(tick) : label(tick, ys));
  const left = 10 + Math.max(...ys.map((tick) => measure(labelOf(tick), 12)));
  const [top, foot, right] = [22, 26, 14];
  const x = (value) => left + ((value - xs[0]) / (xs.at(-1) - xs[0] || 1)) * (width - left - right);
  const scaled = isLog ? Math.log10 : (value) => value;
  const [low, high] = [scaled(ys[0]), scaled(ys.at(-1))];
  const y = (value) => height - foot - ((scaled(value) - low) / (high - low || 1)) * (height - foot - top);
  for (const tick of ys) {
    svg.append(draw("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "grid" }));
    svg.append(draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end", class: "dim", text: labelOf(tick) }));
  }
  xs.forEach((tick, index) => {
    const anchor = index === xs.length - 1 ? "end" : index ? "middle" : "start";
    svg.append(draw("text", { x: index === xs.length - 1 ? width - right : x(tick), y: height - 8, "text-anchor": anchor, class: "dim", text: index === xs.length - 1 ? `${unit} ${label(tick, xs)}` : label(tick, xs) }));
  });
  for (const level of levels) svg.append(draw("line", { x1: left, x2: width - right, y1: y(level), y2: y(level), class: "baseline" }));
  const pathOf = (own) => own.map(([px, py], index) => `${index ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
  for (const one of thin) svg.append(draw("path", { d: pathOf(one.points), class: `raw c${one.color % 6}` }));
  for (const one of drawn.filter((own) => own.points.length)) {
    const path = pathOf(one.points);
    const line = draw("path", { d: path, class: `line c${one.color % 6}`, "stroke-dasharray": DASHES[one.color % 6] });
    line.append(draw("title", { text: one.name }));
    svg.append(line);
    for (const [px, py] of one.points.length > DOTS_TO ? one.points.slice(-1) : one.points) {
      const dot = draw("circle", { cx: x(px), cy: y(py), r: 4, class: `dot c${one.color % 6}` });
      dot.append(draw("title", { text: `${one.name}: ${written(py)}` }));
      svg.append(dot);
    }
  }
  svg.append(pointed(svg, drawn, { x, y, unit, width, written, top, bottom: height - foot }));
  return svg;
};

/** The values of all lines at the x value nearest to the pointer, with a rule and dots; hidden without a pointer. */
function pointed(svg, drawn, { x, y, unit, width, written, top, bottom }) {
  const places = [...new Set(drawn.flatMap((one) => one.points.map(([px]) => px)))].sort((one, other) => one - other);
  const group = draw("g", { class: "pointed", visibility: "hidden" });
  svg.addEventListener("pointermove", (event) => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    const near = places.reduce((best, one) => (Math.abs(x(one) - at) < Math.abs(x(best) - at) ? one : best), places[0]);
    const found = drawn.flatMap((one) => {
      const value = valueAt({ xs: one.points.map(([px]) => px), ys: one.points.map(([, py]) => py) }, near);
      return value === null ? [] : [[one, value]];
    });
    refill(
      group,
      draw("line", { x1: x(near), x2: x(near), y1: top, y2: bottom, class: "axis" }),
      found.map(([one, value]) => draw("circle", { cx: x(near), cy: y(value), r: 4, class: `dot c${one.color % 6}` })),
      draw("text", { x: width - 14, y: 14, "text-anchor": "end" }, `${unit} ${short(near)}`, found.map(([one, value]) => draw("tspan", { class: `c${one.color % 6}`, dx: 10, text: written(value) }))),
    );
    group.setAttribute("visibility", "visible");
  });
  svg.addEventListener("pointerleave", () => group.setAttribute("visibility", "hidden"));
  return group;
}

const short = (value) => (Number.isInteger(value) ? value.toLocaleString("en-US") : String(Number(value.toPrecision(4))));

/** Ticks of a logarithmic axis around a range of positive numbers: powers of ten, in a short range also 2 and 5. */
function logTicks(least, most) {
  const powers = [Math.floor(Math.log10(least) + 1e-9), Math.ceil(Math.log10(most) - 1e-9)];
  const factors = powers[1] - powers[0] > 3 ? [1] : [1, 2, 5];
  const all = Array.from({ length: powers[1] - powers[0] + 1 }, (_, index) => factors.map((factor) => Number(`${factor}e${powers[0] + index}`))).flat();
  const first = all.findLastIndex((tick) => tick <= least);
  const last = all.findIndex((tick) => tick >= most);
  const found = all.slice(Math.max(first, 0), last + 1);
  return found.length > 1 ? found : [found[0] ?? least, 2 * (found[0] ?? least)];
}

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

const logLabel = (value) => (value < 1e-4 || value >= 1e5 ? value.toExponential(0) : value.toLocaleString("en-US", { maximumFractionDigits: 6 }));

function label(value, all) {
  const step = Math.abs(all[1] - all[0]);
  if (step >= 1) return value.toLocaleString("en-US");
  return step < 1e-4 ? value.toExponential(1) : value.toFixed(Math.ceil(-Math.log10(step) - 1e-9));
}
