// A matrix of numbers as cells, darker for larger values, with the value if it fits.

import { draw } from "../dom.js";
import { measure, shorten } from "./text.js";

const LEGEND = 30; // height of the scale of colors

/**
 * rows, columns: names; values[row][column]: numbers or null; from, to: the values drawn empty and full; shown(value): its
 * text, or label(row, column) that of a cell; onpick(row, column): called when a cell is selected. Negative values have another color if `from` is 0 or less.
 */
export const heat = (rows, columns, values, { from = 0, to = 1, shown = (value) => value.toFixed(2), name = "Matrix", square = true, onpick = null, chosen = null, label: labelOf = null } = {}) => (width) => {
  const left = Math.ceil(Math.min(Math.max(...rows.map((row) => measure(row))) + 10, 0.38 * width));
  const room = (width - left) / columns.length;
  const cell = Math.max(Math.floor(Math.min(room, square ? 72 : 60)), 17);
  const tall = square ? Math.min(cell, 44) : 24;
  const slanted = Math.max(...columns.map((column) => measure(column, 12))) > cell - 6;
  const longest = Math.min(Math.max(...columns.map((column) => measure(column, 12))), 120);
  const top = slanted ? Math.ceil(longest) + 10 : 22;
  const scale = Math.min(cell * columns.length, 160); // the width of the legend
  const full = Math.max(left + cell * columns.length + 2, left + scale + measure(shown(to), 12) + 8);
  const height = top + tall * rows.length + 2 + LEGEND;
  const svg = draw("svg", { width: full, height, viewBox: `0 0 ${full} ${height}`, "aria-label": name });
  const wide = measure(shown(from < 0 ? -1 : to)) < cell - 4;

  columns.forEach((column, index) => {
    const x = left + (index + 0.5) * cell;
    const place = slanted ? { transform: `translate(${x + 4} ${top - 6}) rotate(-90)` } : { x, y: top - 7, "text-anchor": "middle" };
    const label = draw("text", { ...place, class: "dim", text: slanted ? shorten(column, longest, 12) : column });
    label.append(draw("title", { text: column }));
    svg.append(label);
  });
  rows.forEach((row, rowIndex) => {
    const y = top + rowIndex * tall;
    const label = draw("text", { x: left - 8, y: y + tall / 2 + 4, "text-anchor": "end", class: chosen === rowIndex ? "strong" : null, text: shorten(row, left - 10) });
    label.append(draw("title", { text: row }));
    svg.append(label);
    columns.forEach((column, columnIndex) => {
      const value = values[rowIndex][columnIndex];
      if (value === null || value === undefined) return;
      const words = labelOf ? labelOf(rowIndex, columnIndex) : shown(value);
      const { fill, share, opacity } = colorOf(value, from, to);
      const box = draw("rect", {
        x: left + columnIndex * cell, y, width: cell, height: tall, class: "cell",
        fill, "fill-opacity": opacity,
        on: onpick ? { click: () => onpick(rowIndex, columnIndex) } : {},
      });
      box.append(draw("title", { text: `${row} · ${column}: ${words}` }));
      svg.append(box);
      if (wide) {
        const ink = share > 0.55 ? "var(--paper)" : "var(--ink)";
        const text = draw("text", { x: left + (columnIndex + 0.5) * cell, y: y + tall / 2 + 4, "text-anchor": "middle", "pointer-events": "none", text: words });
        text.style.fill = ink;
        svg.append(text);
      }
    });
  });
  svg.append(...legend(left, height - LEGEND + 12, scale, from, to, shown));
  return svg;
};

/** The lower end of a scale up to 1 for cosine similarities from `low`: similar values differ in color, too. */
export const closeScale = (low) => Math.min(Math.max(Math.floor(10 * low) / 10, 0), 0.9);

/** One hue for values from 0 (or `from`) up, and another below 0; opacity grows with the distance. */
function colorOf(value, from, to) {
  const isBelow = from <= 0 && value < 0;
  const low = Math.max(from, 0);
  const share = isBelow ? Math.min(value / (from || -1), 1) : Math.min(Math.max((value - low) / (to - low || 1), 0), 1);
  return { fill: isBelow ? "var(--s1)" : "var(--s0)", share, opacity: (0.04 + 0.9 * share).toFixed(3) };
}

/** The colors from the lowest to the highest value. */
function legend(x, y, width, from, to, shown) {
  const steps = 16;
  const boxes = Array.from({ length: steps }, (_, index) => {
    const { fill, opacity } = colorOf(from + (to - from) * (index / (steps - 1)), from, to);
    return draw("rect", { x: x + (index * width) / steps, y, width: width / steps, height: 10, fill, "fill-opacity": opacity });
  });
  const [low, high] = [draw("text", { x: x - 6, y: y + 9, "text-anchor": "end", class: "dim", text: shown(from) }), draw("text", { x: x + width + 6, y: y + 9, class: "dim", text: shown(to) })];
  return [low, ...boxes, high];
}
