// Differences: what commits changed, read when it is looked at, and the edits of an agent.

import { h, render, whenSeen } from "./dom.js";
import { get } from "./data.js";
import { commitId, empty, number, short } from "./words.js";

// How many lines of one commit are shown.
const LINES = 2000;
const patches = new Map();

// The differences of these commits.
export function diffs(ids) {
  return ids.map((id) => whenSeen(h("div", { class: "diff", key: id, own: true }, empty("reading…")), async function () {
    try {
      const patch = patches.get(id) ?? await get(`commits/${encodeURIComponent(id)}`);
      patches.set(id, patch);
      render(this, drawn(patch));
    } catch (error) {
      render(this, empty(`commit ${commitId(id)}: ${error.message}`));
    }
  }));
}

function drawn(patch) {
  const lines = patch.text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const files = [];
  for (const line of lines.slice(0, LINES)) {
    if (line.startsWith("diff --git ") || !files.length) files.push({ name: nameOf(line), lines: [], plus: 0, minus: 0, isBody: false });
    const file = files.at(-1);
    if (line.startsWith("@@")) file.isBody = true;
    if (file.isBody) {
      file.lines.push(line);
      file.plus += line.startsWith("+") ? 1 : 0;
      file.minus += line.startsWith("-") ? 1 : 0;
    } else if (/^(new|deleted|rename|similarity|Binary|old mode)/.test(line)) file.lines.push(line);
  }
  const more = lines.length - LINES;
  return [files.map((file) => h("details", { open: files.length <= 8, class: "diff-file" },
    h("summary", null, h("bdi", { class: "code wrap" }, file.name), " ",
      h("span", { class: "plus" }, `+${short(file.plus)}`), " ", h("span", { class: "minus" }, `−${short(file.minus)}`)),
    h("pre", { tabindex: 0, "aria-label": `Changes of ${file.name}` }, patchLines(file.lines)))),
  !files.length && empty("This commit changes no text."),
  more > 0 && empty(`and ${number(more)} more lines`), patch.is_cut && empty("The rest is too large; git show has all of it.")];
}

// The lines of a patch, each with its color.
export function patchLines(lines) {
  return lines.map((line) => h("span", { class: kindOf(line) }, line, "\n"));
}

// The edits of an agent, each `[path, old, new]`: as one picture with its numbers of lines.
export function edits(all) {
  const sum = { drawn: [], plus: 0, minus: 0, size: 0 };
  for (const [path, old, fresh] of all) {
    const { lines, plus, minus } = changedLines(old, fresh);
    sum.plus += plus;
    sum.minus += minus;
    sum.size += lines.length;
    sum.drawn.push(h("pre", { class: "patch", tabindex: 0, "aria-label": `Changes of ${path}` }, patchLines(lines.slice(0, LINES)), lines.length > LINES && `and ${lines.length - LINES} more lines`));
  }
  return sum;
}

// The lines around what differs between two texts, as in a patch.
function changedLines(old, fresh) {
  const [before, after] = [old, fresh].map((text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n")));
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const gone = before.slice(head, before.length - tail);
  const come = after.slice(head, after.length - tail);
  const same = (lines) => lines.map((line) => ` ${line}`);
  const lines = [...same(before.slice(Math.max(0, head - 3), head)), ...gone.map((line) => `-${line}`), ...come.map((line) => `+${line}`), ...same(before.slice(before.length - tail, before.length - tail + 3))];
  return { lines, plus: come.length, minus: gone.length };
}

function nameOf(line) {
  return /^diff --git .* b\/(.*)$/.exec(line)?.[1] ?? line.replace("diff --git ", "");
}

function kindOf(line) {
  if (line.startsWith("@@")) return "at";
  return { "+": "new", "-": "old" }[line[0]] ?? "same";
}
