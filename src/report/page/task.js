// The views of all tasks and of one task: its text, neighbors and attempts with their evidence.

import { h, page } from "./dom.js";
import { get, report } from "./data.js";
import { answerBox, retryButton, taskTools } from "./actions.js";
import { diffs } from "./diff.js";
import { markdown } from "./markdown.js";
import { PART, readTranscript, transcript } from "./transcript.js";
import {
  age, bytes, button, capped, chip, command, commitId, countdown, counted, duration, empty, markOf, markOfVerdict,
  moment, money, number, panel, question, said, short, sign, stateOf, taskLink, withCode, withCommands,
} from "./words.js";

// How many entries of a list are shown.
const ROWS = 300;

// What was read of each attempt, by its name.
const boxes = new Map();

export const tasksView = {
  title: () => "Tasks",
  async load() {
    return { graph: await get("graph") };
  },
  draw({ graph, route }) {
    const { query } = route;
    const words = (query.q ?? "").toLowerCase();
    const all = graph.nodes.filter((node) => (!query.state || stateOf(node) === query.state)
      && (!words || `${node.id} ${node.title} ${node.story ?? ""}`.toLowerCase().includes(words)));
    const states = [...new Set(graph.nodes.map(stateOf))].sort();
    const row = (node) => h("li", { class: "row", key: node.id }, sign(markOf(stateOf(node))),
      h("span", { class: "row-main" }, taskLink(node.id), " ", h("bdi", { class: "title" }, node.title)),
      h("span", { class: "row-facts" }, node.story && h("bdi", { class: "tag" }, node.story), h("span", { class: "faint" }, `P${node.priority}`),
        h("span", { class: `state is-${markOf(stateOf(node))}` }, said(stateOf(node)))));
    return [h("div", { class: "view-head" }, h("h1", null, "Tasks"),
      h("div", { class: "tools" },
        h("input", { type: "search", id: "task-filter", "aria-label": "Filter by id, title or story", placeholder: "Filter", value: query.q ?? "", on: { input() { page.go({ q: this.value }, true); } } }),
        h("select", { id: "task-state", key: `state-${query.state ?? ""}`, "aria-label": "Filter by state", on: { change() { page.go({ state: this.value }); } } },
          h("option", { value: "" }, "every state"), states.map((state) => h("option", { key: state, value: state, selected: state === query.state }, said(state)))))),
    panel(graph.file, { count: all.length }, all.length ? h("ul", { class: "rows" }, capped(all, ROWS, row)) : empty(graph.nodes.length ? "No task matches." : "The graph has no task yet."))];
  },
};

export const taskView = {
  title: (route) => route.id,
  async load(route) {
    const task = await get(`tasks/${encodeURIComponent(route.id)}`);
    const attempt = chosen(task, route);
    if (attempt) await readBox(boxOf(attempt), attempt, route);
    return { task };
  },
  // Reads on in the transcript of a running attempt.
  async poll({ task, route }) {
    const attempt = chosen(task, route);
    return Boolean(attempt) && isRunning(attempt) && readTab(boxOf(attempt), route).catch(() => false);
  },
  draw({ task, loadedAt, route, now }) {
    const tags = [["story", task.fields.story], ["milestone", task.fields.milestone], ...(task.fields.tags ?? []).map((tag) => ["tag", tag])];
    return h("div", { class: "task", key: task.id },
      h("div", { class: "view-head" },
        h("div", { class: "task-head" },
          h("p", { class: "crumb" }, h("a", { href: "#/task" }, "Tasks"), " / ", h("bdi", { class: "code" }, task.id), !report && [" · ", h("a", { href: `#/graph?around=${encodeURIComponent(task.id)}` }, "Graph around it")]),
          h("h1", null, h("bdi", null, task.title)),
          h("p", { class: "chips" }, chip(stateOf(task)), h("span", { class: "tag" }, `P${task.priority}`),
            tags.filter(([, value]) => value).map(([kind, value]) => h("bdi", { class: "tag", title: kind }, value)),
            h("span", { class: "faint" }, `${task.file}:${task.line}`))),
        taskTools(task)),
      standing(task, loadedAt, now),
      h("div", { class: "columns" },
        h("div", { class: "main-column" },
          task.fields.description && panel("Description", null, h("div", { class: "prose" }, markdown(task.fields.description))),
          attempts(task, loadedAt, route)),
        h("aside", { class: "side-column", "aria-label": "Facts" },
          neighbors("Depends on", task.depends_on), neighbors("Needed by", task.dependents, task.unfinished_dependents),
          verify(task), fields(task))));
  },
};

