// Boxes with arrows.

import { draw } from "../dom.js";
import { measure } from "./text.js";

const [WIDE, HIGH, TALL, HEAD] = [168, 76, 36, 7]; // from column to column, from row to row, of a box, of an arrow's head

/** boxes: [{ text, column, row, is_strong }]; arrows: [{ start, end, label }], by the indices of the boxes. */
export const flow = ({ boxes, arrows }, name) => () => {
  const placed = boxes.map((box) => ({ ...box, x: (box.column + 0.5) * WIDE, y: (box.row + 0.5) * HIGH, half: Math.max(measure(box.text, 14) + 24, 72) / 2 }));
  const width = Math.ceil(Math.max(...placed.map((box) => box.x + box.half)) + 4);
  const height = HIGH * (Math.max(...boxes.map((box) => box.row)) + 1);
  const edge = (box, other) => {
    const [dx, dy] = [other.x - box.x, other.y - box.y];
    const reach = Math.min(dx ? (box.half + 3) / Math.abs(dx) : Infinity, dy ? (TALL / 2 + 3) / Math.abs(dy) : Infinity);
    return [box.x + dx * reach, box.y + dy * reach];
  };
  const lines = arrows.flatMap(({ start, end, label }) => {
    const [[x1, y1], [x2, y2]] = [edge(placed[start], placed[end]), edge(placed[end], placed[start])];
    const turn = Math.atan2(y2 - y1, x2 - x1);
    const wings = [-0.45, 0.45].map((side) => `${x2 - HEAD * Math.cos(turn + side)},${y2 - HEAD * Math.sin(turn + side)}`);
    const isLevel = Math.abs(y2 - y1) < 4;
    const place = isLevel ? { x: (x1 + x2) / 2, y: y1 - 7, "text-anchor": "middle" } : { x: (x1 + x2) / 2 + 8, y: (y1 + y2) / 2 - 3 };
    return [
      draw("line", { x1, y1, x2, y2, class: "arrow" }),
      draw("polygon", { points: [`${x2},${y2}`, ...wings].join(" "), class: "tip" }),
      label && draw("text", { ...place, class: "dim", text: label }),
    ];
  });
  const shapes = placed.flatMap((box) => [
    draw("rect", { x: box.x - box.half, y: box.y - TALL / 2, width: 2 * box.half, height: TALL, rx: 6, class: box.is_strong ? "box strong" : "box" }),
    draw("text", { x: box.x, y: box.y + 5, "text-anchor": "middle", text: box.text }),
  ]);
  return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": name }, lines, shapes);
};
