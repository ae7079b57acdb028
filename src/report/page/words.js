// Values in words and signs: times, money, states. The same words as in the terminal.

import { h, s, copy, page } from "./dom.js";

const NEUTRAL = ["cancelled", "rate-limited", "again"];
// The program's table: the word and the mark of each state of a task, and the words of each mark.
const table = { states: {}, marks: {} };

export function setTable(known) {
  Object.assign(table, known);
}

// The state of a task as it is shown: why no process works on its open attempt, if none does.
export function stateOf(task) {
  return task.still ?? task.state;
}

// The few kinds of states that a sign tells apart.
export function markOf(state) {
  return table.states[state]?.[1] ?? "ready";
}

// The marks with the number of tasks, for the counts of the states. Open attempts that nothing works on
// are in progress there.
export function countsByMark(counts, attempts) {
  const sums = Object.fromEntries(Object.keys(table.marks).map((mark) => [mark, 0]));
  for (const state of Object.keys(table.states)) if (state !== "queued") sums[markOf(state)] += counts[state] ?? 0;
  for (const { still } of attempts) {
    // The task of an attempt that was cut off can start again.
    const counted = sums.running ? "running" : "ready";
    if (!still || !sums[counted]) continue;
    sums[counted] -= 1;
    sums[markOf(still)] += 1;
  }
  return Object.entries(sums).filter(([, count]) => count > 0);
}

// The sign of a verdict; without one the attempt runs.
export function markOfVerdict(verdict, ended = true) {
  if (!verdict) return ended ? "interrupted" : "running";
  if (verdict === "interrupted") return "interrupted";
  if (verdict === "complete") return "done";
  if (verdict === "needs-input") return "stuck";
  return NEUTRAL.includes(verdict) ? "cancelled" : "failed";
}

// Returns the shapes of a sign in a box of 16 by 16: each state has its own, so that color is not needed.
export function shapes(mark) {
  const line = (d) => s("path", { d, class: "sign-line" });
  const circle = (kind) => s("circle", { cx: 8, cy: 8, r: 6.25, class: kind });
  switch (mark) {
    case "done": return [circle("sign-fill"), s("path", { d: "M5 8.3l2.1 2.1L11 6.2", class: "sign-cut" })];
    case "running": return [circle("sign-faint"), s("path", { d: "M8 1.75a6.25 6.25 0 0 1 6.25 6.25", class: "sign-line sign-turns" }), s("circle", { cx: 8, cy: 8, r: 2.5, class: "sign-dot" })];
    case "waiting": return [circle("sign-dashed")];
    case "queued": return [line("M3 4.5h10M3 8h10M3 11.5h6")];
    case "held": return [s("rect", { x: 3, y: 2.5, width: 3.4, height: 11, rx: 1, class: "sign-dot" }), s("rect", { x: 9.6, y: 2.5, width: 3.4, height: 11, rx: 1, class: "sign-dot" })];
    case "interrupted": return [line("M2 8h4.2M9.8 8H14M7 12.5 9 3.5")];
    case "rate_limited": return [circle("sign-open"), line("M8 4.5V8l2.4 1.6")];
    case "stuck": return [s("path", { d: "M8 .9 15.1 8 8 15.1.9 8z", class: "sign-fill" }), s("path", { d: "M8 4.6v3.9M8 10.9v.3", class: "sign-cut" })];
    case "failed": return [s("rect", { x: 1.75, y: 1.75, width: 12.5, height: 12.5, rx: 3, class: "sign-fill" }), s("path", { d: "M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8", class: "sign-cut" })];
    case "cancelled": return [circle("sign-open"), line("M3.8 12.2 12.2 3.8")];
    default: return [circle("sign-open")];
  }
}

export function sign(mark, label) {
  const name = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  return s("svg", { class: `sign is-${mark}`, viewBox: "0 0 16 16", width: 16, height: 16, ...name }, shapes(mark));
}

export function markName(mark) {
  return table.marks[mark] ?? mark;
}

// A state with its sign.
export function chip(state, mark = markOf(state)) {
  return h("span", { class: `chip is-${mark}` }, sign(mark), said(state));
}

// A word of the data, as `needs_input`, as it is read.
export function said(word) {
  return table.states[word]?.[0] ?? String(word ?? "").replaceAll(/[_-]/g, " ").replace("rate limited", "rate-limited");
}

export function counted(count, word) {
  const end = count === 1 ? "" : /(s|x|ch)$/.test(word) ? "es" : "s";
  return `${number(count)} ${word}${end}`;
}

export function number(value) {
  return Number(value ?? 0).toLocaleString("en");
}

