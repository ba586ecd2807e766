// A text with highlighted spans. Offsets count code points, as in Python.

import { grouped, make } from "./dom.js";

const MOST_SPANS = 1000; // spans highlighted: more would make the page slow

/**
 * spans: [{ start, end, kind, tint, hint }], not overlapping; the kind is written after each. Of very many, the first are
 * marked.
 */
export function marked(text, spans, { large = false, label = "The text with its spans" } = {}) {
  const letters = [...text];
  const parts = [];
  let end = 0;
  const sorted = [...spans].sort((one, other) => one.start - other.start);
  for (const span of sorted.slice(0, MOST_SPANS)) {
    parts.push(letters.slice(end, span.start).join(""));
    const kind = span.kind ? make("span", { class: "kind", text: span.kind }) : null;
    parts.push(make("span", { class: `span tint${span.tint ?? 0}`, title: span.hint ?? null }, letters.slice(span.start, span.end).join(""), kind));
    end = span.end;
  }
  parts.push(letters.slice(end).join(""));
  const more = sorted.length > MOST_SPANS && make("p", { class: "note", text: `The first ${grouped(MOST_SPANS)} of ${grouped(sorted.length)} are marked; the tables have more.` });
  return make("div", {}, make("p", { class: large ? "reading large" : "reading", "aria-label": label, dir: "auto" }, parts), more);
}

/** A number from 0 to 4 for each name, by first occurrence. */
export function tints(names) {
  const found = new Map();
  for (const name of names) if (!found.has(name)) found.set(name, found.size % 5);
  return found;
}
