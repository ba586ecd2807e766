// Columns of tokens: buttons with arrow-key navigation; one can be selected, any can be hovered.

const ROW = 22;

// side: labels and the texts they belong to; chosen: index or -1; pick, point: called with an index, -1 for none.
function tokenColumn(side, { label, chosen, pick, point, align = "left", marks = null }) {
  const box = h("div", { class: `tokens ${align}`, role: "listbox", "aria-label": label, "aria-orientation": "vertical" });
  side.labels.forEach((text, index) => {
    const one = h(
      "button",
      {
        type: "button", role: "option", class: tokenClass(side, index), dir: "auto", title: tokenTitle(side, index),
        "aria-selected": index === chosen ? "true" : "false", tabindex: index === Math.max(chosen, 0) ? 0 : -1,
        "data-key": `${label}-${index}`,
        onclick: () => pick && pick(index === chosen ? -1 : index),
        onpointerenter: () => point && point(index),
        onpointerleave: () => point && point(-1),
        onfocus: () => point && point(index),
        onkeydown: (event) => walk(event, box, index, side.labels.length),
      },
      text,
    );
    if (marks) one.append(marks(index));
    box.append(one);
  });
  return box;
}

function tokenClass(side, index) {
  return side.texts[index] < 0 ? "token special" : side.texts[index] === 1 ? "token second" : "token";
}

function tokenTitle(side, index) {
  const writes = side.writes.length ? `, predicts ${side.writes[index]}` : "";
  return `${index + 1}: ${side.labels[index]}${writes}`;
}

const STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 };

function walk(event, box, index, count) {
  const step = STEPS[event.key];
  if (!step) return;
  event.preventDefault();
  const next = box.children[clamp(index + step, 0, count - 1)];
  for (const child of box.children) child.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

// A select of tokens, by number and label.
function tokenSelect(side, label, chosen, pick, none = null) {
  const box = h("select", { "aria-label": label, "data-key": label, onchange: () => pick(Number(box.value)) });
  if (none) box.append(h("option", { value: -1 }, none));
  side.labels.forEach((text, index) => box.append(h("option", { value: index, selected: index === chosen }, `${index + 1}  ${cut(text, 24)}`)));
  return h("label", { class: "field" }, h("span", {}, label), box);
}
