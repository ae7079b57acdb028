// The text of an agent, which is mostly Markdown, as elements. What is not understood stays text.

import { h } from "./dom.js";

// A longer text is shown as it is.
const LONGEST = 40000;
const ITEM = /^(\s*)([-*+]|\d{1,3}[.)])\s+(.*)$/;
const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|__(.+?)__|(?<![\w*])\*(?!\s)([^*]+?)\*(?![\w*])|!?\[([^\]]*)\]\(([^()\s]*)\)/;

export function markdown(text) {
  if (text.length > LONGEST) return h("pre", null, text);
  return blocks(text.split("\n"));
}

function inline(text) {
  const parts = [];
  let rest = text;
  for (let found = INLINE.exec(rest); found && parts.length < 400; found = INLINE.exec(rest)) {
    const [whole, , code, strong, strongToo, weak, label, address] = found;
    parts.push(rest.slice(0, found.index));
    if (code !== undefined) parts.push(h("code", null, code));
    else if (strong ?? strongToo) parts.push(h("b", null, inline(strong ?? strongToo)));
    else if (weak) parts.push(h("em", null, inline(weak)));
    // An address of an agent is text: the page leads nowhere else.
    else parts.push(inline(label), label === address ? "" : ` (${address})`);
    rest = rest.slice(found.index + whole.length);
  }
  return [...parts, rest];
}

function blocks(lines) {
  const all = [];
  let at = 0;
  const takeWhile = (test) => {
    const from = at;
    while (at < lines.length && test(lines[at], at - from)) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)/.exec(line);
    if (!line.trim()) at += 1;
    else if (fence) {
      at += 1;
      const code = takeWhile((it) => !it.trim().startsWith(fence[1]));
      at += 1;
      all.push(h("pre", { class: "md-code" }, code.join("\n")));
    } else if (/^#{1,6}\s/.test(line)) {
      at += 1;
      all.push(h("p", { class: "md-head" }, inline(line.replace(/^#+\s+/, ""))));
    } else if (/^\s*([-*_])\s*(\1\s*){2,}$/.test(line)) {
      at += 1;
      all.push(h("hr"));
    } else if (/^\s*>/.test(line)) all.push(h("blockquote", null, blocks(takeWhile((it) => /^\s*>/.test(it)).map((it) => it.replace(/^\s*> ?/, "")))));
    else if (ITEM.test(line)) all.push(list(takeWhile((it, no) => no === 0 || ITEM.test(it) || /^\s{2,}\S/.test(it))));
    else if (line.includes("|") && /^[\s|:-]*-[\s|:-]*$/.test(lines[at + 1] ?? "") && lines[at + 1].includes("|")) all.push(table(takeWhile((it) => it.includes("|"))));
    else {
      const text = takeWhile((it, no) => no === 0 || (it.trim() && !/^(#{1,6}\s|\s*(```|~~~|>))/.test(it) && !ITEM.test(it)));
      all.push(h("p", null, text.map((it, no) => [no > 0 && "\n", inline(it)])));
    }
  }
  return all;
}

// A list; lines that are indented more than the first are below their item.
function list(lines) {
  const [, indent, sign] = ITEM.exec(lines[0]);
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent.length) items.push({ text: item[3], below: [] });
    else items.at(-1).below.push(line.slice(indent.length + 2));
  }
  const drawn = items.map(({ text, below }) => {
    const box = /^\[([ xX])\]\s+(.*)$/.exec(text);
    return h("li", null, box ? [box[1] === " " ? "☐ " : "☑ ", inline(box[2])] : inline(text), below.length > 0 && blocks(below));
  });
  return h(/\d/.test(sign) ? "ol" : "ul", { class: "md-list" }, drawn);
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (name) => (line) => h("tr", null, cells(line).map((cell) => h(name, name === "th" ? { scope: "col" } : null, inline(cell))));
  return h("div", { class: "md-table" }, h("table", null, h("thead", null, row("th")(lines[0])), h("tbody", null, lines.slice(2).map(row("td")))));
}
