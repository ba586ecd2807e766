// The page: toolbar at the top, one view below it, two texts or models side by side.

let data = null;

const VIEWS = [
  ["overview", "Overview", overview, "Every head of every layer; queries as rows, keys as columns."],
  ["lines", "Lines", lines, "Attention pattern: a thicker line is a greater weight."],
  ["matrix", "Matrix", matrix, "Every weight of one head."],
  ["neurons", "Neurons", neurons, "Queries, keys and their products."],
  ["steps", "Steps", steps, "One layer of attention, step by step."],
  ["heads", "Heads", heads, "Head patterns."],
  ["flow", "Flow", flow, "Attention rollout and flow through all layers."],
  ["layers", "Layers", layers, "Hidden states by layer."],
  ["predictions", "Predictions", predictions, "Predicted tokens."],
  ["attributions", "Attributions", attributions, "Feature attributions of the prediction."],
];
const HAS = { predictions: (reading) => reading.predictions, attributions: (reading) => !reading.attributions || reading.attributions.length };

function header() {
  const [first, second] = data.readings;
  const quote = (reading) => [h("q", { dir: "auto" }, reading.text), reading.pair === null ? null : [" and ", h("q", { dir: "auto" }, reading.pair)]];
  const written = (reading) => reading.target !== null && h("p", { class: "made" }, reading.written ? "Predicts " : "Target: ", h("q", { dir: "auto" }, reading.target));
  return h("header", {},
    h("p", { class: "over" }, h("span", { class: "name", dir: "auto" }, second && second.name !== first.name ? `${first.name} and ${second.name}` : first.name), h("span", {}, first.facts)),
    h("h1", {}, quote(first), second && second.text !== first.text ? [" against ", quote(second)] : null),
    data.readings.map(written));
}

function toolbar() {
  const maps = data.readings[0].maps;
  const map = maps[state.kind];
  const known = VIEWS.filter(([name]) => !HAS[name] || data.readings.some(HAS[name]));
  const step = (by) => change({ layer: state.layer + by });
  return h("div", { class: "bar-top" },
    h("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, known.map(([name, label], index) => h("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-selected": state.view === name ? "true" : "false", "aria-controls": "panel", tabindex: state.view === name ? 0 : -1, "data-key": `tab-${name}`,
      onclick: () => change({ view: name }),
      onkeydown: (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!by) return;
        const next = known[(index + by + known.length) % known.length][0];
        change({ view: next });
        home.tree.getElementById(`tab-${next}`).focus();
      },
    }, label))),
    !HAS[state.view] && h("div", { class: "fields" },
      maps.length > 1 ? h("label", { class: "field" }, h("span", {}, "attention"), kindSelect(maps)) : null,
      h("div", { class: "stepper", role: "group", "aria-label": "Layer" },
        button("−", () => step(-1), { "aria-label": "layer below", "data-key": "layer-down", disabled: state.layer === 0 }),
        h("span", { "aria-live": "polite" }, `layer ${map.layers[state.layer]}`),
        button("+", () => step(1), { "aria-label": "layer above", "data-key": "layer-up", disabled: state.layer === map.layers.length - 1 })),
      tokenSelect(map.queries, map.kind === "cross" ? "target token" : "token", state.token, (index) => change({ token: index }), "all")),
    !HAS[state.view] && h("p", { class: "source" }, map.source));
}

const KIND_NAMES = { encoder: "source to source", decoder: "target to target, masked", cross: "target to source (cross)" };

function kindSelect(maps) {
  const box = h("select", { "data-key": "kind", onchange: () => change({ kind: Number(box.value), token: -1, key: -1 }) });
  maps.forEach((map, index) => box.append(h("option", { value: index, selected: index === state.kind }, KIND_NAMES[map.kind] || map.kind)));
  return box;
}

function draw(keepFocus = true) {
  const kept = keepFocus && home.tree.activeElement ? home.tree.activeElement.dataset.key : null;
  const scroll = [window.scrollX, window.scrollY];
  const [name, label, view, said] = VIEWS.find(([own]) => own === state.view) || VIEWS[0];
  const panel = h("div", { id: "panel", role: "tabpanel", "aria-labelledby": `tab-${name}`, class: `view ${name}${data.readings.length > 1 ? " two" : ""}` });
  const shown = [toolbar(), h("h2", { class: "unseen" }, label), h("p", { class: "lead" }, said), panel];
  home.root.replaceChildren(...(home.isPart ? shown : [header(), h("main", { class: name }, shown), h("footer", {}, h("p", {}, data.exactness))]));
  if (name === "heads" && data.moves) moved(panel.appendChild(h("div", { class: "moves" })));
  if (name === "heads" && data.comparison) compared(panel.appendChild(h("div", { class: "moves" })));
  if (data.readings.length > 1) differ(name, panel);
  const readings = data.readings.map((reading, index) => {
    const part = panel.appendChild(h("section", { class: "reading", "aria-label": data.readings.length > 1 ? `${index + 1}: ${reading.text}` : null }));
    if (data.readings.length > 1) part.append(h("h2", { dir: "auto" }, data.readings[0].text === data.readings[1].text ? reading.name : reading.text));
    return [reading, part];
  });
  for (const [reading, part] of readings) {
    const map = reading.maps[Math.min(state.kind, reading.maps.length - 1)];
    view(reading, map, part.appendChild(h("div", { class: "content" })));
    if (name === "lines") part.append(saves("attention", () => pictureOfLines(part, map)));
  }
  for (const box of panel.querySelectorAll(".wide, .tall")) if (isScrolled(box)) Object.entries({ tabindex: 0, role: "region", "aria-label": titleOf(box) }).forEach(([key, value]) => box.setAttribute(key, value));
  if (kept) {
    const again = home.tree.querySelector(`[data-key="${CSS.escape(kept)}"]`);
    if (again) again.focus({ preventScroll: true });
  }
  home.tree.getElementById(`tab-${name}`).scrollIntoView({ block: "nearest", inline: "nearest" });
  window.scrollTo(...scroll);
}

// A box with more content than space is scrolled by keyboard, too, and has the name of its heading.
const isScrolled = (box) => box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
const titleOf = (box) => (box.closest("section").querySelector("h3, h2") || home.root.querySelector("h2")).textContent;

// The head view as one picture: the lines with their tokens at both sides.
function pictureOfLines(part, map) {
  const links = part.querySelector(".links");
  const side = (labels) => Math.max(...labels.map((label) => widthOf(label))) + 16;
  const [left, right, middle] = [side(map.queries.labels), side(map.keys.labels), 220];
  const height = Number(links.getAttribute("height"));
  const text = (labels, x, anchor) => labels.map((label, index) => svg("text", { x, y: (index + 0.68) * ROW, "text-anchor": anchor, class: "label" }, label));
  const copy = svg("g", { transform: `translate(${left} 0) scale(${middle / 120} 1)` }, [...links.children].map((line) => line.cloneNode(true)));
  const picture = svg("svg", { width: left + middle + right, height, viewBox: `0 0 ${left + middle + right} ${height}`, class: "saved" }, copy, text(map.queries.labels, left - 8, "end"), text(map.keys.labels, left + middle + 8, "start"));
  part.append(picture);
  queueMicrotask(() => picture.remove());
  return picture;
}

// Show what was unpacked.
async function show(given) {
  data = await load(given);
  readAddress();
  draw();
}

// Draw in `home` from now on, again where the width or the theme changes.
function settle(options) {
  Object.assign(home, options);
  redraw = draw;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width && data) { width = window.innerWidth; draw(); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && draw());
}
