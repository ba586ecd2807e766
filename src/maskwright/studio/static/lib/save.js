// Saves the content of a page: pictures as SVG or PNG, tables as CSV.

import { make } from "./dom.js";

const COPIED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor",
];
const FORMULA = /^[=+\-@\t\r]/;

/** The standalone picture: the styles of the page become attributes of each element. */
export function svgText(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, index) => {
    if (element.localName === "title") return;
    const style = getComputedStyle(originals[index]);
    for (const name of COPIED) {
      const value = style.getPropertyValue(name);
      if (value) element.setAttribute(name, value);
    }
    for (const name of ["class", "tabindex", "style"]) element.removeAttribute(name);
  });
  const { width, height } = size(svg);
  const paper = document.createElementNS(svg.namespaceURI, "rect");
  Object.entries({ width, height, fill: getComputedStyle(svg.ownerDocument.body).backgroundColor }).forEach(([name, value]) => paper.setAttribute(name, value));
  for (const [name, value] of Object.entries({ width, height })) copy.setAttribute(name, value);
  copy.prepend(paper);
  copy.setAttribute("xmlns", svg.namespaceURI);
  return new XMLSerializer().serializeToString(copy);
}

/** The same as a PNG at twice the size. */
export async function pngBlob(svg) {
  const { width, height } = size(svg);
  const address = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = make("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Rows as CSV. A text that a spreadsheet would run as a formula is prefixed with an apostrophe; numbers are unchanged. */
export function csvText(columns, rows) {
  const cell = (value) => {
    if (typeof value === "number") return String(value);
    const text = value === null || value === undefined ? "" : String(value);
    const safe = FORMULA.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

/** Download a file. */
export function download(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function size(svg) {
  const { width, height } = svg.viewBox.baseVal; // a picture without a fixed size
  return { width: Number(svg.getAttribute("width")) || width, height: Number(svg.getAttribute("height")) || height };
}
