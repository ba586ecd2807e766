// Hidden states by layer: change, map, nearest neighbors.

const NEAREST = 4;

function layers(reading, map, panel) {
  const own = reading.states;
  const side = own.tokens;
  const depth = own.norms.shape[0];
  const layer = clamp(map.layers[at(map).layer], 0, depth - 1); // states count the embeddings as 0
  const isOne = reading.maps.length === 1;
  const chosen = isOne ? at(map).token : Math.min(state.source, side.labels.length - 1);
  const pick = (token) => change(isOne ? { token } : { source: token });
  const turns = side.labels.map((_, token) => Float32Array.from({ length: depth - 1 }, (_, step) => own.turns.get(step, token)));
  const across = { labels: Array.from({ length: depth - 1 }, (_, i) => `layer ${i + 1}`), texts: new Array(depth - 1).fill(0), writes: [] };
  const full = Math.max(1e-6, ...turns.map((row) => Math.max(...row)));
  const plane = planeOf(own, side, layer, chosen, panel);
  panel.append(
    h("section", {}, h("h3", {}, "Change of each token by layer"),
      h("p", { class: "note" }, "1 − cosine similarity of a token's hidden state to that of the previous layer."),
      heat(panel, { rows: turns, down: side, across, name: "turns", chosen, full, pick })),
    h("section", {}, h("h3", {}, `Tokens after layer ${layer}`), plane,
      h("p", { class: "note" }, "The first two principal components of this layer's hidden states. Points that are close here need not be close in all dimensions."),
      saves(`layer-${layer}`, () => plane)),
  );
  if (own.near) panel.append(nearest(own, side, depth, chosen >= 0 ? chosen : Math.max(0, side.texts.findIndex((text) => text >= 0)), isOne ? null : pick));
}

function planeOf(own, side, layer, chosen, panel) {
  const width = Math.min(panel.clientWidth || 340, 640);
  const height = Math.round(width * 0.62);
  const spots = side.labels.map((label, token) => {
    const [x, y] = own.planes.row(layer, token);
    return { label, token, x: width * (0.5 + 0.42 * x), y: height * (0.5 - 0.44 * y) };
  });
  const taken = spots.map(({ x, y }) => ({ left: x - 4, right: x + 4, top: y - 4, bottom: y + 4 }));
  const isFree = (box) => taken.every((other) => box.right < other.left || box.left > other.right || box.bottom < other.top || box.top > other.bottom);
  return svg("svg", { class: "plane", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `A map of ${side.labels.length} tokens after layer ${layer}` },
    svg("rect", { width, height, class: "ground" }),
    spots.map(({ label, token, x, y }) => {
      const wide = widthOf(cut(label), 12);
      const onLeft = x > width * 0.7;
      const box = { left: onLeft ? x - 8 - wide : x + 8, right: onLeft ? x - 8 : x + 8 + wide, top: y - 8, bottom: y + 8 };
      const isShown = token === chosen || isFree(box);
      if (isShown) taken.push(box);
      return svg("g", { class: token === chosen ? "spot on" : side.texts[token] < 0 ? "spot special" : "spot" },
        svg("title", {}, label), svg("circle", { cx: x, cy: y, r: token === chosen ? 6 : 4 }),
        isShown ? svg("text", { x: onLeft ? x - 8 : x + 8, y: y + 4, "text-anchor": onLeft ? "end" : "start" }, cut(label)) : null);
    }));
}

function nearest(own, side, depth, token, pick) {
  return h("section", {}, h("h3", {}, "Nearest neighbors of ", h("q", { dir: "auto" }, side.labels[token]), " in this text"),
    pick && h("div", { class: "fields" }, tokenSelect(side, "source token", token, pick)),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, ["layer", "nearest tokens, by cosine similarity"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, Array.from({ length: depth }, (_, layer) => {
        const cosines = own.near.row(layer, token);
        const others = best(cosines, NEAREST + 1).filter((index) => index !== token).slice(0, NEAREST);
        return h("tr", {}, h("th", { scope: "row" }, layer === 0 ? "embeddings" : layer),
          h("td", {}, h("ul", { class: "shifts" }, others.map((index) => h("li", {}, h("span", { dir: "auto" }, side.labels[index]), ` ${cosines[index].toFixed(2)}`)))));
      })))),
    button("Save CSV", () => saveCsv("nearest.csv", [["layer", ...side.labels], ...Array.from({ length: depth }, (_, layer) => [layer, ...own.near.row(layer, token)])]), { class: "quiet" }));
}
