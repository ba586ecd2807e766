// Counts of values in bins, as vertical bars.

import { draw } from "../dom.js";
import { ticks } from "./lines.js";
import { measure } from "./text.js";

/** edges: bin bounds, one more than counts; marks: label to the place of a dashed line; unit: at the end of the axis. */
export const histogram = (edges, counts, { name = "Histogram", height = 200, marks = {}, unit = "" } = {}) => (width) => {
  const [top, foot] = [10, 26];
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": name });
  const most = Math.max(...counts, 1);
  const [low, high] = [edges[0], edges.at(-1)];
  const x = (value) => ((value - low) / (high - low || 1)) * width;
  counts.forEach((count, index) => {
    const tall = (count / most) * (height - top - foot);
    const bar = draw("rect", { x: x(edges[index]), y: height - foot - tall, width: Math.max(x(edges[index + 1]) - x(edges[index]) - 0.5, 0.5), height: Math.max(tall, count ? 1 : 0), class: "bar" });
    bar.append(draw("title", { text: `${edges[index].toPrecision(3)} to ${edges[index + 1].toPrecision(3)}: ${count.toLocaleString("en-US")}` }));
    svg.append(bar);
  });
  svg.append(draw("line", { x1: 0, x2: width, y1: height - foot, y2: height - foot, class: "axis" }));
  const end = unit ? width - measure(unit, 12) - 12 : width;
  const inside = ticks(low, high, Math.max(2, Math.floor(width / 110))).filter((tick) => tick >= low && tick <= high && x(tick) < end + 1);
  for (const tick of inside) {
    const at = x(tick);
    svg.append(draw("text", { x: at, y: height - 8, "text-anchor": at < 24 ? "start" : at > end - 24 ? "end" : "middle", class: "dim", text: Number(tick.toPrecision(4)) }));
  }
  if (unit) svg.append(draw("text", { x: width, y: height - 8, "text-anchor": "end", class: "dim", text: unit }));
  for (const [mark, value] of Object.entries(marks).filter(([, one]) => one >= low && one <= high)) {
    const isRight = x(value) > 0.6 * width;
    svg.append(
      draw("line", { x1: x(value), x2: x(value), y1: 0, y2: height - foot, class: "baseline" }),
      draw("text", { x: x(value) + (isRight ? -6 : 6), y: 12, "text-anchor": isRight ? "end" : "start", class: "dim", text: mark }),
    );
  }
  return svg;
};
