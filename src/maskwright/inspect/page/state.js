// The state of the view, in the address of the page: a link restores it.

// Where the page is drawn: a separate file, or a part of another page, which then keeps the address.
const home = {
  root: null, // the element that is filled
  tree: document, // the document, or the shadow root around it
  isPart: false,
  address: {
    read: () => new URLSearchParams(location.hash.slice(1)),
    write: (own) => history.replaceState(null, "", `#${own}`),
  },
};

const state = {
  view: "overview",
  kind: 0, // of attention
  layer: 0, // indices into the layers and heads of the page, not numbers
  heads: [0],
  token: -1, // of the queries; -1 for all
  key: -1, // of the keys
  root: false, // whether shades show square roots
  source: -1, // source token in Layers of a translation model, whose tokens above are those of the target
  place: -1, // in Predictions: position
  part: "", // in Predictions: search text
  answer: -1, // in Attributions: index, -1 for the first
};
const PLACES = ["token", "key", "source", "place", "answer"];
let redraw = () => {};

function change(values, keepFocus = true) {
  Object.assign(state, values);
  const map = data.readings[0].maps[state.kind];
  state.layer = clamp(state.layer, 0, map.layers.length - 1);
  state.heads = state.heads.filter((head) => head >= 0 && head < map.heads.length);
  if (!state.heads.length) state.heads = [0];
  if (state.token >= map.queries.labels.length) state.token = -1;
  if (state.key >= map.keys.labels.length) state.key = -1;
  writeAddress();
  redraw(keepFocus);
}

function writeAddress() {
  const map = data.readings[0].maps[state.kind];
  const own = new URLSearchParams({ view: state.view, layer: map.layers[state.layer], heads: state.heads.map((head) => map.heads[head]).join(".") });
  if (state.kind) own.set("kind", map.kind);
  for (const name of PLACES) if (state[name] >= 0) own.set(name, state[name]);
  if (state.part) own.set("part", state.part);
  if (state.root) own.set("shade", "root");
  home.address.write(own);
}

// A page of two texts opens with the largest attention change, and the requested word.
function openMoved(map, kind) {
  const [first] = data.moves.heads;
  Object.assign(state, { view: "lines", kind, layer: map.layers.indexOf(first.layer), heads: [map.heads.indexOf(first.head)] });
  if (data.moves.word !== null) state.token = data.moves.pairs[0][0];
}

// The state in one map, limited to its layers, heads and tokens.
function at(map) {
  const heads = state.heads.filter((head) => head < map.heads.length);
  return {
    layer: Math.min(state.layer, map.layers.length - 1),
    heads: heads.length ? heads : [0],
    token: state.token < map.queries.labels.length ? state.token : -1,
    key: state.key < map.keys.labels.length ? state.key : -1,
  };
}

// The token for views that need one: the selected one, else the first that is part of a text.
function focus(map) {
  const { token } = at(map);
  return token >= 0 ? token : Math.max(0, map.queries.texts.findIndex((text) => text >= 0));
}

function readAddress() {
  const own = home.address.read();
  const maps = data.readings[0].maps;
  const kind = maps.findIndex((map) => map.kind === own.get("kind"));
  state.kind = kind >= 0 ? kind : 0;
  const map = maps[state.kind];
  if (!own.size && data.moves) return openMoved(maps[maps.length - 1], maps.length - 1);
  state.view = VIEWS.some(([name]) => name === own.get("view")) ? own.get("view") : "overview";
  state.layer = Math.max(0, map.layers.indexOf(Number(own.get("layer"))));
  state.heads = (own.get("heads") || "").split(".").map((head) => map.heads.indexOf(Number(head))).filter((head) => head >= 0);
  if (!state.heads.length) state.heads = [0];
  for (const name of PLACES) state[name] = /^\d{1,6}$/.test(own.get(name) ?? "") ? Number(own.get(name)) : -1;
  if (state.token >= map.queries.labels.length) state.token = -1;
  if (state.key >= map.keys.labels.length) state.key = -1;
  state.part = own.get("part") ?? "";
  state.root = own.get("shade") === "root";
}
