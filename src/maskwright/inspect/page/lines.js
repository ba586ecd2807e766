// The head view: query tokens on the left, key tokens on the right, a line for each weight.

const MOST_LINES = 1400;
const LEAST_WEIGHT = 0.01;
const TALL = 60; // number of tokens from which the picture scrolls in a separate box

function lines(reading, map, panel) {
  const count = map.heads.length;
  const colors = theme();
  const width = 120;
  const height = ROW * Math.max(map.queries.labels.length, map.keys.labels.length);
  const picture = svg("svg", { class: "links", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", height, role: "img" });
  const bars = new Array(map.keys.labels.length);
  let pointed = -1;
  let seen = -1;
  const draw = () => drawLines(map, picture, bars, pointed >= 0 ? pointed : at(map).token, seen, colors, width);
  const left = tokenColumn(map.queries, {
    label: map.kind === "cross" ? "target, query" : "query", chosen: at(map).token, align: "right",
    pick: (index) => change({ token: index }), point: (index) => { pointed = index; draw(); },
  });
  const right = tokenColumn(map.keys, {
    label: map.kind === "cross" ? "source, key" : "key", chosen: -1, point: (index) => { seen = index; draw(); }, marks: (index) => (bars[index] = h("span", { class: "bars", "aria-hidden": "true" })),
  });
  panel.append(
    headChips(map, count, colors),
    h("div", { class: map.queries.labels.length > TALL || map.keys.labels.length > TALL ? "tall" : null }, h("div", { class: "linked" }, left, picture, right)),
    h("p", { class: "note", "aria-live": "polite" }),
  );
  draw();
}

// One chip per head; several can be on, each with its color, if the view shows several.
function headChips(map, count, colors, isSingle = false) {
  const box = h("div", { class: "chips", role: "group", "aria-label": `Heads of layer ${map.layers[at(map).layer]}` });
  map.heads.forEach((head, index) => {
    const on = isSingle ? at(map).heads[0] === index : at(map).heads.includes(index);
    const one = h("button", {
      type: "button", class: "chip", "aria-pressed": on ? "true" : "false", "aria-label": `head ${head}`, "data-key": `chip-${index}`,
      title: isSingle ? `head ${head}` : `head ${head}: click to show only this head, with Shift or Ctrl to add it`,
      onclick: (event) => {
        if (isSingle || !(event.shiftKey || event.ctrlKey || event.metaKey)) return change({ heads: [index] });
        const heads = on ? at(map).heads.filter((other) => other !== index) : [...at(map).heads, index].sort((a, b) => a - b);
        return change({ heads });
      },
    }, head);
    one.style.setProperty("--own", hue(index, count, colors.isDark));
    box.append(one);
  });
  const isAll = at(map).heads.length === count;
  if (!isSingle) box.append(button(isAll ? "only one" : "all heads", () => change({ heads: isAll ? [at(map).heads[0]] : map.heads.map((_, index) => index) }), { class: "quiet", "data-key": "chip-all" }));
  return box;
}

function drawLines(map, picture, bars, token, seen, colors, width) {
  const found = [];
  const queries = token >= 0 ? [token] : map.queries.labels.map((_, index) => index);
  for (const head of at(map).heads) {
    for (const query of queries) {
      const own = map.weights.row(at(map).layer, head, query);
      own.forEach((weight, key) => {
        if ((seen < 0 || key === seen) && weight >= (token >= 0 || seen >= 0 ? 0.002 : LEAST_WEIGHT)) found.push([weight, head, query, key]);
      });
    }
  }
  found.sort((a, b) => b[0] - a[0]);
  const shown = found.slice(0, MOST_LINES);
  const isLong = map.keys.labels.length > TALL; // there no weight is near 1, and lines would be too faint
  const lift = isLong && shown.length ? clamp(1 / shown[0][0], 1, 6) : 1;
  picture.replaceChildren(
    ...shown.reverse().map(([weight, head, query, key]) => {
      const [top, bottom] = [(query + 0.5) * ROW, (key + 0.5) * ROW];
      return svg("path", {
        d: `M0 ${top}C${width * 0.45} ${top} ${width * 0.55} ${bottom} ${width} ${bottom}`, fill: "none", "vector-effect": "non-scaling-stroke",
        stroke: hue(head, map.heads.length, colors.isDark), "stroke-opacity": Math.min(1, 0.06 + weight * lift), "stroke-width": 0.6 + 2.6 * weight,
      });
    }),
  );
  picture.setAttribute("aria-label", saidOfLines(map, token, seen, found));
  bars.forEach((bar, key) => bar.replaceChildren(...barsOf(map, token, key, colors)));
  const note = picture.closest(".content") && picture.closest(".content").querySelector(".note");
  if (note) note.textContent = saidOfLines(map, token, seen, found);
}

// Next to a key token: the attention of the selected token to it, for each head.
function barsOf(map, token, key, colors) {
  if (token < 0) return [];
  return at(map).heads.map((head) => {
    const weight = map.weights.get(at(map).layer, head, token, key);
    const bar = h("i", {});
    bar.style.background = hue(head, map.heads.length, colors.isDark);
    bar.style.opacity = String(Math.sqrt(weight));
    return bar;
  });
}

function saidOfLines(map, token, seen, found) {
  const heads = at(map).heads.length === 1 ? `head ${map.heads[at(map).heads[0]]}` : `${at(map).heads.length} heads`;
  const where = `Layer ${map.layers[at(map).layer]}, ${heads}`;
  if (token < 0 && seen >= 0) return `${where}: ${map.keys.labels[seen]} gets most attention from ${found.slice(0, 4).map(([weight, , query]) => `${map.queries.labels[query]} ${percent(weight)}`).join(", ") || "none"}.`;
  if (token < 0) return `${where}: the ${Math.min(found.length, MOST_LINES).toLocaleString("en")} strongest of ${found.length.toLocaleString("en")} weights of at least ${LEAST_WEIGHT}. Select a token to see its weights.`;
  const sums = new Float32Array(map.keys.labels.length);
  for (const head of at(map).heads) map.weights.row(at(map).layer, head, token).forEach((weight, key) => { sums[key] += weight / at(map).heads.length; });
  const most = best(sums, 4).map((key) => `${map.keys.labels[key]} ${percent(sums[key])}`).join(", ");
  return `${where}: ${map.queries.labels[token]} attends to ${most}.`;
}
