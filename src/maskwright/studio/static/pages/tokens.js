// Tokens: the subword tokens of a text, the steps of tokenization, and how a vocabulary is learned.

import { ask, live, Missing, Rejection } from "../lib/ask.js";
import { grouped, make, refill, roving } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const EXAMPLE = "The tastiest lanterns transformed an unbelievably dark harbour.";
const MOST_PIECES = 1000; // that are drawn as buttons
const MOST_LETTERS = 100; // of a word that is traced by default
const LECTURE = "old:7,older:3,finest:9,lowest:4";

page(({ root, models }) => {
  const parts = { pieces: null, cut: null, learn: null };
  const form = new Form(
    { model: models[0]?.name ?? "", text: EXAMPLE, pair: "", cut: "", words: LECTURE, kind: "bpe", merges: "5", tie: "first" },
    (_, name) => {
      for (const [part, names] of [["pieces", ["model", "text", "pair"]], ["cut", ["model", "cut"]], ["learn", ["words", "kind", "merges", "tie"]]]) {
        if (!name || names.includes(name)) parts[part]?.();
      }
    },
  );
  if (models.length) {
    parts.cut = cutting(root, form);
    parts.pieces = pieces(root, form, models, (words) => form.state.cut || parts.cut(words));
    root.append(root.firstChild); // the steps are below the tokens
  }
  parts.learn = learning(root, form);
  writeState(form.state);
  parts.pieces?.();
  if (form.state.cut) parts.cut?.();
  parts.learn();
});

function pieces(root, form, models, onWords) {
  const row = make("ol", { class: "pieces", "aria-label": "Tokens; arrow keys move among them" });
  const counts = make("p", { class: "note" });
  const marks = make("dl", { class: "notation" });
  const all = table("Every token", [
    { name: "place", kind: "number" }, { name: "token", kind: "code" }, { name: "id", kind: "number" },
    { name: "segment", kind: "number" }, { name: "characters", kind: "word" }, { name: "text", kind: "code" },
  ], { file: "tokens" });
  const shown = make("div", { class: "result" }, row, counts, marks, all);
  const second = make("details", { open: Boolean(form.state.pair) }, make("summary", { text: "With a second text" }), form.area("pair", "Second text"));
  root.append(section("Notation", modelField(form, models), form.area("text", "Text"), second, shown));

  return live(async (signal) => {
    const { model, text, pair } = form.state;
    const found = await ask("/api/tokens", { model, text, pair: pair || null }, signal);
    let word = -1;
    const items = found.tokens.slice(0, MOST_PIECES).map((token) => {
      const isSpecial = token.source === null;
      if (token.starts || isSpecial) word += 1;
      const kind = token.unknown ? "unknown" : isSpecial ? "special" : `tint${word % 5}`;
      const choose = () => !isSpecial && form.set("cut", wordOf(found.tokens, token, [text, pair]));
      const piece = make("button", { type: "button", class: `piece ${kind}`, on: { click: choose } }, token.token, make("span", { class: "id", text: token.id }));
      return make("li", { class: token.starts || isSpecial ? null : "joined" }, piece);
    });
    refill(row, items);
    roving(row, items.map((item) => item.firstChild));
    const unknown = found.unknown ? `, ${grouped(found.unknown)} unknown` : "";
    const beyond = found.beyond ? ` The maximum is ${grouped(found.most)}: the last ${grouped(found.beyond)} are truncated.` : "";
    const first = found.tokens.length > MOST_PIECES ? ` The first ${grouped(MOST_PIECES)} are shown.` : "";
    counts.textContent = `${grouped(found.tokens.length)} tokens, from a ${found.kind} vocabulary of ${grouped(found.vocabulary)}${unknown}.${beyond}${first} Select one to see how its word is tokenized.`;
    refill(marks, notation("## on the right token", found.right), notation("## on the left token", found.left));
    all.update(found.tokens.map((token, index) => ({
      cells: [index, token.token, token.id, token.type, token.source === null ? "" : `${token.start}–${token.end}`, token.text],
      class: token.unknown ? "chosen" : null,
    })));
    onWords(longestWord(found.tokens, [text, pair]));
  }, shown);
}

const notation = (name, lines) => [make("dt", { text: name }), make("dd", { text: lines.join("   ") || "–" })];

/** The characters of the word that a token belongs to. */
function wordOf(tokens, token, texts) {
  let [first, last] = [tokens.indexOf(token), tokens.indexOf(token)];
  while (!tokens[first].starts && tokens[first - 1]?.source === token.source) first -= 1;
  while (tokens[last + 1]?.source === token.source && !tokens[last + 1].starts) last += 1;
  return cutOut(texts[token.source], tokens[first].start, tokens[last].end);
}

/** The word with the most subword tokens among those short enough for a table of steps. */
function longestWord(tokens, texts) {
  let best = null;
  for (let first = 0, next = 1; first < tokens.length; first = next, next += 1) {
    while (next < tokens.length && !tokens[next].starts && tokens[next].source === tokens[first].source) next += 1;
    const isShort = tokens[next - 1].end - tokens[first].start <= MOST_LETTERS;
    if (tokens[first].source !== null && isShort && (!best || next - first > best[0])) best = [next - first, first, next - 1];
  }
  return best ? cutOut(texts[tokens[best[1]].source], tokens[best[1]].start, tokens[best[2]].end) : "";
}

// Offsets count code points, as in Python; JavaScript counts UTF-16 code units.
const cutOut = (text, start, end) => [...text].slice(start, end).join("");

