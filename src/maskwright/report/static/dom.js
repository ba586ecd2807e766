// Elements from data. Text is always a text node: nothing here, or anywhere in the studio, parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. options: attributes by name; `on`: listeners; `text`: its text; false and null leave one out. */
export function make(tag, options = {}, ...children) {
  return fill(document.createElement(tag), options, children);
}

/** The same for SVG. */
export function draw(tag, options = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), options, children);
}

function fill(element, { on = {}, text, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [name, listener] of Object.entries(on)) element.addEventListener(name, listener);
  if (text !== undefined) element.textContent = text;
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace the content of an element. */
export function refill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** One sentence at the bottom of the page, announced by screen readers; "" removes it. */
export function say(sentence) {
  document.getElementById("status").textContent = sentence;
}

/** Arrow keys move among items, one of which is reachable with Tab. */
export function roving(list, items) {
  items.forEach((item, index) => item.setAttribute("tabindex", index ? "-1" : "0"));
  list.onkeydown = (event) => {
    const here = items.indexOf(document.activeElement);
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (here < 0) return;
    let next = here + (steps[event.key] ?? 0);
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = items.length - 1;
    if (next === here || !items[next]) return;
    event.preventDefault();
    items[here].setAttribute("tabindex", "-1");
    items[next].setAttribute("tabindex", "0");
    items[next].focus();
  };
}

/** A number with the given number of decimals; "–" for none. */
export const fixed = (value, digits = 4) => (value === null || value === undefined ? "–" : value.toFixed(digits));

/** An integer with thousands separators. */
export const grouped = (value) => value.toLocaleString("en-US");
