// Answer: the answer span of a question in a text, and the next best spans.

import { ask, live, Missing } from "../lib/ask.js";
import { fixed, make, refill } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { examplesField, firstExample, modelField, page } from "../lib/page.js";
import { section, table } from "../lib/show.js";
import { marked } from "../lib/spans.js";
import { writeState } from "../lib/state.js";
import { why, WHY } from "../lib/why.js";

const CONTEXT = "The Loire is the longest river of France. It rises in the mountains of the Massif Central and flows for a thousand kilometres to the Atlantic.";

const NAMES = { text: "question", text_pair: "text" };

page(({ root, models }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, ...firstExample(models, { question: "Where does the Loire rise?", text: CONTEXT }, NAMES), top_k: "5", ...WHY }, () => update());
  const figures = make("dl", { class: "figures", "aria-live": "polite" });
  const reading = make("div");
  const best = table("Best answer spans", [
    { name: "piece" }, { name: "from", kind: "number" }, { name: "to", kind: "number" }, { name: "probability", kind: "number" },
  ], { file: "answers" });
  const reasons = why(form, models);
  const shown = make("div", { class: "result" }, figures, reading, best);
  root.append(
    section("Question", modelField(form, models), form.area("question", "Question"), form.area("text", "Context"), examplesField(form, models, NAMES), make("div", { class: "fields few" }, form.number("top_k", "Number of answers", { min: 1, max: 20 }))),
    section("Answer", shown),
    reasons,
  );

  update = live(async (signal) => {
    const { model, question, text, top_k: count } = form.state;
    if (!question.trim() || !text.trim()) reasons.update(null);
    if (!question.trim() || !text.trim()) throw new Missing("The answer appears here as soon as there are a question and a text.");
    const asked = Math.min(Math.max(Number(count) || 5, 1), 20);
    const { answer, candidates } = await ask("/api/answer", { model, question, context: text, top_k: Math.trunc(asked) }, signal);
    const figure = (name, value) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }));
    refill(figures, figure("Answer", answer.start === null ? "not in this text" : answer.answer), figure("Probability", fixed(answer.score)), figure("No answer", fixed(answer.no_answer_score)));
    refill(reading, marked(text, answer.start === null ? [] : [{ start: answer.start, end: answer.end, tint: 4, hint: fixed(answer.score) }]));
    best.update(candidates.map((one) => ({
      cells: [one.answer, one.start, one.end, { text: fixed(one.score, 6), value: one.score }],
      class: one.start === answer.start && one.end === answer.end ? "chosen" : null,
    })));
    reasons.update({ model, text: question, pair: text });
  }, shown);
  writeState(form.state);
  update();
});
