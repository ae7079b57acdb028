// The view of the journal: its lines, the newest first, with each line as it is in the file on demand.

import { h, page } from "./dom.js";
import { get, report } from "./data.js";
import { button, clock, disclosure, empty, panel, taskLink } from "./words.js";

// What was read of the journal: the rows in their order, and where the oldest part begins.
const read = { task: null, rows: [], known: new Set(), before: null, isReading: false };
// How many rows are shown.
const ROWS = 600;

function address(task, before) {
  const query = new URLSearchParams();
  if (before) query.set("before", before);
  if (task) query.set("task", task);
  return query.size ? `journal?${query}` : "journal";
}

function keyOf(row) {
  return `${row.run_id} ${row.seq} ${row.action} ${row.at}`;
}

// Adds the rows that were not read before. Times do not order them: clocks are set back.
function add(part, isOlder) {
  const fresh = part.rows.filter((row) => !read.known.has(keyOf(row)));
  for (const row of fresh) read.known.add(keyOf(row));
  read.rows = isOlder ? [...fresh, ...read.rows] : [...read.rows, ...fresh];
}

// Forgets what was read, because the journal was rotated or edited.
export function forgetJournal() {
  read.task = null;
  read.rows = [];
  read.known.clear();
  read.before = null;
}

export const journalView = {
  title: () => "Journal",
  async load(route) {
    const task = route.query.task || null;
    if (read.task !== task) forgetJournal();
    read.task = task;
    const part = await get(address(task));
    add(part, false);
    read.before ??= part.before;
    return { task };
  },
  draw({ task, route }) {
    const isAll = route.query.all === "1";
    const rows = read.rows.filter((row) => !task || row.task_id === task).reverse();
    const told = isAll ? rows : rows.filter((row) => row.text !== null);
    const older = async () => {
      if (read.isReading) return;
      read.isReading = true;
      try {
        const part = await get(address(task, read.before));
        add(part, true);
        read.before = part.before;
      } finally {
        read.isReading = false;
      }
      page.redraw();
    };
    const filter = function () {
      page.go({ task: this.value.trim() });
    };
    const more = told.length - ROWS;
    return [h("div", { class: "view-head" }, h("h1", null, "Journal"),
      h("div", { class: "tools" },
        h("input", { type: "search", id: "journal-task", key: `filter-${task ?? ""}`, "aria-label": "Only the lines about a task", placeholder: "Task id", value: task, on: { change: filter } }),
        button("Every line", () => page.go({ all: isAll ? "" : "1" }), { "aria-pressed": String(isAll), title: "Also the lines that others repeat" }))),
    panel(task ? `Lines about ${task}` : "Newest first", { count: told.length },
      told.length ? h("ol", { class: "journal" }, told.slice(0, ROWS).map(line)) : empty(read.before ? "No such line in this part." : "No line yet."),
      more > 0 && empty(`The oldest ${more} lines that were read are not shown; filter by task to see them.`),
      !report && h("div", { class: "panel-foot" }, read.before ? button("Older lines", older) : h("span", { class: "faint" }, "The journal begins here.")))];
  },
};

function line(row) {
  const raw = () => h("pre", { class: "excerpt", tabindex: 0 }, JSON.stringify(row.record, null, 1));
  const [turn, more] = disclosure(`line-${keyOf(row)}`, "{ }", { "aria-label": `Line ${row.seq} as it is in the file` }, raw);
  return h("li", { key: keyOf(row) }, h("div", { class: "journal-row" },
    h("time", { datetime: row.at, title: row.at }, clock(row.at, true)), h("code", { class: `action is-${row.action}` }, row.action),
    h("span", { class: "journal-text" }, row.task_id && [taskLink(row.task_id), " "], h("bdi", null, textOf(row))), turn), more);
}

// The text without the task, which stands before it.
function textOf(row) {
  const text = row.text ?? "";
  return row.task_id && text.startsWith(`${row.task_id} `) ? text.slice(row.task_id.length + 1) : text.replace(`${row.task_id}: `, "");
}
