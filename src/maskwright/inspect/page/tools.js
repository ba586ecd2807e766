// Elements, numbers, colors. Text only becomes text nodes, whatever its source.

function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

// A readable number: 0.4, 0.012, 1.2e-5.
function number(value, digits = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.0005) return value.toExponential(1).replaceAll("-", "−");
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : digits).replace("-", "−");
}

function percent(value) {
  const size = 100 * value;
  return `${size >= 9.95 || size === 0 ? size.toFixed(0) : size >= 0.095 ? size.toFixed(1) : size >= 0.00095 ? size.toFixed(3) : "<0.001"} %`;
}

// Indices of the largest values, best first.
function best(values, count) {
  return Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
}

// The current colors of the page: [red, green, blue] of the shades, and those of text.
function theme() {
  const probe = home.root.appendChild(h("span", { hidden: true })); // resolves light and dark
  const read = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const rgb = (name) => read(name).match(/[\d.]+/g).slice(0, 3).map(Number);
  const found = { paper: rgb("--c-paper"), warm: rgb("--c-warm"), cold: rgb("--c-cold"), ink: read("--ink"), soft: read("--soft"), font: sans() };
  probe.remove();
  return { ...found, isDark: found.paper[0] < 128 };
}

const sans = () => getComputedStyle(home.root).getPropertyValue("--sans");

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

// Paper to cold for 0 to 1, and to warm for 0 to -1: [red, green, blue].
function shade(colors, value) {
  const ink = value < 0 ? colors.warm : colors.cold;
  const part = clamp(Math.abs(value), 0, 1);
  return colors.paper.map((paper, i) => Math.round(paper + (ink[i] - paper) * part));
}

const css = (rgb) => `rgb(${rgb.join(" ")})`;

// One hue for each head of a layer; neighbors differ.
function hue(head, count, isDark) {
  const angle = (count > 8 ? head * 137.508 : (head * 360) / count) + 212;
  return isDark ? `hsl(${angle % 360} 62% 66%)` : `hsl(${angle % 360} 64% 40%)`;
}

// A canvas of the given size, sharp on every screen. Returns [canvas, context].
function canvas(width, height, label) {
  const scale = Math.min(window.devicePixelRatio || 1, width * height > 4e6 ? 1 : 3);
  const element = h("canvas", { width: Math.round(width * scale), height: Math.round(height * scale), role: "img", "aria-label": label });
  element.style.width = `${width}px`;
  element.style.height = `${height}px`;
  const context = element.getContext("2d");
  context.scale(scale, scale);
  return [element, context];
}

function save(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The save buttons of an SVG. pictureOf: returns it, from the page or with its colors inlined.
function saves(name, pictureOf) {
  return h("div", { class: "below" },
    button("Save SVG", () => save(`${name}.svg`, fileOf(pictureOf())), { class: "quiet" }),
    button("Save PNG", () => saveDrawn(`${name}.png`, pictureOf()), { class: "quiet" }));
}

// An SVG as a standalone file: the colors of the page are inlined.
function fileOf(picture) {
  const copy = picture.cloneNode(true);
  const own = picture.querySelectorAll("*");
  if (picture.isConnected) copy.querySelectorAll("*").forEach((element, i) => {
    const style = getComputedStyle(own[i]);
    for (const key of ["fill", "stroke", "stroke-width", "stroke-opacity", "opacity", "font-size", "font-family", "font-weight", "text-anchor"])
      element.setAttribute(key, style.getPropertyValue(key));
    element.removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.style.background = css(theme().paper);
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

// The same as pixels, at twice its size.
async function saveDrawn(name, picture) {
  const [width, height] = ["width", "height"].map((side) => Number(picture.getAttribute(side)));
  const drawn = new Image();
  drawn.src = URL.createObjectURL(fileOf(picture));
  await drawn.decode();
  URL.revokeObjectURL(drawn.src);
  const points = h("canvas", { width: 2 * width, height: 2 * height });
  const context = points.getContext("2d");
  context.fillStyle = css(theme().paper);
  context.fillRect(0, 0, points.width, points.height);
  context.drawImage(drawn, 0, 0, points.width, points.height);
  savePng(name, points);
}

function savePng(name, picture) {
  picture.toBlob((blob) => save(name, blob), "image/png");
}

function saveCsv(name, rows) {
  const cell = (value) => {
    const text = typeof value !== "number" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value); // not a formula in a spreadsheet
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  save(name, new Blob([rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n"], { type: "text/csv" }));
}

function button(label, onclick, more = {}) {
  return h("button", { type: "button", onclick, ...more }, label);
}

// The width of a label at 13 px, in the font of the page.
const ruler = document.createElement("canvas").getContext("2d");
function widthOf(label, size = 13) {
  ruler.font = `${size}px ${sans()}`;
  return ruler.measureText(label).width;
}

function cut(label, letters = 18) {
  const all = [...label];
  return all.length > letters ? `${all.slice(0, letters - 1).join("")}…` : label;
}