// The attempt that the address names; else the newest, if its list was not closed.
function chosen(task, route) {
  const wanted = route.query.attempt;
  if (!wanted) return task.attempts.at(-1);
  return task.attempts.find((attempt) => String(attempt.attempt) === wanted);
}

// Why the task is where it is.
function standing(task, loadedAt, now) {
  const note = (kind, ...text) => h("section", { class: `note is-${kind}`, key: "standing" }, text);
  switch (task.state) {
    case "needs_input": return note("stuck", h("h2", null, "The agent asks"), question(task.id, task.question ?? "It left no question."), answerBox(task.id), h("p", { class: "need-foot" }, command(`ralph answer ${task.id} "…"`)));
    case "parked": return note("stuck", h("p", null, h("b", null, "Parked. "), withCommands(task.why)), h("p", { class: "need-foot" }, command(`ralph task-reset ${task.id}`)));
    case "on_branch": return note("stuck", h("p", null, h("b", null, "Complete on another branch: "), h("code", null, task.branch)));
    case "blocked": return note("stuck", h("p", null, h("b", null, "Blocked by a person. "), task.reason));
    case "waiting": return note("waiting", h("p", null, "Waits on "), h("ul", { class: "inline" }, capped(task.waiting_on, 20, (it) => h("li", { key: it.id }, taskLink(it.id), " ", h("span", { class: "faint" }, said(it.state))))));
    case "conflicting": return note("waiting", h("p", null, task.why));
    case "retrying": return note("waiting", h("p", null, "It failed, and is tried again at ", moment(task.until, true)));
    case "rate_limited": return note("waiting", h("p", null, "Its agent is rate-limited for ", countdown(task.until), ", until ", moment(task.until, true)), h("p", { class: "need-foot" }, now.status === "running" ? retryButton() : null, command("ralph resume --now")));
    case "unreachable": return note("waiting", h("p", null, "Its executor ", h("bdi", null, task.executor), task.permanent ? " cannot be used, and is tried again " : " is out, and is tried again ", [task.until ? ["at ", moment(task.until, true)] : "now"]));
    case "in_progress": return inProgress(task, loadedAt, now, note);
    default: return null;
  }
}

function inProgress(task, loadedAt, now, note) {
  const blocked = now.merge_queue?.blocked;
  switch (task.still) {
    case "queued": return note("waiting", h("p", null, "Its work is done and queued to land", task.live ? "." : [". ", withCommands("`ralph run` lands it.")]));
    case "held": return note("stuck", h("p", null, "Its work is done, but ", blocked ? withCode(blocked.text) : "nothing can land."));
    case "interrupted": return note("waiting", h("p", null, "Its run ended before it did; its work is kept. ", withCommands("`ralph run` continues.")));
    default: return note(task.live ? "running" : "stuck", h("p", null, task.live ? ["An attempt works on it: ", said(task.stage), task.no_contact_since && [", no contact since ", moment(task.no_contact_since)], task.waiting_for && [", ", withCode(task.waiting_for)], ", ", age(task.age_seconds ?? 0, loadedAt)] : ["It is in progress by the graph file, but no run works on it. ", withCommands(`\`ralph task-reset ${task.id}\` makes it pending.`)]));
  }
}

function neighbors(title, all, unfinished) {
  if (!all.length) return null;
  const row = (it) => h("li", { class: "row", key: it.id }, sign(markOf(it.state)), h("span", { class: "row-main" }, taskLink(it.id)), h("span", { class: "row-facts faint" }, said(it.state)));
  return panel(title, { count: all.length, tools: unfinished > all.length && h("span", { class: "faint" }, `${number(unfinished)} in all`) }, h("ul", { class: "rows" }, capped(all, 40, row)));
}

function verify(task) {
  if (!task.verify.length) return null;
  return panel("Verify", { tools: !task.own_verify && h("span", { class: "faint" }, "of the settings") }, h("ul", { class: "steps" }, task.verify.map((line) => h("li", { key: line }, h("code", { class: "wrap" }, line)))));
}

