// Converts parts of the page to SVG: strips of color, words and lines, each at its position.

const MARGIN = 8; // units around such a picture

function drawn(part) {
  const frame = part.getBoundingClientRect();
  const parts = [...part.querySelectorAll("*")].filter((one) => !one.closest(".unseen"));
  const grounds = parts.flatMap(groundOf);
  const strips = parts.filter((one) => one.tagName === "CANVAS").map((strip) => ({ strip, box: strip.getBoundingClientRect() }));
  const lines = linesOf(part);
  const width = Math.ceil(Math.max(...[...grounds, ...strips, ...lines].map(({ box }) => box.left + box.width)) - frame.left + 2 * MARGIN);
  const height = Math.ceil(frame.height + 2 * MARGIN);
  const x = (left) => (left - frame.left + MARGIN).toFixed(1);
  const y = (top) => (top - frame.top + MARGIN).toFixed(1);
  const place = (box) => ({ x: x(box.left), y: y(box.top), width: box.width.toFixed(1), height: box.height.toFixed(1) });
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` },
    svg("rect", { width, height, fill: css(theme().paper) }),
    grounds.map(({ box, color }) => svg("rect", { ...place(box), fill: color })),
    strips.map(({ strip, box }) => svg("image", { ...place(box), href: strip.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated" })),
    lines.map(({ text, box, style }) => svg("text", {
      x: x(box.left), y: y(box.top + box.height / 2), "dominant-baseline": "central",
      fill: style.color, "font-size": style.fontSize, "font-family": style.fontFamily, "font-weight": style.fontWeight,
    }, text)));
}

// Filled boxes of an element, its background and the line below it: { box, color } each.
function groundOf(element) {
  const [style, box] = [getComputedStyle(element), element.getBoundingClientRect()];
  const line = parseFloat(style.borderBottomWidth);
  const below = { left: box.left, top: box.bottom - line, width: box.width, height: line };
  const filled = [{ box, color: style.backgroundColor }, { box: below, color: style.borderBottomColor }];
  return filled.filter(({ box: own, color }) => own.width && own.height && color !== "transparent" && !color.endsWith(", 0)"));
}

// The words of an element by line: { text, box, style } each.
function linesOf(part) {
  const found = [];
  const nodes = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const node = nodes.currentNode;
    if (node.parentElement.closest(".unseen")) continue;
    let line = null;
    for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const box = range.getBoundingClientRect();
      if (!box.width) continue;
      if (line && Math.abs(line.box.top - box.top) < 2) {
        line.text += ` ${word}`;
        line.box.width = box.right - line.box.left;
      } else found.push((line = { text: word, box, style: getComputedStyle(node.parentElement) }));
    }
  }
  for (const [index, item] of part.querySelectorAll("ol > li").entries()) {
    const first = document.createRange();
    first.selectNodeContents(item.firstChild);
    const { left, top, height } = first.getClientRects()[0];
    found.push({ text: `${index + 1}.`, box: { left: left - 22, top, width: 0, height }, style: getComputedStyle(item, "::marker") });
  }
  return found;
}
