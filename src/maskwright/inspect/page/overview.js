// All heads: a row for each layer, a thumbnail for each head.

const THUMB = 48;

function overview(reading, map, panel) {
  const box = h("div", { class: "thumbs", role: "grid", "aria-label": "All heads" });
  box.style.setProperty("--heads", map.heads.length);
  const colors = theme();
  box.append(h("div", { class: "line", role: "row" }, h("span", { class: "corner", role: "columnheader" }, h("span", { class: "unseen" }, "layer")), map.heads.map((head) => h("span", { class: "head", role: "columnheader" }, head))));
  map.layers.forEach((layer, row) => {
    const line = h("div", { class: "line", role: "row" }, h("span", { class: "layer", role: "rowheader" }, layer));
    map.heads.forEach((head, column) => {
      const known = nameOf(map, row, column);
      const isChosen = row === at(map).layer && at(map).heads[0] === column;
      const picture = thumb(map, row, column, colors);
      line.append(
        h("div", { role: "gridcell" }, h(
          "button",
          {
            type: "button", class: "thumb", "aria-label": `layer ${layer}, head ${head}${known ? `: ${known.text}` : ""}`,
            title: `layer ${layer}, head ${head}${known ? `\n${known.text}` : ""}`, "data-key": `thumb-${row}-${column}`,
            "aria-current": isChosen ? "true" : null, tabindex: isChosen ? 0 : -1,
            onclick: () => change({ view: "lines", layer: row, heads: [column] }),
            onkeydown: (event) => walkGrid(event, box, row, column, map),
          },
          picture,
          known ? h("span", { class: "sign", "aria-hidden": "true" }, known.sign) : null,
        )),
      );
    });
    box.append(line);
  });
  panel.append(box, h("div", { class: "below" }, button("Save PNG", () => savePng("heads.png", sheetOf(box, map)), { class: "quiet" })), legendOf(map));
}

// All heads as one picture, layers as rows, heads as columns.
function sheetOf(box, map) {
  const [edge, step, side] = [28, 78, 72];
  const colors = theme();
  const [picture, context] = canvas(edge + step * map.heads.length, edge + step * map.layers.length, "All heads");
  context.fillStyle = css(colors.paper);
  context.fillRect(0, 0, picture.width, picture.height);
  context.imageSmoothingEnabled = false;
  box.querySelectorAll(".thumb canvas").forEach((one, i) => context.drawImage(one, edge + step * (i % map.heads.length), edge + step * Math.floor(i / map.heads.length), side, side));
  Object.assign(context, { font: `12px ${colors.font}`, fillStyle: colors.soft, textAlign: "center", textBaseline: "middle" });
  map.heads.forEach((head, column) => context.fillText(head, edge + step * column + side / 2, edge / 2));
  map.layers.forEach((layer, row) => context.fillText(layer, edge / 2, edge + step * row + side / 2));
  return picture;
}

const SIGNS = {
  "previous token": "←", "next token": "→", "same token": "=", "same word": "##", "first token": "⊢", separator: "‖",
  itself: "•", punctuation: ".", "other text": "⇄", diagonal: "⟍",
};

// The best pattern of a head, if it has at least a third of the attention and twice the uniform score.
function nameOf(map, row, column) {
  let found = null;
  for (const one of map.patterns) {
    const score = one.scores[row][column];
    if (score >= 0.33 && score >= 2 * one.even && (!found || score > found.score)) found = { score, one };
  }
  return found && { sign: SIGNS[found.one.pattern] || "", pattern: found.one.pattern, text: `${percent(found.score)} to ${found.one.meaning} (even: ${percent(found.one.even)})` };
}

function legendOf(map) {
  const known = new Map();
  map.layers.forEach((_, row) => map.heads.forEach((_, column) => {
    const name = nameOf(map, row, column);
    if (name) known.set(name.pattern, (known.get(name.pattern) || 0) + 1);
  }));
  if (!known.size) return h("p", { class: "note" }, "No head has a third of its attention on one of the known patterns.");
  const rows = [...known].sort((a, b) => b[1] - a[1]);
  return h("div", { class: "signs" }, h("p", { class: "note" }, "Heads with at least a third of their attention on one pattern, and twice the uniform score:"),
    h("ul", {}, rows.map(([pattern, count]) => h("li", {}, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[pattern]), ` ${pattern} `, h("span", { class: "count" }, count)))));
}

// Queries as rows, keys as columns; in a long text each point is the largest weight of its range, relative to its row.
function thumb(map, row, column, colors) {
  const [, , queries, keys] = map.weights.shape;
  const size = [Math.min(queries, THUMB), Math.min(keys, THUMB)];
  const picture = h("canvas", { width: size[1], height: size[0], "aria-hidden": "true" });
  const context = picture.getContext("2d");
  const image = context.createImageData(size[1], size[0]);
  const { bytes } = map.weights; // compared without conversion: a long text has millions
  const most = bytes ? new Uint8Array(size[0] * size[1]) : new Float32Array(size[0] * size[1]);
  for (let query = 0; query < queries; query++) {
    const start = map.weights.start([row, column, query]);
    const own = (bytes || map.weights.values).subarray(start, start + keys);
    const line = Math.floor((query * size[0]) / queries) * size[1];
    for (let key = 0; key < keys; key++) {
      const place = line + Math.floor((key * size[1]) / keys);
      if (own[key] > most[place]) most[place] = own[key];
    }
  }
  const full = queries > THUMB ? Math.max(...most) || 1 : bytes ? 255 : 1;
  most.forEach((weight, place) => {
    const part = bytes ? weight / full : Math.sqrt(weight / full); // bytes are already roots
    const rgb = shade(colors, part);
    image.data.set([rgb[0], rgb[1], rgb[2], 255], 4 * place);
  });
  context.putImageData(image, 0, 0);
  return picture;
}

function walkGrid(event, box, row, column, map) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e3], End: [0, 1e3] }[event.key];
  if (!step) return;
  event.preventDefault();
  const next = [clamp(row + step[0], 0, map.layers.length - 1), clamp(column + step[1], 0, map.heads.length - 1)];
  const all = box.querySelectorAll(".thumb");
  all.forEach((one) => { one.tabIndex = -1; });
  const found = all[next[0] * map.heads.length + next[1]];
  found.tabIndex = 0;
  found.focus();
}