function cutting(root, form) {
  const rule = make("p", { class: "note" });
  const place = make("div");
  const shown = make("div", { class: "result" }, rule, place);
  let automatic = "";
  root.append(section("Tokenization of a word", make("div", { class: "fields few" }, form.line("cut", "Word", { maxlength: 2000, placeholder: "the word with the most subword tokens" })), shown));

  const run = live(async (signal) => {
    const words = form.state.cut || automatic;
    if (!words) throw new Missing("The steps appear here as soon as there is a word.");
    const found = await ask("/api/tokens/cut", { model: form.state.model, words }, signal);
    rule.textContent = RULES[found.rule];
    refill(place, found.words.map((word) => stepsOf(word, found.rule)));
  }, shown);
  return (words) => {
    if (words !== undefined) {
      automatic = words;
      form.controls.cut.placeholder = words || "the word with the most subword tokens";
    }
    run();
  };
}

const RULES = {
  "longest match": "WordPiece takes the longest vocabulary entry that the word begins with, then continues after it. Inside a word, entries begin with ##.",
  merges: "BPE starts from characters and repeatedly applies the earliest learned merge, until none applies.",
  none: "This kind of tokenizer has no steps to show: it looks up words, or compares all segmentations at once.",
};

function stepsOf(word, rule) {
  const isMatch = rule === "longest match";
  const columns = [{ name: "step", kind: "number" }, { name: isMatch ? "taken" : "merge", kind: "code" }, { name: "symbols", kind: "code" }];
  columns.push(isMatch ? { name: "tried before, not in the vocabulary", kind: "code" } : { name: "merge number", kind: "number" });
  const made = table(word.word, columns, { file: "steps", scroll: false });
  made.update(word.steps.map((step, index) => [
    index + (isMatch ? 1 : 0),
    step.taken ?? (isMatch ? "no match" : "–"),
    step.pieces.join("  "),
    isMatch ? step.tried.join("  ") : (step.rank ?? "–"),
  ]));
  made.append(make("p", { class: "note" }, "Tokens: ", make("code", { text: word.tokens.join("  ") || "–" })));
  return made;
}

function learning(root, form) {
  const shown = make("div", { class: "result" });
  const fields = make(
    "div", { class: "fields" },
    form.line("words", "Words and how often they occur"),
    form.choice("kind", "Rule", [["bpe", "BPE: the most frequent pair"], ["wordpiece-score", "WordPiece: the best score"]]),
    form.number("merges", "Merges", { min: 0, max: 200 }),
    form.choice("tie", "Ties", [["first", "first in the corpus"], ["last", "last in the corpus"], ["lexicographic", "lexicographic"]]),
  );
  const about = "Counts of all symbols after each merge. In textbook BPE, </w> ends a word and is a separate symbol.";
  root.append(section("Vocabulary training", make("p", { class: "note", text: about }), make("p"), fields, shown));

  return live(async (signal) => {
    const { words, kind, merges, tie } = form.state;
    const isScore = kind === "wordpiece-score";
    form.controls.tie.disabled = isScore;
    if (!/^\d+$/.test(merges) || Number(merges) > 200) throw new Rejection("Merges: a number from 0 to 200.", {});
    const found = await ask("/api/tokens/learn", { words, kind, merges: Number(merges), tie_break: isScore ? "first" : tie }, signal);
    refill(shown, counting(found), choosing(found, isScore), words_(found));
  }, shown);
}

/** Symbols in rows, merges in columns; changed counts are shown as a sum. */
function counting(found) {
  const counts = new Map(Object.entries(found.symbols));
  const rows = new Map([...counts].map(([symbol, count]) => [symbol, [count]]));
  found.merges.forEach((merge, index) => {
    for (const { symbol } of merge.changes) if (!rows.has(symbol)) rows.set(symbol, Array(index + 1).fill(null));
    const changed = new Map(merge.changes.map((change) => [change.symbol, change]));
    for (const [symbol, cells] of rows) {
      const change = changed.get(symbol);
      const before = cells.at(-1)?.value ?? cells.at(-1);
      if (!change || change.before === change.after) cells.push(before);
      else cells.push({ value: change.after, text: change.before ? `${change.before}−${change.before - change.after}=${change.after}` : `${change.after}`, class: "changed" });
    }
  });
  const columns = [{ name: "symbol", kind: "code" }, { name: "start", kind: "number" }];
  columns.push(...found.merges.map((merge) => ({ name: `${merge.number}: ${merge.merged}`, kind: "number" })));
  const made = table("Counts after each merge", columns, { file: "merges", scroll: false });
  made.querySelector("table").classList.add("matrix");
  made.update([...rows].map(([symbol, cells]) => [symbol, ...cells]));
  return made;
}

/** The reason for each merge. */
function choosing(found, isScore) {
  const worth = (one) => (isScore ? one.score.toPrecision(4) : one.count);
  const made = table("Reason for each merge", [
    { name: "merge", kind: "number" }, { name: "pair", kind: "code" }, { name: isScore ? "score" : "count", kind: "number" },
    { name: "ties", kind: "code" }, { name: "next best", kind: "code" },
  ], { file: "choices", scroll: false });
  made.update(found.merges.map((merge) => {
    const tied = merge.tied_with.map((pair) => pair.join(" "));
    const next = merge.candidates.filter((one) => worth(one) !== worth(merge)).slice(0, 3);
    return [merge.number, `${merge.left} ${merge.right}`, worth(merge), tied.slice(0, 6).join(", "), next.map((one) => `${one.left} ${one.right} ${worth(one)}`).join(", ")];
  }));
  return made;
}

function words_(found) {
  const made = table("Words after merging", [{ name: "word", kind: "code" }, { name: "count", kind: "number" }, { name: "symbols", kind: "code" }], { file: "words", scroll: false });
  made.update(Object.entries(found.segmented).map(([word, symbols]) => [word, found.words[word], symbols.join(" ")]));
  made.append(make("p", { class: "note", text: `Stopped at ${found.stopped}.` }));
  return made;
}