export function short(value) {
  if (value < 1000) return String(value);
  const units = ["k", "M", "G", "T"];
  let at = -1;
  while (value >= 999.5 && at + 1 < units.length) {
    value /= 1000;
    at += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)}${units[at]}`;
}

export function bytes(value) {
  return value < 1000 ? `${value} B` : `${short(value)}B`;
}

// Seconds as `42s`, `3m 05s`, `2h 14m`, `3d 4h`.
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "—";
  const all = Math.max(0, Math.round(seconds));
  const two = (value) => String(value).padStart(2, "0");
  if (seconds < 10 && all !== seconds) return `${Math.max(0, seconds).toFixed(1)}s`;
  if (all < 60) return `${all}s`;
  if (all < 3600) return `${Math.floor(all / 60)}m ${two(all % 60)}s`;
  if (all < 86400) return `${Math.floor(all / 3600)}h ${two(Math.floor(all / 60) % 60)}m`;
  return `${Math.floor(all / 86400)}d ${Math.floor(all / 3600) % 24}h`;
}

export function money(dollars) {
  if (dollars === null || dollars === undefined) return "—";
  return dollars > 0 && dollars < 0.01 ? "<$0.01" : `$${dollars.toFixed(2)}`;
}

export function clock(at, seconds = false) {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return "—";
  const parts = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (seconds) parts.second = "2-digit";
  const text = time.toLocaleTimeString("en", parts);
  const isToday = time.toDateString() === new Date().toDateString();
  return isToday ? text : `${time.toLocaleDateString("en", { month: "short", day: "numeric" })} ${text}`;
}

// A time as it is said: near ones relative to now, which `tick` counts on; the whole one on hover.
export function moment(at, seconds = false) {
  if (!at) return "—";
  const full = `${new Date(at).toLocaleString("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" })} (${at})`;
  return h("time", { datetime: at, title: full, "data-near": seconds ? null : "" }, seconds ? clock(at, true) : near(at));
}

function near(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  if (!(Math.abs(seconds) < 12 * 3600)) return clock(at);
  const length = duration(Math.abs(seconds)).replace(/ \d\ds$/, "");
  if (seconds >= 0) return seconds < 60 ? "just now" : `${length} ago`;
  return seconds > -60 ? "now" : `in ${length}`;
}

// A length of time that goes on. `tick` counts it up.
export function age(seconds, loadedAt) {
  return h("span", { class: "number", "data-age": seconds, "data-loaded": loadedAt }, duration(Math.floor(seconds)));
}

export function tick(root = document) {
  for (const element of root.querySelectorAll("time[data-near]")) {
    const text = near(element.dateTime);
    if (element.textContent !== text) element.textContent = text;
  }
  for (const element of root.querySelectorAll("[data-until]")) {
    const text = duration(Math.max(0, Math.ceil((Date.parse(element.dataset.until) - Date.now()) / 1000)));
    if (element.textContent !== text) element.textContent = text;
  }
  for (const element of root.querySelectorAll("[data-age]")) {
    const passed = (performance.now() - Number(element.dataset.loaded)) / 1000;
    const text = duration(Math.floor(Number(element.dataset.age) + passed));
    if (element.textContent !== text) element.textContent = text;
  }
}

// The time until then, which `tick` counts down.
export function countdown(until) {
  return h("span", { class: "number", "data-until": until, title: clock(until, true) }, duration(Math.max(0, Math.ceil((Date.parse(until) - Date.now()) / 1000))));
}

export function taskLink(id, text = id) {
  return h("a", { href: `#/task/${encodeURIComponent(id)}`, class: "task-link" }, h("bdi", null, text));
}

export function commitId(id) {
  return String(id).slice(0, 9);
}

export function button(text, click, properties) {
  return h("button", { type: "button", on: { click }, ...properties }, text);
}

// A command of the terminal with a button that copies it.
export function command(text) {
  return h("span", { class: "command" }, h("code", null, text),
    h("button", { type: "button", class: "copy", "aria-label": `Copy ${text}`, on: { click() { copy(text, this); } } },
      s("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
        s("path", { d: "M5.5 5.5v-3h8v8h-3m0-5v8h-8v-8z", class: "copy-sheets" }),
        s("path", { d: "M3 8.5l3.2 3.2L13 4.6", class: "copy-tick" }))));
}

const opened = new Set();
// A question with more lines or characters is cut.
const QUESTION = { lines: 6, length: 420 };

// A question; of a long one the beginning, so that the box for the answer stays in sight.
export function question(id, text) {
  const lines = text.split("\n");
  const isLong = lines.length > QUESTION.lines || text.length > QUESTION.length;
  const name = `question-${id}`;
  const isOpen = opened.has(name);
  const shown = isLong && !isOpen ? `${lines.slice(0, QUESTION.lines).join("\n").slice(0, QUESTION.length)}…` : text;
  return [h("pre", { class: "question", tabindex: 0, key: name }, shown),
    isLong && disclosure(name, isOpen ? "Less" : "More", { "aria-label": isOpen ? "Less of the question" : "The whole question" }, () => null)];
}

// A button that shows more, and what it shows while it is open. `name` is unique on the page.
export function disclosure(name, label, properties, more) {
  const isOpen = opened.has(name);
  const turn = () => {
    if (!opened.delete(name)) opened.add(name);
    page.redraw();
  };
  return [button(label, turn, { class: "plain", "aria-expanded": String(isOpen), ...properties }), isOpen && more()];
}

// A sentence whose code stands between backquotes.
export function withCode(text) {
  return String(text).split("`").map((part, at) => (at % 2 ? h("code", null, part) : part));
}

// A sentence whose commands stand between backquotes; they can be copied.
export function withCommands(text) {
  return String(text).split("`").map((part, at) => {
    if (at % 2 === 0) return part;
    return part.startsWith("ralph ") || part.startsWith("git ") ? command(part) : h("code", null, part);
  });
}

// The first entries of a list, and how many there are besides, in an element like the entries.
export function capped(all, limit, draw, element = "li") {
  const more = all.length - limit;
  return [all.slice(0, limit).map(draw), more > 0 && h(element, { class: "more", key: "more" }, `and ${number(more)} more`)];
}

export function panel(title, properties, ...children) {
  const { count, tools, ...rest } = properties ?? {};
  return h("section", { key: `panel-${title}`, ...rest, class: `panel ${rest.class ?? ""}` },
    h("div", { class: "panel-head" },
      h("h2", null, title, count !== undefined && h("span", { class: "count" }, number(count))), tools), children);
}

export function empty(...text) {
  return h("p", { class: "empty" }, text);
}
