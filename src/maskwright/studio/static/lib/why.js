// The part "Why" of a page: the words that its answer depends on, the attention of the answering token, the answer of
// every layer, near changes of the text, and differences to another text or model.

import { ask, live, Missing, Rejection } from "./ask.js";
import { diverging } from "./charts/diverging.js";
import { heat } from "./charts/heat.js";
import { lines } from "./charts/lines.js";
import { fixed, make, refill } from "./dom.js";
import { button, picture, section, table } from "./show.js";

/** State that the part adds to that of its page. */
export const WHY = { why: "no", method: "occlusion", other: "", other_pair: "", beside: "" };

const METHODS = { occlusion: "occlusion", gradients: "integrated gradients" };
const SHOWN = 14; // words and answers of a picture
const TELLING = 0.1; // of the largest contribution: words below are not named as reasons

const signed = (value, digits = 3) => {
  if (value === null) return "–";
  const size = fixed(Math.abs(value), digits);
  return Number(size) ? `${value < 0 ? "−" : "+"}${size}` : size;
};

/**
 * Build the part. models: those of the page; field: another field of the page. `update(asked)` explains the answer to the request
 * { model, text, pair, place, start } of the page, if it is wanted; null: there is no answer.
 */
export function why(form, models, { field = null } = {}) {
  let asked = null;
  const finding = make("p", { class: "finding", "aria-live": "polite" });
  const checked = make("p", { class: "note" });
  const reading = make("div");
  const contributions = picture("Contribution of each word", { file: "words" });
  const removal = picture("The answer without words", { file: "removal" });
  const legend = make("ul", { class: "legend" });
  removal.querySelector(".canvas").before(legend);
  const attention = picture("Attention of the answering token", { file: "answer-attention" });
  const layers = picture("The answer in each layer", { file: "answer-layers" });
  const said = table("What each layer would have said", [{ name: "layer", kind: "word" }, { name: "answer", kind: "word" }, { name: "probability", kind: "number" }, { name: "next best" }], { file: "layers", scroll: false });
  const words = table("Contributions", [{ name: "word", kind: "word" }, { name: "occlusion", kind: "number" }, { name: "gradients", kind: "number" }], { file: "reasons" });
  const nearest = make("div", { "aria-live": "polite" });
  const search = make("button", { type: "button", text: "Find the nearest change of one word", on: { click: () => find() } });
  const shown = make("div", { class: "result" },
    finding, checked, reading,
    make("div", { class: "columns" }, contributions, removal),
    make("div", { class: "columns" }, layers, said),
    attention, words,
    make("h3", { text: "One word that changes the answer" }),
    make("p", { class: "note", text: "Each word is replaced by words that a masked language model expects in its place. Near is a word with a similar embedding." }),
    make("div", { class: "buttons" }, search), nearest);

  const others = [["", "the same model"], ...models.map((model) => [model.name, model.name])];
  const differing = differences();
  const differingBox = make("div", { hidden: true }, differing);
  const pair = form.area("other_pair", "Edited copy, second part");
  const compared = make("div", {},
    make("h3", { text: "Compare" }),
    make("p", { class: "note", text: "Click a word above to edit it in a copy of the text, or select another model." }),
    form.area("other", "Edited copy"), pair,
    make("div", { class: "fields few" }, form.choice("beside", "Other model", others)), differingBox);
  const body = make("div", {}, make("div", { class: "fields few" }, field, form.choice("method", "Shade words by", Object.entries(METHODS))), shown, compared);
  const whole = section("Why", form.check("why", "Explain the answer as I type"), body);

  /** Put a copy of the text into the field for the other one, with a word selected. */
  const edit = (word) => {
    const name = word.text ? "other_pair" : "other";
    const text = [...(word.text ? asked.pair : asked.text)];
    const [start, end] = [word.start, word.end].map((place) => text.slice(0, place).join("").length);
    form.set(name, text.join(""));
    form.controls[name].focus();
    form.controls[name].setSelectionRange(start, end);
  };

  const find = live(async (signal) => {
    if (!asked) return;
    const own = asked;
    const found = await ask("/api/why/changes", own, signal);
    refill(nearest, changesOf(found, (one) => form.set(one.text ? "other_pair" : "other", one.changed)));
    nearest.dataset.of = JSON.stringify(own);
  }, nearest, 0);

  const explain = live(async (signal) => {
    if (!asked) throw new Missing("The reasons appear here as soon as there is an answer.");
    if (nearest.dataset.of !== JSON.stringify(asked)) refill(nearest);
    const found = await ask("/api/why", asked, signal).catch((error) => {
      throw error instanceof Rejection ? new Missing(error.message) : error; // instead of the reasons
    });
    const method = form.state.method;
    finding.textContent = findingOf(found, method);
    checked.textContent = checkOf(found, method);
    refill(reading, [0, 1].map((text) => shaded(text ? asked.pair : asked.text, found.words, text, method, edit)));
    const rows = [...found.words].sort((one, other) => Math.abs(other[method]) - Math.abs(one[method])).slice(0, SHOWN);
    contributions.update(diverging(rows.map((word) => ({ label: word.word, value: word[method], shown: signed(word[method]) })), { name: `Contribution to ${found.answer}: ${rows.slice(0, 5).map((word) => `${word.word} ${signed(word[method])}`).join(", ")}` }));
    contributions.rename(`Contribution of each word to “${found.answer}”`);
    curves(removal, legend, found);
    layersOf(layers, said, found);
    attention.hidden = !found.attention;
    if (found.attention) attentionOf(attention, found);
    words.update(found.words.map((word) => [word.word, ...Object.keys(METHODS).map((name) => ({ text: signed(word[name], 4), value: word[name] }))]));
  }, shown, 300);

  const compare = live(async (signal) => {
    const { other, other_pair: otherPair, beside } = form.state;
    const isOther = Boolean(asked && (other.trim() || otherPair.trim() || beside));
    differingBox.hidden = !isOther;
    if (!isOther) return;
    const second = { ...asked, model: beside || asked.model, text: other.trim() ? other : asked.text, pair: asked.pair && otherPair.trim() ? otherPair : asked.pair };
    const found = await ask("/api/why/differences", { first: asked, second }, signal);
    differing.update(found, asked, second);
  }, differing, 300);

  whole.update = (given) => {
    asked = given;
    body.hidden = form.state.why !== "yes";
    pair.hidden = !given?.pair;
    if (body.hidden) return;
    explain();
    compare();
  };
  return whole;
}

