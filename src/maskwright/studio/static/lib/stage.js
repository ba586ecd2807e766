// Teacher's mode: a lesson on the whole screen in large type, one section after the other.

import { make } from "./dom.js";

const LARGEST = 1.75; // magnification
const WIDTH = 720; // of a column of text in pixels, at magnification 1
const STEPS = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1, Home: -Infinity, End: Infinity };

/**
 * A dialog. `open(step)` shows it, `show(address, title)` loads the page of a lesson; onstep(number): called with each
 * step, null when it is left; `hold(element)`: what is shown above the page, given back when it is left.
 */
export function stage(onstep) {
  let step = 0;
  let steps = [];
  const heading = make("h2", { text: "" });
  const place = make("p", { class: "note", role: "status" });
  const before = make("button", { type: "button", text: "Back", on: { click: () => go(step - 1) } });
  const after = make("button", { type: "button", class: "main", text: "Next", on: { click: () => go(step + 1) } });
  const leave = make("button", { type: "button", text: "Leave", title: "Escape", on: { click: () => dialog.close() } });
  const held = make("div", { class: "held" });
  const frame = make("iframe", { title: "The lesson, section by section" });
  const bar = make("div", { class: "bar" }, heading, place, make("div", { class: "buttons" }, before, after, leave));
  const dialog = make("dialog", { class: "stage", "aria-label": "Teacher's mode" }, bar, held);

  const go = (wanted) => {
    step = Math.max(0, Math.min(steps.length - 1, wanted));
    steps[step]?.();
    place.textContent = steps.length ? `${step + 1} of ${steps.length}` : "";
    before.disabled = step === 0;
    after.disabled = step >= steps.length - 1;
    if (document.activeElement === document.body || document.activeElement === dialog) (after.disabled ? before : after).focus();
    if (dialog.open) onstep(step);
  };
  const press = (event) => {
    if (event.key === "Escape") dialog.close();
    else if (event.key in STEPS && !event.target.matches("input, select, textarea")) go(step + STEPS[event.key]);
    else return;
    event.preventDefault();
  };
  dialog.addEventListener("keydown", press);
  dialog.addEventListener("close", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    dialog.giveBack();
    frame.remove();
    onstep(null);
  });
  document.addEventListener("fullscreenchange", () => !document.fullscreenElement && dialog.open && dialog.close());
  frame.addEventListener("load", () => {
    const page = frame.contentDocument;
    if (!page?.querySelector("main")) return;
    page.addEventListener("keydown", press);
    enlarge(page, frame.clientWidth);
    steps = stepsOf(page);
    go(step);
  });
  new ResizeObserver(() => frame.contentDocument?.documentElement && enlarge(frame.contentDocument, frame.clientWidth)).observe(frame);

  dialog.show = (address, title) => {
    heading.textContent = title;
    if (dialog.open) frame.contentWindow.location.replace(address);
  };
  dialog.start = (wanted, address, controls) => {
    if (dialog.open) return go(wanted);
    step = wanted;
    const parent = controls.parentElement;
    const next = controls.nextSibling;
    held.append(controls);
    dialog.append(frame);
    dialog.giveBack = () => parent.insertBefore(controls, next);
    dialog.showModal();
    frame.contentWindow.location.replace(address);
    after.focus();
  };
  return dialog;
}

/** What each step shows of the page: its head with the introduction, then each section, an answer after its question. */
function stepsOf(page) {
  const head = page.querySelector("header");
  const [first, ...rest] = page.querySelectorAll("main > section");
  const all = [head, first, ...rest].filter(Boolean);
  const show = (shown, isUnfolded = false) => () => {
    for (const one of all) one.style.display = shown.includes(one) ? "" : "none";
    Object.assign(shown[0].style, { marginTop: "0", paddingTop: "0", borderTop: "0" });
    for (const answer of page.querySelectorAll("details.folded")) answer.open = isUnfolded;
    page.documentElement.scrollTop = 0;
  };
  for (const one of page.querySelectorAll("nav, footer")) one.style.display = "none";
  return [show([head, first]), ...rest.flatMap((one) => (one.querySelector("details.folded") ? [show([one]), show([one], true)] : [show([one])]))];
}

function enlarge(page, width) {
  page.documentElement.style.zoom = Math.max(1, Math.min(LARGEST, width / WIDTH));
  const body = page.querySelector(".page");
  if (body) Object.assign(body.style, { display: "block", maxWidth: "none", padding: "1.5rem clamp(1rem, 3vw, 2.5rem)" });
}