function fields(task) {
  const told = ["description", "story", "milestone", "tags", "status"];
  const rest = Object.entries(task.fields).filter(([name]) => !told.includes(name));
  if (!rest.length) return null;
  const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  return panel("Fields", null, h("dl", { class: "facts" }, rest.slice(0, 40).map(([name, value]) => [h("dt", { key: `${name}-name` }, said(name)), h("dd", { key: name, class: "wrap" }, h("bdi", null, text(value)))])));
}

function boxOf(attempt) {
  const name = `${attempt.task_id}.${attempt.attempt}`;
  if (!boxes.has(name)) boxes.set(name, { name, follows: true });
  return boxes.get(name);
}

function isRunning(attempt) {
  return !attempt.ended_at && !attempt.verdict;
}

async function readBox(box, attempt, route) {
  const running = isRunning(attempt);
  if (!box.details || !box.isEnded) {
    box.details = await get(`attempts/${encodeURIComponent(box.name)}`).catch((error) => ({ error: error.message }));
    box.isEnded = !running;
    box.isStale = true;
  }
  if (box.isStale || running || tabOf(route) === "files") await readTab(box, route);
}

function tabOf(route) {
  return ["changes", "files"].includes(route.query.tab) ? route.query.tab : "transcript";
}

// Reads what the open tab shows; returns whether there is more than before.
async function readTab(box, route) {
  if (tabOf(route) === "files") return readFile(box, route.query.file, route.query.from);
  box.isStale = false;
  return tabOf(route) === "transcript" && readTranscript(box);
}

async function readFile(box, name, from) {
  if (!name || (box.file?.name === name && box.file.asked === from && box.isEnded)) return false;
  try {
    const part = await get(`attempts/${encodeURIComponent(box.name)}/files/${encodeURIComponent(name)}${from ? `?from=${from}` : ""}`);
    box.file = { name, asked: from, ...part };
  } catch (error) {
    box.file = { name, asked: from, error: error.message };
  }
  return true;
}

function attempts(task, loadedAt, route) {
  if (!task.attempts.length) return panel("Attempts", { count: 0 }, empty("No attempt yet."));
  const newest = [...task.attempts].reverse();
  const missing = route.query.attempt && route.query.attempt !== "none" && !chosen(task, route);
  return panel("Attempts", { count: task.attempts.length }, missing && h("p", { class: "bad-text" }, `There is no attempt ${route.query.attempt} at this task.`),
    capped(newest, 50, (attempt) => attemptBox(attempt, task, loadedAt, route), "p"));
}

function attemptBox(attempt, task, loadedAt, route) {
  const box = boxOf(attempt);
  const isOpen = chosen(task, route) === attempt;
  const turn = (event) => {
    event.preventDefault();
    page.go({ attempt: isOpen ? "none" : attempt.attempt, tab: isOpen ? "" : route.query.tab, file: "", from: "" });
  };
  // One whose runner died has no end either.
  const running = isRunning(attempt) && task.live === true;
  const mark = running && task.still ? markOf(task.still) : markOfVerdict(attempt.verdict, !running);
  return h("details", { class: "attempt", key: box.name, open: isOpen, forced: true },
    h("summary", { class: "row", on: { click: turn } }, sign(mark),
      h("span", { class: "row-main" }, h("b", null, `Attempt ${attempt.attempt}`), " ", h("span", { class: `state is-${mark}` }, running ? said(task.still ?? task.stage) : said(attempt.verdict ?? "interrupted")),
        attempt.why && h("span", { class: "line" }, withCode(attempt.why))),
      h("span", { class: "row-facts" }, sizeAndCost(attempt),
        running ? age(task.age_seconds ?? 0, loadedAt) : h("span", { class: "number" }, duration(attempt.duration_seconds)), moment(attempt.started_at))),
    isOpen && h("div", { class: "inside" }, inside(box, attempt, route, running)));
}

function inside(box, attempt, route, running) {
  const { details } = box;
  if (!details) return empty("reading…");
  if (details.error) return empty(details.error);
  const tabs = [["transcript", "Transcript"], ["changes", `Changes${attempt.commits?.length ? ` (${attempt.commits.length})` : ""}`], ["files", `Files (${details.files.length})`]];
  const tab = tabOf(route);
  const choose = (name) => () => page.go({ attempt: attempt.attempt, tab: name === "transcript" ? "" : name, file: "", from: "", errors: "" });
  return [evidence(details, attempt),
    h("div", { class: "tabs", role: "group", "aria-label": `What is shown of attempt ${attempt.attempt}` }, tabs.map(([name, text]) => button(text, choose(name), { key: name, "aria-pressed": String(tab === name) }))),
    tab === "transcript" ? transcript(box, attempt, running, route.query.errors === "1") : tab === "changes" ? changes(attempt) : files(box, details, route)];
}

