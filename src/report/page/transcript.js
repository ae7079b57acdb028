// The transcript of an attempt: what its agent said, thought and did, with the results of its tools.

import { h, page } from "./dom.js";
import { get, report } from "./data.js";
import { edits, patchLines } from "./diff.js";
import { markdown } from "./markdown.js";
import { button, bytes, clock, counted, duration, empty, sign } from "./words.js";

// The size of the parts in which outputs are read, as on the server.
export const PART = 128 * 1024;
// How many steps are shown, and how long a step of plain lines becomes.
const STEPS = 1500;
const LINES = 20000;
// A change with so many lines is open at first.
const SMALL = 30;

// Reads on; returns whether there is more than before.
export async function readTranscript(box) {
  if (box.isOld) return false;
  const before = box.transcript;
  const part = await get(`attempts/${encodeURIComponent(box.name)}/transcript${before ? `?from=${before.next}` : ""}`).catch(() => null);
  if (!part || (before && part.next === before.next)) {
    if (part && before) before.size = part.size;
    return false;
  }
  // The size says how much came meanwhile: more than a part is skipped.
  if (before && part.size - before.next > 4 * PART) {
    box.transcript = null;
    return readTranscript(box);
  }
  box.transcript = { ...part, from: before?.from ?? part.from, steps: joined(before?.steps ?? [], part.pieces) };
  return true;
}

// Adds pieces to steps: a continuation or a result becomes part of the step that it belongs to.
function joined(before, pieces) {
  const steps = [...before];
  let next = (steps.at(-1)?.key ?? 0) + 1;
  const usedAs = (id) => (id ? steps.findLastIndex((step) => step.kind === "uses" && step.id === id) : -1);
  for (const piece of pieces) {
    const last = steps.at(-1);
    const at = ["uses", "result"].includes(piece.kind) ? usedAs(piece.id) : -1;
    if (piece.kind === "goes_on" && last?.kind === "says") steps[steps.length - 1] = { ...last, text: last.text + piece.text };
    else if (piece.kind === "line" && last?.kind === "line" && last.text.length < LINES) steps[steps.length - 1] = { ...last, text: `${last.text}\n${piece.text}` };
    else if (piece.kind === "result" && at >= 0) steps[at] = { ...steps[at], result: piece };
    else if (piece.kind === "uses" && at >= 0 && !steps[at].result) steps[at] = { ...steps[at], input: piece.input };
    else {
      const kind = piece.kind === "goes_on" ? "says" : piece.kind;
      steps.push({ ...piece, kind, key: next });
      next += 1;
    }
  }
  return steps.slice(-STEPS);
}

function isError(step) {
  return step.kind === "fails" || (step.result ?? step).is_error === true;
}

export function transcript(box, attempt, isRunning, errorsOnly) {
  const part = box.transcript;
  if (!part) return empty(isRunning ? "The agent has printed nothing yet." : "Its output was not kept.");
  const older = async () => {
    const from = Math.max(0, part.from - PART);
    const read = await get(`attempts/${encodeURIComponent(box.name)}/transcript?from=${from}`);
    Object.assign(box, { transcript: { ...read, steps: joined([], read.pieces) }, isOld: true, follows: false });
    page.redraw();
  };
  const newest = async () => {
    Object.assign(box, { isOld: false, transcript: null, follows: true });
    await readTranscript(box);
    page.redraw();
  };
  const scrolled = function () {
    box.follows = this.scrollHeight - this.scrollTop - this.clientHeight < 40;
  };
  const errors = part.steps.filter(isError).length;
  const shown = errorsOnly ? part.steps.filter(isError) : part.steps;
  return [h("div", { class: "parts", key: "parts" },
    (errors > 0 || errorsOnly) && button(`Errors only (${errors})`, () => page.go({ errors: errorsOnly ? "" : "1" }), { "aria-pressed": String(errorsOnly) }),
    (part.from > 0 || box.isOld) && h("span", { class: "faint" }, `from ${bytes(part.from)} of ${bytes(part.size)}`),
    part.from > 0 && !report && button("Part before", older), box.isOld && button("Newest part", newest)),
  h("div", { class: "transcript", key: "transcript", role: "log", tabindex: 0, "aria-label": "Transcript", "data-follow": box.follows ? "end" : null, on: { scroll: scrolled } },
    shown.length ? shown.map((step) => drawStep(step, attempt, isRunning)) : empty(errorsOnly ? "No error in this part." : "Nothing was said in this part."))];
}

