// A map of many points on a canvas, in two or three dimensions: move, zoom, turn, hover, click, and select with a lasso.

import { make } from "../dom.js";
import { measure, shorten } from "./text.js";

const EDGE = 24;
const NEAR = 12; // pixels from a point that still count as on it
const COLORS = 6;
const SHAPES = ["circle", "square", "triangle", "diamond"];

/** The color (0 to 5) and the shape of a group: 24 are told apart, and then they repeat. */
export const styleOf = (group) => ({ color: group % COLORS, shape: SHAPES[Math.floor(group / COLORS) % SHAPES.length] });

/**
 * A canvas with `update(points)`: { places: Float32Array, dimensions, groups, names, faded(index), marked, picked, near,
 * hint(index) }. onpick(index): a point is clicked; onlasso(indices): points were encircled.
 */
export function cloud({ name, onpick, onlasso }) {
  const canvas = make("canvas", { class: "cloud", role: "img", "aria-label": name });
  const hint = make("p", { class: "hint", hidden: true });
  const whole = make("div", { class: "cloud-box" }, canvas, hint);
  let points = null;
  let view = null;
  let drawn = { x: new Float32Array(0), y: new Float32Array(0), depth: new Float32Array(0) };
  let [drag, ring, scheduled] = [null, null, false];

  const reset = () => (view = { scale: 1, x: 0, y: 0, turn: 0.6, tilt: 0.35 });
  reset();
  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      render();
    });
  };

  /** Places in pixels; in three dimensions turned around the vertical axis, then tilted. */
  function placeAll(width, height) {
    const { places, dimensions } = points;
    const count = places.length / dimensions;
    const middle = [0, 0, 0];
    let far = 0;
    for (let axis = 0; axis < dimensions; axis += 1) {
      let [low, high] = [Infinity, -Infinity];
      for (let index = 0; index < count; index += 1) {
        const value = places[index * dimensions + axis];
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
      middle[axis] = (low + high) / 2;
      far = Math.max(far, (high - low) / 2);
    }
    const scale = ((Math.min(width, height) / 2 - EDGE) / (far || 1)) * view.scale;
    const stretch = dimensions === 2 ? Math.min(width / height, 1.6) : 1;
    drawn = { x: new Float32Array(count), y: new Float32Array(count), depth: new Float32Array(count) };
    const [sin, cos, up, flat] = [Math.sin(view.turn), Math.cos(view.turn), Math.sin(view.tilt), Math.cos(view.tilt)];
    for (let index = 0; index < count; index += 1) {
      let x = places[index * dimensions] - middle[0];
      let y = places[index * dimensions + 1] - middle[1];
      if (dimensions === 3) {
        const z = places[index * dimensions + 2] - middle[2];
        const [ahead, aside] = [z * cos - x * sin, x * cos + z * sin];
        x = aside;
        [y, drawn.depth[index]] = [y * flat - ahead * up, y * up + ahead * flat];
      }
      drawn.x[index] = width / 2 + (x * stretch * scale) + view.x;
      drawn.y[index] = height / 2 - y * scale + view.y;
    }
  }

  function render() {
    const width = whole.clientWidth;
    if (!points || !width) return;
    const height = Math.round(Math.min(Math.max(0.6 * width, 300), 560));
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    placeAll(width, height);
    const style = getComputedStyle(whole);
    const colors = Array.from({ length: COLORS }, (_, index) => resolved(`--s${index}`));
    const count = drawn.x.length;
    const size = count > 10_000 ? 1.6 : count > 1500 ? 2.5 : 4.5;
    const order = points.dimensions === 3 ? [...drawn.depth.keys()].sort((one, other) => drawn.depth[one] - drawn.depth[other]) : drawn.x.keys();
    for (const index of order) {
      const { color, shape } = styleOf(points.groups[index]);
      pen.globalAlpha = points.faded(index) ? 0.12 : 0.75;
      pen.fillStyle = colors[color];
      mark(pen, shape, drawn.x[index], drawn.y[index], size);
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = style.color;
    if (points.picked >= 0) {
      for (const other of points.near) {
        pen.beginPath();
        pen.moveTo(drawn.x[points.picked], drawn.y[points.picked]);
        pen.lineTo(drawn.x[other], drawn.y[other]);
        pen.stroke();
      }
      circle(pen, points.picked, size + 5, 2);
    }
    if (points.marked.length <= 300) for (const index of points.marked) circle(pen, index, size + 2.5, 1.25);
    label(pen, style, resolved("--paper"));
    if (ring) outline(pen, ring);
  }

  const resolved = (variable) => {
    canvas.style.color = `var(${variable})`;
    return getComputedStyle(canvas).color;
  };

  function circle(pen, index, radius, width) {
    pen.lineWidth = width;
    pen.beginPath();
    pen.arc(drawn.x[index], drawn.y[index], radius, 0, 2 * Math.PI);
    pen.stroke();
    pen.lineWidth = 1;
  }

  function outline(pen, path) {
    pen.setLineDash([4, 4]);
    pen.beginPath();
    path.forEach(([x, y], index) => (index ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
    pen.stroke();
    pen.setLineDash([]);
  }

  /** The name of each group at the mean of its points, so that color is not the only cue. */
  function label(pen, style, paper) {
    const sums = points.names.map(() => [0, 0, 0]);
    for (let index = 0; index < drawn.x.length; index += 1) {
      const sum = sums[points.groups[index]];
      sum[0] += drawn.x[index];
      sum[1] += drawn.y[index];
      sum[2] += 1;
    }
    if (points.names.length < 2 || points.names.length > 24) return;
    pen.font = `600 14px ${style.fontFamily}`;
    pen.textAlign = "center";
    pen.lineWidth = 4;
    pen.lineJoin = "round";
    sums.forEach(([x, y, count], group) => {
      if (!count) return;
      const text = shorten(points.names[group], 140, 14);
      const half = measure(text, 14) / 2 + 4;
      const at = Math.min(Math.max(x / count, half), whole.clientWidth - half);
      pen.strokeStyle = paper;
      pen.strokeText(text, at, y / count);
      pen.fillStyle = style.color;
      pen.fillText(text, at, y / count);
    });
    pen.lineWidth = 1;
    pen.strokeStyle = style.color;
  }

  /** The point at a place in pixels, -1 for none. */
  function at(x, y) {
    let [best, least] = [-1, NEAR * NEAR];
    for (let index = 0; index < drawn.x.length; index += 1) {
      const distance = (drawn.x[index] - x) ** 2 + (drawn.y[index] - y) ** 2;
      if (distance < least && !points.faded(index)) [best, least] = [index, distance];
    }
    return best;
  }

  const placeOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = placeOf(event);
    canvas.setPointerCapture(event.pointerId);
    drag = { x, y, moved: 0 };
    if (whole.isLasso || event.shiftKey) ring = [[x, y]];
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = placeOf(event);
    if (!drag) return showHint(at(x, y), x, y);
    drag.moved += Math.abs(x - drag.x) + Math.abs(y - drag.y);
    if (ring) ring.push([x, y]);
    else if (points.dimensions === 3) {
      view.turn += (x - drag.x) / 150;
      view.tilt += (y - drag.y) / 150;
    } else {
      view.x += x - drag.x;
      view.y += y - drag.y;
    }
    [drag.x, drag.y] = [x, y];
    schedule();
  });
  canvas.addEventListener("pointerup", () => {
    if (!drag) return;
    const path = ring;
    const { x, y, moved } = drag;
    [drag, ring] = [null, null];
    if (moved < 4) {
      const found = at(x, y);
      if (found >= 0) onpick(found);
    } else if (path) onlasso([...drawn.x.keys()].filter((index) => isInside(path, drawn.x[index], drawn.y[index])));
    schedule();
  });
  canvas.addEventListener("pointerleave", () => showHint(-1));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x, y] = placeOf(event);
    zoom(Math.exp(-event.deltaY / 400), x, y);
  }, { passive: false });

  function showHint(index, x = 0, y = 0) {
    hint.hidden = index < 0;
    if (index < 0) return;
    hint.textContent = points.hint(index);
    hint.style.left = `${Math.min(x + 12, Math.max(whole.clientWidth - 260, 0))}px`;
    hint.style.top = `${y + 14}px`;
  }

  function zoom(factor, x = whole.clientWidth / 2, y = canvas.clientHeight / 2) {
    const next = Math.min(Math.max(view.scale * factor, 0.5), 60);
    const own = next / view.scale;
    view.x = (x - whole.clientWidth / 2) * (1 - own) + view.x * own;
    view.y = (y - canvas.clientHeight / 2) * (1 - own) + view.y * own;
    view.scale = next;
    schedule();
  }

  whole.update = (given) => {
    if (points && points.places !== given.places) reset();
    points = given;
    canvas.setAttribute("aria-label", given.name);
    schedule();
  };
  whole.zoom = zoom;
  whole.turn = (angle) => {
    view.turn += angle;
    schedule();
  };
  whole.reset = () => {
    reset();
    schedule();
  };
  whole.placeOf = (index) => [drawn.x[index], drawn.y[index]];
  whole.png = () => new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  new ResizeObserver(schedule).observe(whole);
  window.addEventListener("themechange", schedule);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", schedule);
  return whole;
}

function mark(pen, shape, x, y, size) {
  pen.beginPath();
  if (shape === "circle") pen.arc(x, y, size, 0, 2 * Math.PI);
  else if (shape === "square") pen.rect(x - 0.9 * size, y - 0.9 * size, 1.8 * size, 1.8 * size);
  else {
    const corners = shape === "triangle" ? [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]] : [[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]];
    corners.forEach(([dx, dy], index) => (index ? pen.lineTo(x + dx * size, y + dy * size) : pen.moveTo(x + dx * size, y + dy * size)));
  }
  pen.fill();
}

/** Whether a point is inside a closed path: whether a ray from it crosses the path an odd number of times. */
export function isInside(path, x, y) {
  let inside = false;
  path.forEach(([x1, y1], index) => {
    const [x2, y2] = path[(index + 1) % path.length];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
  });
  return inside;
}
