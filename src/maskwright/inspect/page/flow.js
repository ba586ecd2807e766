// Attention through all layers: rollout and flow, to the tokens of the input.

function flow(reading, map, panel) {
  if (!map.rollout) {
    panel.append(h("p", { class: "note" }, "Rollout and flow follow a token through its own text. Choose the attention of the source or of the target above."));
    return;
  }
  const depth = map.rollout.shape[0];
  const layer = clamp(map.layers[at(map).layer] - 1, 0, depth - 1);
  const rows = map.queries.labels.map((_, query) => map.rollout.row(layer, query));
  const full = Math.max(...rows.map((row) => Math.max(...row)));
  const name = `rollout up to layer ${layer + 1} of ${depth}`;
  panel.append(h("section", {}, h("h3", {}, "Rollout"),
    h("p", { class: "note" }, "Each layer's attention, in the mean of its heads and mixed half with the residual connection, multiplied through: the share of all paths that lead from a token here to one of the input."),
    heat(panel, { rows, down: map.queries, across: map.keys, name, chosen: at(map).token, full, pick: (query) => change({ token: query }) })));
  const token = focus(map);
  const share = map.rollout.row(depth - 1, token);
  const pipes = map.flow ? map.flow.row(token) : null;
  const most = Math.max(...share, ...(pipes || [0]));
  panel.append(h("section", {}, h("h3", {}, "Where ", h("q", { dir: "auto" }, map.queries.labels[token]), " at the top comes from"),
    h("div", { class: "wide" }, h("table", { class: "flows" },
      h("thead", {}, h("tr", {}, ["input", "rollout", pipes ? "flow" : null].filter(Boolean).map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, map.keys.labels.map((label, key) => (!map.causal || key <= token) && h("tr", {},
        h("th", { scope: "row", dir: "auto", class: map.keys.texts[key] < 0 ? "special" : null }, label),
        h("td", {}, barOf(share[key] / most), h("span", { class: "value" }, percent(share[key]))),
        pipes ? h("td", { class: "other" }, barOf(pipes[key] / most), h("span", { class: "value" }, percent(pipes[key]))) : null,
      ))))),
    h("p", { class: "note" }, pipes
      ? "Flow is the most that pipes of these capacities carry from the token at the top to one of the input; of several inputs it need not sum to 1."
      : "Flow is left out of the page of a long text: maskwright inspect computes it for one token."),
    button("Save CSV", () => saveCsv("flow.csv", [["input", "rollout", ...(pipes ? ["flow"] : [])], ...map.keys.labels.map((label, key) => [label, share[key], ...(pipes ? [pipes[key]] : [])])]), { class: "quiet" })));
}
