// The state of a page is in its address, after the #: it can be shared, and it is never sent to a server.

const CARRIED = ["text", "model"]; // kept for the next page

let defaults = {};

/** The state: the value in the address, else the default. Values are strings. */
export function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, given.get(name) ?? value]));
}

/** Declare the fields of a page with their defaults. */
export function declareState(values) {
  defaults = { ...defaults, ...values };
}

/** Remove fields from the state of a page. */
export function forgetState(names) {
  defaults = Object.fromEntries(Object.entries(defaults).filter(([name]) => !names.includes(name)));
}

/** Write values that differ from the defaults; menu links keep the text and the model. */
export function writeState(values) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== defaults[name]) given.set(name, value);
  }
  const hash = given.toString();
  history.replaceState(null, "", location.pathname + location.search + (hash ? `#${hash}` : ""));
  const carried = new URLSearchParams(CARRIED.filter((name) => given.has(name)).map((name) => [name, given.get(name)]));
  const suffix = carried.toString();
  for (const link of document.querySelectorAll(".side nav a")) {
    link.setAttribute("href", link.pathname + (suffix ? `#${suffix}` : ""));
  }
}
