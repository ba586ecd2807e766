// Attention through all layers: rollout and flow to the input tokens.

function flow(reading, map, panel) {
  if (!map.rollout) {
    panel.append(h("p", { class: "note" }, "Rollout and flow follow a token through its own text. Select the attention of the source or of the target above."));
    return;
  }
  const depth = map.rollout.shape[0];
  const layer = clamp(map.layers[at(map).layer] - 1, 0, depth - 1);
  const rows = map.queries.labels.map((_, query) => map.rollout.row(layer, query));
  const full = Math.max(...rows.map((row) => Math.max(...row)));
  const name = `rollout up to layer ${layer + 1} of ${depth}`;
  panel.append(h("section", {}, h("h3", {}, "Rollout"),
    h("p", { class: "note" }, "The mean attention of each layer, averaged with the residual connection and multiplied through all layers: the fraction of all paths from a token to an input token."),
    heat(panel, { rows, down: map.queries, across: map.keys, name, chosen: at(map).token, full, pick: (query) => change({ token: query }) })));
  const token = focus(map);
  const share = map.rollout.row(depth - 1, token);
  const pipes = map.flow ? map.flow.row(token) : null;
  panel.append(h("section", {}, h("h3", {}, "Where ", h("q", { dir: "auto" }, map.queries.labels[token]), " at the top comes from"),
    h("div", { class: "wide" }, h("table", { class: "flows" },
      h("thead", {}, h("tr", {}, ["input", "rollout", pipes ? "flow" : null].filter(Boolean).map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, map.keys.labels.map((label, key) => (!map.causal || key <= token) && h("tr", {},
        h("th", { scope: "row", dir: "auto", class: map.keys.texts[key] < 0 ? "special" : null }, label),
        h("td", {}, barOf(share[key]), h("span", { class: "value" }, percent(share[key]))),
        pipes ? h("td", { class: "other" }, barOf(pipes[key]), h("span", { class: "value" }, percent(pipes[key]))) : null,
      ))))),
    h("p", { class: "note" }, pipes
      ? "Flow is the maximum flow from the selected token to an input token, with the weights as capacities; over several inputs it need not sum to 1."
      : "The page of a long text has no flow: maskwright inspect computes it for one token."),
    button("Save CSV", () => saveCsv("flow.csv", [["input", "rollout", ...(pipes ? ["flow"] : [])], ...map.keys.labels.map((label, key) => [label, share[key], ...(pipes ? [pipes[key]] : [])])]), { class: "quiet" })));
}
