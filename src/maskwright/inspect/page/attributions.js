// Feature attributions of a prediction by integrated gradients.

function attributions(reading, map, panel) {
  const all = reading.attributions;
  if (!all) {
    panel.append(h("p", { class: "note" }, "The attributions are being computed."));
    return;
  }
  if (!all.length) {
    panel.append(h("p", { class: "note" }, "No attributions: they exist for classifiers, regression models and masks, in shorter texts."));
    return;
  }
  const index = shownAnswer(reading);
  const own = all[index];
  const full = Math.max(1e-9, ...own.values.map(Math.abs));
  const colors = theme();
  const picker = h("select", { "aria-label": "answer", "data-key": "answer", onchange: () => change({ answer: Number(picker.value) }) },
    all.map((one, i) => h("option", { value: i, selected: i === index }, `${one.answer}  (${signed(one.at_text)})`)));
  const text = h("p", { class: "marked", dir: "auto" }, own.tokens.labels.map((label, token) => {
    const rgb = shade(colors, (0.85 * own.values[token]) / full);
    const one = h("span", { title: `${label}: ${signed(own.values[token])}` }, label);
    one.style.background = css(rgb);
    one.style.color = inkOn(rgb);
    return one;
  }));
  const order = best(own.values.map(Math.abs), own.values.length);
  panel.append(h("section", {}, h("div", { class: "fields" }, h("label", { class: "field" }, h("span", {}, "answer"), picker)), text,
    h("p", { class: "note" }, `The predicted logit is ${number(own.at_text, 2)} for the text and ${number(own.at_baseline, 2)} for the baseline of neutral tokens. The attributions sum to ${number(own.values.reduce((sum, value) => sum + value, 0), 3)}, the difference is ${number(own.at_text - own.at_baseline, 3)}${own.complete ? "" : ": they disagree, so the attributions are unreliable"} (${own.steps} integration points).`),
    h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ["token", "adds"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, order.slice(0, 20).map((token) => h("tr", {}, h("th", { scope: "row", dir: "auto" }, own.tokens.labels[token]),
        h("td", { class: own.values[token] < 0 ? "other" : null }, barOf(Math.abs(own.values[token]) / full), h("span", { class: "value" }, signed(own.values[token])))))))),
    button("Save CSV", () => saveCsv("attributions.csv", [["token", "adds"], ...own.tokens.labels.map((label, i) => [label, own.values[i]])]), { class: "quiet" })));
}

// The selected answer; else of masks the first, of classes the one that is predicted for the first text.
function shownAnswer(reading) {
  const all = reading.attributions;
  if (state.answer >= 0) return clamp(state.answer, 0, all.length - 1);
  if (reading.predictions) return 0;
  const predicted = (own) => best(own.map((one) => one.at_text), 1)[0];
  const [first] = data.readings;
  const same = first.attributions?.length ? all.findIndex((one) => one.answer === first.attributions[predicted(first.attributions)].answer) : -1;
  return same >= 0 ? same : predicted(all);
}

// Black or white, whichever has more contrast (WCAG 2.2, relative luminance).
function inkOn(rgb) {
  const [r, g, b] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#fff" : "#000";
}
