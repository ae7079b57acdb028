// What commits changed, read when it is looked at.

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
    h("pre", { tabindex: 0, "aria-label": `Changes of ${file.name}` }, file.lines.map((line) => h("span", { class: kindOf(line) }, line, "\n"))))),
  !files.length && empty("This commit changes no text."),
  more > 0 && empty(`and ${number(more)} more lines`), patch.is_cut && empty("The rest is too large; git show has all of it.")];
}

function nameOf(line) {
  return /^diff --git .* b\/(.*)$/.exec(line)?.[1] ?? line.replace("diff --git ", "");
}

function kindOf(line) {
  if (line.startsWith("@@")) return "at";
  return { "+": "new", "-": "old" }[line[0]] ?? "same";
}