/** The answer and the words that it depends on most, in one sentence. */
function findingOf(found, method) {
  const best = [...found.words].sort((one, other) => other[method] - one[method]).filter((word, _, [first]) => word[method] > Math.max(0, TELLING * first[method])).slice(0, 2);
  const score = found.is_number ? fixed(found.score, 3) : `“${found.answer}” (${fixed(found.score, 3)})`;
  if (!best.length) return `No single word supports ${score}.`;
  return `${best.map((word) => `“${word.word}”`).join(" and ")} ${best.length > 1 ? "support" : "supports"} ${score} most.`;
}

/** Whether removing the named words changes the answer more than removing random ones. */
function checkOf(found, method) {
  const own = found.removal;
  if (!own) return "One word is too little for the check with random words.";
  const [count, place] = [own.counts[own.checked], own.checked];
  const many = count === 1 ? ["the most important word", "one random word"] : [`the ${count} most important words`, `${count} random words`];
  const verdict = own.holds[method] ? "The answer depends on them." : "That is not clearly larger: do not rely on these words.";
  return `Check: without ${many[0]}, its score changes from ${fixed(found.score, 2)} to ${fixed(own.scores[method][place], 2)}; without ${many[1]}, to ${fixed(own.random.mean[place], 2)} on average of ${own.draws} draws. The change is larger than with ${Math.round(100 * own.beats[method])} % of the draws. ${verdict}`;
}

/** The text with this number: its words are buttons, shaded by their contribution. Offsets count code points. */
function shaded(text, words, number, method, edit) {
  if (!text) return null;
  const letters = [...text];
  const most = Math.max(1e-9, ...words.map((word) => Math.abs(word[method])));
  const parts = [];
  let end = 0;
  for (const word of words.filter((one) => one.text === number)) {
    parts.push(letters.slice(end, word.start).join(""));
    const value = word[method];
    const one = make("button", { type: "button", class: value < 0 ? "reason against" : "reason", text: word.word, title: `${word.word}: ${signed(value)}; click to edit it in a copy`, on: { click: () => edit(word) } });
    one.style.setProperty("--share", `${Math.round((40 * Math.abs(value)) / most)}%`);
    parts.push(one);
    end = word.end;
  }
  parts.push(letters.slice(end).join(""));
  return make("p", { class: "reading", role: "group", "aria-label": "Words shaded by their contribution", dir: "auto" }, parts);
}

/** The score without more and more words: the most important ones by each method, and random ones. */
function curves(drawn, legend, found) {
  drawn.hidden = !found.removal;
  if (!found.removal) return;
  const { counts, scores, random } = found.removal;
  const series = [...Object.keys(METHODS).map((name) => [`by ${name === "gradients" ? "integrated gradients" : name}`, scores[name]]), ["random words", random.mean]].map(([name, ys], color) => ({ name, xs: counts, ys, color: color === 2 ? 5 : color }));
  refill(legend, series.map((one) => make("li", {}, make("span", { class: `key key${one.color}` }), one.name)));
  drawn.rename(`Score of “${found.answer}” without the most important words`);
  drawn.update(lines(series, { unit: "words", height: 200, name: series.map((one) => `${one.name}: from ${fixed(one.ys[0], 2)} to ${fixed(one.ys.at(-1), 2)}`).join(", ") }));
}

