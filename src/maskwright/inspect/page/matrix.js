// One head as a matrix: queries as rows, keys as columns, the weight as a shade.

const LETTERS = 14; // of a label at an axis

function matrix(reading, map, panel) {
  const head = at(map).heads[0];
  const rows = map.queries.labels.map((_, query) => map.weights.row(at(map).layer, head, query));
  const name = `layer ${map.layers[at(map).layer]}, head ${map.heads[head]}`;
  panel.append(
    headChips(map, map.heads.length, theme(), true),
    heat(panel, { rows, down: map.queries, across: map.keys, name, chosen: at(map).token, full: Math.max(...rows.map((row) => Math.max(...row))), pick: (query) => change({ token: query }) }),
  );
}

// A matrix of numbers from 0 to 1, or from −1 if signed, with its axes. rows: arrays; down, across: sides; pick: called
// with the selected row.
function heat(panel, { rows, down, across, name, chosen = -1, pick = null, full = 1, format = number, isSigned = false }) {
  const colors = theme();
  const room = Math.min(panel.clientWidth || 340, 1100);
  const labels = [...down.labels, ...across.labels].map((label) => cut(label, LETTERS));
  const side = Math.min(Math.ceil(Math.max(...labels.map((label) => widthOf(label, 12)))) + 10, room * 0.3);
  const roomy = Math.min((room - side - 2) / across.labels.length, 34);
  const isLabelled = roomy >= 9;
  const cell = isLabelled ? roomy : Math.min((room - 2) / across.labels.length, 9);
  const [left, top] = isLabelled ? [side, side] : [0, 0];
  const width = left + cell * across.labels.length + 1;
  const height = top + cell * down.labels.length + 1;
  const [picture, context] = canvas(width, height, `${name}: a matrix of ${down.labels.length} by ${across.labels.length} weights`);
  const size = { left, top, cell, isLabelled };
  const tone = (value) => (state.root ? Math.sign(value) * Math.sqrt(Math.abs(value) / full) : value / full);
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  let cursor = [Math.max(chosen, 0), 0];
  const point = (query, key) => {
    cursor = [clamp(query, 0, down.labels.length - 1), clamp(key, 0, across.labels.length - 1)];
    const value = rows[cursor[0]][cursor[1]];
    readout.replaceChildren(h("b", { dir: "auto" }, down.labels[cursor[0]]), " → ", h("b", { dir: "auto" }, across.labels[cursor[1]]), ` ${format(value)}`);
    frame.hidden = false;
    Object.assign(frame.style, { left: `${left + cell * cursor[1]}px`, top: `${top + cell * cursor[0]}px`, width: `${Math.max(cell, 5)}px`, height: `${Math.max(cell, 5)}px` });
  };
  const frame = h("span", { class: "frame", hidden: true });
  const place = (event) => {
    const box = picture.getBoundingClientRect();
    return [Math.floor((event.clientY - box.top - top) / cell), Math.floor((event.clientX - box.left - left) / cell)];
  };
  const inside = ([query, key]) => query >= 0 && key >= 0 && query < down.labels.length && key < across.labels.length;
  picture.tabIndex = 0;
  picture.dataset.key = `heat-${name}`;
  picture.addEventListener("pointermove", (event) => { const own = place(event); if (inside(own)) point(...own); });
  picture.addEventListener("click", (event) => { const own = place(event); if (pick && inside(own)) pick(own[0] === chosen ? -1 : own[0]); });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) point(cursor[0] + step[0], cursor[1] + step[1]);
    else if (event.key === "Enter" && pick) pick(cursor[0] === chosen ? -1 : cursor[0]);
    else return;
    event.preventDefault();
  });
  drawHeat(context, rows, down, across, colors, size, tone, chosen, [width, height]);
  return h("div", { class: "heat" },
    h("div", { class: "holder" }, picture, frame), readout,
    h("div", { class: "below" }, scaleOf(colors, full, format, isSigned), rootSwitch(),
      button("Save PNG", () => savePng(`${name.replaceAll(/[^a-z0-9]+/gi, "-")}.png`, picture), { class: "quiet" }),
      button("Save CSV", () => saveCsv(`${name.replaceAll(/[^a-z0-9]+/gi, "-")}.csv`, [["", ...across.labels], ...rows.map((row, i) => [down.labels[i], ...row])]), { class: "quiet" })));
}

function drawHeat(context, rows, down, across, colors, { left, top, cell, isLabelled }, tone, chosen, [width, height]) {
  context.fillStyle = css(colors.paper);
  context.fillRect(0, 0, width, height);
  const gap = cell >= 6 ? 1 : 0;
  if (cell < 6) return drawDense(context, rows, colors, cell, tone);
  rows.forEach((row, query) => {
    for (let key = 0; key < row.length; key++) {
      context.fillStyle = css(shade(colors, tone(row[key])));
      context.fillRect(left + cell * key, top + cell * query, cell - gap, cell - gap);
    }
  });
  if (!isLabelled) return;
  const letters = Math.min(12, cell);
  context.textBaseline = "middle";
  down.labels.forEach((label, query) => {
    context.font = `${query === chosen ? 700 : 400} ${letters}px ${colors.font}`;
    context.fillStyle = down.texts[query] < 0 ? colors.soft : colors.ink;
    context.textAlign = "right";
    context.fillText(cut(label, LETTERS), left - 6, top + cell * (query + 0.5));
  });
  context.font = `${letters}px ${colors.font}`;
  context.textAlign = "left";
  across.labels.forEach((label, key) => {
    context.fillStyle = across.texts[key] < 0 ? colors.soft : colors.ink;
    context.save();
    context.translate(left + cell * (key + 0.5), top - 6);
    context.rotate(-Math.PI / 2);
    context.fillText(cut(label, LETTERS), 0, 0);
    context.restore();
  });
}

// Cells without labels: one picture, a pixel each, scaled.
function drawDense(context, rows, colors, cell, tone) {
  const points = h("canvas", { width: rows[0].length, height: rows.length });
  const inner = points.getContext("2d");
  const image = inner.createImageData(points.width, points.height);
  rows.forEach((row, query) => row.forEach((value, key) => {
    const rgb = shade(colors, tone(value));
    image.data.set([rgb[0], rgb[1], rgb[2], 255], 4 * (query * row.length + key));
  }));
  inner.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = cell < 1;
  context.drawImage(points, 0, 0, cell * points.width, cell * points.height);
}

// Legend of the shades.
function scaleOf(colors, full, format = number, isSigned = false) {
  const steps = isSigned ? [-1, -0.5, 0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  return h("span", { class: "scale", role: "img", "aria-label": `Shades from ${isSigned ? format(-full) : 0} to ${format(full)}${state.root ? ", of the roots" : ""}` },
    steps.map((step) => {
      const one = h("i", {});
      one.style.background = css(shade(colors, state.root ? Math.sign(step) * Math.sqrt(Math.abs(step)) : step));
      return h("span", {}, one, format(step * full, 2));
    }));
}

function rootSwitch() {
  return button("Amplify small values", () => change({ root: !state.root }), {
    class: "quiet", "aria-pressed": state.root ? "true" : "false", "data-key": "root", title: "Shades show the square root: small values can be distinguished",
  });
}