// The lines that work changed, and its cost.
function sizeAndCost({ diff, cost_usd: cost }) {
  return [diff && h("span", { class: "lines" }, h("span", { class: "plus" }, `+${short(diff.insertions)}`), " ", h("span", { class: "minus" }, `−${short(diff.deletions)}`)),
    cost !== undefined && cost !== null && h("span", { class: "number" }, money(cost))];
}

function evidence(details, attempt) {
  const fact = (name, ...value) => [h("dt", { key: `${name}-name` }, name), h("dd", { key: name }, value)];
  const { tokens } = attempt;
  const end = attempt.outcome && [said(attempt.outcome), attempt.exit_code !== undefined && ` with code ${attempt.exit_code}`, attempt.signal !== undefined && ` by signal ${attempt.signal}`];
  return [
    details.verify_output.length > 0 && [h("h3", null, "Verify output"), h("pre", { class: "excerpt is-bad", tabindex: 0, "aria-label": "Verify output" }, details.verify_output.join("\n"))],
    details.errors.length > 0 && [h("h3", null, "Standard error"), h("pre", { class: "excerpt", tabindex: 0, "aria-label": "Standard error" }, details.errors.join("\n"))],
    h("dl", { class: "facts is-wide" },
      end && fact("Process", end),
      attempt.runs_on && fact("Runs on", h("bdi", null, attempt.runs_on)),
      attempt.report && fact("Reported", `with the ${said(attempt.report)}`),
      attempt.merge && fact("Landing", `${said(attempt.merge.result)} on ${attempt.merge.branch}`, attempt.merge.commit && [" ", h("code", null, commitId(attempt.merge.commit))]),
      attempt.proof && fact("Proof", withCode(attempt.proof.text)),
      attempt.review?.findings?.length > 0 && fact(`Review by ${attempt.review.by}`, attempt.review.findings.map((it, at) => h("p", { class: "wrap", key: at }, `${it.severity}: `, it.file && h("code", null, it.line ? `${it.file}:${it.line}` : it.file), it.file && ": ", withCode(it.text)))),
      attempt.leftovers?.length > 0 && fact("Left uncommitted", h("span", { class: "wrap" }, attempt.leftovers.slice(0, 12).join(", "), attempt.leftovers.length > 12 && ` and ${attempt.leftovers.length - 12} more`)),
      attempt.pinned && attempt.verdict !== "complete" && fact("Work kept", command(`ralph restore ${attempt.task_id}.${attempt.attempt}`)),
      attempt.agent && fact("Agent", h("bdi", null, attempt.agent)),
      tokens && fact("Tokens", `${short(tokens.input)} in, ${short(tokens.output)} out, ${short(tokens.cache_read)} cached`),
      attempt.base && fact("Base", h("code", null, commitId(attempt.base))))];
}

function changes(attempt) {
  if (!attempt.commits?.length) return empty("It made no commit.");
  return attempt.commits.map((commit) => h("div", { key: commit.id }, h("p", { class: "commit" }, h("code", null, commitId(commit.id)), " ", h("bdi", null, commit.subject)), diffs([commit.id])));
}

function files(box, details, route) {
  const open = (name, from) => () => page.go({ tab: "files", file: name, from: from === undefined ? "" : String(Math.max(0, from)) });
  const file = box.file?.name === route.query.file ? box.file : null;
  return [h("div", { class: "tools is-files" }, details.files.map(([name, size]) => button([name, " ", h("span", { class: "faint" }, bytes(size))], open(name), { key: name, "aria-pressed": String(file?.name === name) }))),
    file?.error && empty(file.error),
    file?.text !== undefined && [
      file.size > file.next - file.from && h("p", { class: "parts", key: "parts" }, h("span", { class: "faint" }, `${bytes(file.from)} to ${bytes(file.next)} of ${bytes(file.size)}`),
        file.from > 0 && button("Start", open(file.name, 0)), file.from > 0 && button("Part before", open(file.name, file.from - PART)),
        file.next < file.size && button("Part after", open(file.name, file.next)), file.next < file.size && button("End", open(file.name))),
      file.text ? h("pre", { class: "file", key: "text", tabindex: 0, "aria-label": file.name }, file.text) : empty("It is empty.")]];
}