function layersOf(drawn, said, found) {
  const name = (layer) => (layer ? `layer ${layer}` : "embeddings");
  drawn.rename(`Score of “${found.answer}” in each layer`);
  drawn.update(lines([{ name: found.answer, xs: found.layers.map((_, layer) => layer), ys: found.layers.map((layer) => layer.score) }], { unit: "layer", height: 200, name: `Score of ${found.answer}: ${found.layers.map((layer, index) => `${name(index)} ${fixed(layer.score, 2)}`).join(", ")}` }));
  said.update(found.layers.map(({ answers: [best, ...next] }, layer) => [name(layer), best.answer, { text: fixed(best.score, 3), value: best.score }, next.map((one) => `${one.answer} ${fixed(one.score, 2)}`).join(", ")]));
}

function attentionOf(drawn, found) {
  const rows = found.attention.map((_, index) => `layer ${index + 1}`).toReversed();
  const token = found.places.length > 2 ? "all tokens" : `“${found.places.map((place) => found.tokens[place]).join(" … ")}”`;
  const most = Math.max(...found.attention.flat());
  drawn.rename(`Attention of ${token}, whose vector gives the answer (mean of the heads)`);
  drawn.update(heat(rows, found.tokens, found.attention.toReversed(), { to: most, square: false, name: `Attention of ${token} in each layer` }));
}

/** The nearest changes as a table; `use(change)` compares one. */
function changesOf(found, use) {
  const row = (one) => [one.word, one.replacement, { text: fixed(one.similarity, 2), value: one.similarity }, one.answer, { text: fixed(one.score, 3), value: one.score }, { text: one.changed, node: button("Compare", `Compare with ${one.word} as ${one.replacement}`, () => use(one)) }];
  const tried = `${found.tried} changes were tried, ${found.num_flips} of them change the answer.`;
  const rows = found.flips.length ? found.flips : [found.closest].filter(Boolean);
  const made = table(found.flips.length ? "Nearest changes" : "The change that lowers the score most", [{ name: "word", kind: "word" }, { name: "instead", kind: "word" }, { name: "similarity", kind: "number" }, { name: "answer", kind: "word" }, { name: "probability", kind: "number" }, { name: "difference" }], { file: "changes", level: "h4" });
  made.update(rows.map(row));
  return [make("p", { class: "note", text: tried }), rows.length ? made : null];
}

/** Two answers and their differences: of the probabilities, and of the contributions of the words. */
function differences() {
  const told = make("p", { class: "finding", "aria-live": "polite" });
  const answers = picture("Difference of the probabilities", { file: "answer-differences", level: "h4" });
  const words = picture("Difference of the contributions", { file: "word-differences", level: "h4" });
  const all = table("Both answers", [{ name: "answer", kind: "word" }, { name: "this", kind: "number" }, { name: "other", kind: "number" }, { name: "difference", kind: "number" }], { file: "differences", level: "h4" });
  const parts = table("Contribution of each word, by occlusion", [{ name: "word", kind: "word" }, { name: "this", kind: "number" }, { name: "other", kind: "number" }, { name: "difference", kind: "number" }], { file: "word-differences", level: "h4" });
  const whole = make("div", { class: "result" }, told, make("div", { class: "columns" }, answers, words), make("div", { class: "columns" }, all, parts));
  whole.update = ({ first, second, differences: found }, one, other) => {
    const by = (row) => (row.second ?? 0) - (row.first ?? 0);
    const [[from], [to]] = [first.answers, second.answers];
    const sentence = from.answer === to.answer ? `Both answer “${from.answer}”: ${fixed(from.score, 3)} and ${fixed(to.score, 3)}.` : `The answer changes from “${from.answer}” (${fixed(from.score, 3)}) to “${to.answer}” (${fixed(to.score, 3)}).`;
    words.rename(first.answer === second.answer ? `Difference of the contributions to “${first.answer}”` : "Difference of the contributions, each to its answer");
    told.textContent = one.model === other.model ? sentence : `${one.model} and ${other.model}. ${sentence}`;
    const drawing = (rows, name) => diverging(rows.slice(0, SHOWN).map((row) => ({ label: row.answer ?? row.word, value: by(row), shown: signed(by(row)) })), { name });
    answers.update(drawing(found.answers, `Other minus this: ${found.answers.slice(0, 5).map((row) => `${row.answer} ${signed(by(row))}`).join(", ")}`));
    words.update(drawing([...found.words].sort((a, b) => Math.abs(by(b)) - Math.abs(by(a))), "Other minus this, by word"));
    const row = (entry) => [entry.answer ?? entry.word, ...[entry.first, entry.second].map((value) => ({ text: fixed(value), value })), { text: signed(by(entry), 4), value: by(entry) }];
    all.update(found.answers.map(row));
    parts.update(found.words.map(row));
  };
  return whole;
}