function drawStep(step, attempt, isRunning) {
  const key = `step-${step.key}${isError(step) ? "-bad" : ""}`;
  const time = step.at && h("time", { class: "step-time", datetime: step.at, title: clock(step.at, true) }, `+${duration(Math.max(0, Math.round((Date.parse(step.at) - Date.parse(attempt.started_at)) / 1000)))}`);
  const block = (kind, ...children) => h("div", { class: `piece is-${kind}`, key }, h("div", { class: "piece-text" }, children), time);
  switch (step.kind) {
    case "says": return block("says", markdown(step.text));
    case "thinks": return h("details", { class: "piece is-thinks", key }, h("summary", null, h("span", { class: "piece-text" }, "Thinking"), time), h("div", { class: "thought" }, markdown(step.text)));
    case "uses": return drawUse(step, key, time, isRunning);
    case "result": return block(step.is_error ? "fails" : "result", h("pre", null, step.text || "(no output)"));
    default: return block(step.kind, h("bdi", null, step.text));
  }
}

function drawUse(step, key, time, isRunning) {
  const { input, result } = step;
  const changes = input.edits && edits(input.edits);
  const took = result?.at && step.at ? (Date.parse(result.at) - Date.parse(step.at)) / 1000 : null;
  const mark = result ? (result.is_error ? "failed" : "done") : isRunning ? "running" : "cancelled";
  const isOpen = result?.is_error || input.todo || (changes && changes.size <= SMALL);
  const isLong = (input.command ?? "") !== step.text;
  const body = [
    input.todo && todo(input.todo), changes?.drawn,
    input.patch && h("pre", { class: "patch", tabindex: 0, "aria-label": "Patch" }, patchLines(input.patch.split("\n"))),
    input.command && isLong && h("pre", { class: "command-text", tabindex: 0, "aria-label": "Command" }, input.command),
    input.other && h("pre", { class: "excerpt", tabindex: 0, "aria-label": "Input" }, input.other),
    result && (result.is_error || !(changes || input.todo)) && h("pre", { class: result.is_error ? "excerpt is-bad" : "excerpt", tabindex: 0, "aria-label": "Result" }, result.text || "(no output)"),
    !result && empty(isRunning ? "It has no result yet." : "It has no result."),
  ];
  return h("details", { class: `piece is-uses${result?.is_error ? " is-fails" : ""}`, key, open: Boolean(isOpen) },
    h("summary", null, sign(mark, result?.is_error ? "failed" : null),
      h("span", { class: "piece-text" }, h("b", null, step.tool), " ", h("bdi", { class: "code" }, step.text),
        changes && [" ", h("span", { class: "plus" }, `+${changes.plus}`), " ", h("span", { class: "minus" }, `−${changes.minus}`)],
        input.todo && h("span", { class: "faint" }, ` ${counted(input.todo.length, "entry").replace("entrys", "entries")}`)),
      took !== null && h("span", { class: "step-took" }, duration(took)), time),
    h("div", { class: "piece-more" }, body));
}

function todo(items) {
  const marks = { completed: "☑", in_progress: "▶", cancelled: "☒" };
  return h("ul", { class: "todo" }, items.map(([state, text]) => h("li", { class: `is-${state || "pending"}` }, h("span", { role: "img", "aria-label": (state || "pending").replace("_", " ") }, marks[state] ?? "☐"), " ", h("bdi", null, text))));
}
