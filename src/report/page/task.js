// The views of all tasks and of one task: its text, neighbors and attempts with their evidence.

import { h, page } from "./dom.js";
import { get, report } from "./data.js";
import { answerBox, taskTools } from "./actions.js";
import { diffs } from "./diff.js";
import {
  age, bytes, button, capped, chip, command, commitId, duration, empty, markOf, markOfVerdict,
  moment, money, number, panel, said, short, sign, taskLink, withCode, withCommands,
} from "./words.js";

// The size of the parts in which outputs are read, as on the server.
const PART = 128 * 1024;
// How many pieces of a transcript and entries of a list are shown.
const PIECES = 1500;
const ROWS = 300;

// What is open of each attempt, by its name.
const boxes = new Map();
const list = { query: "", state: "" };

export const tasksView = {
  title: () => "Tasks",
  async load() {
    return { graph: await get("graph") };
  },
  draw({ graph }) {
    const words = list.query.toLowerCase();
    const all = graph.nodes.filter((node) => (!list.state || node.state === list.state)
      && (!words || `${node.id} ${node.title} ${node.story ?? ""}`.toLowerCase().includes(words)));
    const states = [...new Set(graph.nodes.map((node) => node.state))].sort();
    const row = (node) => h("li", { class: "row", key: node.id }, sign(markOf(node.state)),
      h("span", { class: "row-main" }, taskLink(node.id), " ", h("bdi", { class: "title" }, node.title)),
      h("span", { class: "row-facts" }, node.story && h("bdi", { class: "tag" }, node.story), h("span", { class: "faint" }, `P${node.priority}`),
        h("span", { class: `state is-${markOf(node.state)}` }, said(node.state))));
    return [h("div", { class: "view-head" }, h("h1", null, "Tasks"),
      h("div", { class: "tools" },
        h("input", { type: "search", id: "task-filter", "aria-label": "Filter by id, title or story", placeholder: "Filter", on: { input() { list.query = this.value; page.redraw(); } } }),
        h("select", { id: "task-state", "aria-label": "Filter by state", on: { change() { list.state = this.value; page.redraw(); } } },
          h("option", { value: "" }, "every state"), states.map((state) => h("option", { key: state, value: state }, said(state)))))),
    panel(graph.file, { count: all.length }, all.length ? h("ul", { class: "rows" }, capped(all, ROWS, row)) : empty("No task matches."))];
  },
};

export const taskView = {
  title: (route) => route.id,
  async load(route) {
    const task = await get(`tasks/${encodeURIComponent(route.id)}`);
    const newest = task.attempts.at(-1);
    await Promise.all(task.attempts.map((attempt) => {
      const box = boxOf(attempt);
      if (attempt === newest && box.isOpen === undefined) box.isOpen = true;
      return box.isOpen ? readBox(box, attempt) : null;
    }));
    return { task };
  },
  // Reads on in the transcripts of running attempts.
  async poll({ task }) {
    const open = task.attempts.map((attempt) => [boxOf(attempt), attempt]).filter(([box, attempt]) => box.isOpen && isRunning(attempt));
    const read = await Promise.all(open.map(([box]) => readTab(box).catch(() => false)));
    return read.some(Boolean);
  },
  draw({ task, loadedAt }) {
    const tags = [["story", task.fields.story], ["milestone", task.fields.milestone], ...(task.fields.tags ?? []).map((tag) => ["tag", tag])];
    return h("div", { class: "task", key: task.id },
      h("div", { class: "view-head" },
        h("div", { class: "task-head" },
          h("p", { class: "crumb" }, h("a", { href: "#/task" }, "Tasks"), " / ", h("bdi", { class: "code" }, task.id)),
          h("h1", null, h("bdi", null, task.title)),
          h("p", { class: "chips" }, chip(task.state), h("span", { class: "tag" }, `P${task.priority}`),
            tags.filter(([, value]) => value).map(([kind, value]) => h("bdi", { class: "tag", title: kind }, value)),
            h("span", { class: "faint" }, `${task.file}:${task.line}`))),
        taskTools(task)),
      standing(task, loadedAt),
      h("div", { class: "columns" },
        h("div", { class: "main-column" },
          task.fields.description && panel("Description", null, h("div", { class: "prose" }, h("bdi", null, task.fields.description))),
          attempts(task, loadedAt)),
        h("aside", { class: "side-column", "aria-label": "Facts" },
          neighbors("Depends on", task.depends_on), neighbors("Needed by", task.dependents, task.unfinished_dependents),
          verify(task), fields(task))));
  },
};

// Why the task is where it is.
function standing(task, loadedAt) {
  const note = (kind, ...text) => h("section", { class: `note is-${kind}`, key: "standing" }, text);
  switch (task.state) {
    case "needs_input": return note("stuck", h("h2", null, "The agent asks"), h("pre", { class: "question", tabindex: 0 }, task.question ?? "It left no question."), answerBox(task.id), h("p", { class: "need-foot" }, command(`ralph answer ${task.id} "…"`)));
    case "parked": return note("stuck", h("p", null, h("b", null, "Parked. "), withCommands(task.why)), h("p", { class: "need-foot" }, command(`ralph task-reset ${task.id}`)));
    case "on_branch": return note("stuck", h("p", null, h("b", null, "Complete on another branch: "), h("code", null, task.branch)));
    case "blocked": return note("stuck", h("p", null, h("b", null, "Blocked by a person. "), task.reason));
    case "waiting": return note("waiting", h("p", null, "Waits on "), h("ul", { class: "inline" }, capped(task.waiting_on, 20, (it) => h("li", { key: it.id }, taskLink(it.id), " ", h("span", { class: "faint" }, said(it.state))))));
    case "conflicting": return note("waiting", h("p", null, task.why));
    case "retrying": return note("waiting", h("p", null, "It failed, and is tried again at ", moment(task.until, true)));
    case "rate_limited": return note("waiting", h("p", null, "Its agent is rate-limited until ", moment(task.until, true)));
    case "unreachable": return note("waiting", h("p", null, "Its executor ", h("bdi", null, task.executor), task.permanent ? " cannot be used, and is tried again " : " is out, and is tried again ", [task.until ? ["at ", moment(task.until, true)] : "now"]));
    case "in_progress": return note(task.live ? "running" : "stuck", h("p", null, task.live ? ["An attempt works on it: ", said(task.stage), task.no_contact_since && [", no contact since ", moment(task.no_contact_since)], ", ", age(task.age_seconds ?? 0, loadedAt)] : "It is in progress by the graph file, but no run works on it."));
    default: return null;
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
  if (!boxes.has(name)) boxes.set(name, { name, tab: "transcript", follows: true });
  return boxes.get(name);
}

function isRunning(attempt) {
  return !attempt.ended_at && !attempt.verdict;
}

async function readBox(box, attempt) {
  if (!box.details || !box.isEnded) {
    box.details = await get(`attempts/${encodeURIComponent(box.name)}`).catch((error) => ({ error: error.message }));
    box.isEnded = !isRunning(attempt);
    await readTab(box);
  }
}

// Reads what the open tab shows; returns whether there is more than before.
async function readTab(box) {
  if (box.tab !== "transcript" || box.isOld) return false;
  const before = box.transcript;
  const from = before ? `?from=${before.next}` : "";
  const part = await get(`attempts/${encodeURIComponent(box.name)}/transcript${from}`).catch(() => null);
  if (!part || (before && part.next === before.next)) {
    if (part && before) before.size = part.size;
    return false;
  }
  // The size says how much came meanwhile: more than a part is skipped.
  if (before && part.size - before.next > 4 * PART) {
    box.transcript = null;
    return readTab(box);
  }
  box.transcript = { ...part, from: before?.from ?? part.from, pieces: joined(before?.pieces ?? [], part.pieces) };
  return true;
}

// Adds pieces; a continuation becomes part of the text before it.
function joined(before, pieces) {
  const all = [...before];
  for (const piece of pieces) {
    const last = all.at(-1);
    if (piece.kind === "goes_on" && last?.kind === "says") all[all.length - 1] = { kind: "says", text: last.text + piece.text };
    else all.push(piece.kind === "goes_on" ? { ...piece, kind: "says" } : piece);
  }
  return all.slice(-PIECES);
}

function attempts(task, loadedAt) {
  if (!task.attempts.length) return panel("Attempts", { count: 0 }, empty("No attempt yet."));
  const newest = [...task.attempts].reverse();
  return panel("Attempts", { count: task.attempts.length }, capped(newest, 50, (attempt) => attemptBox(attempt, task, loadedAt), "p"));
}

function attemptBox(attempt, task, loadedAt) {
  const box = boxOf(attempt);
  const toggle = async function () {
    if (this.open === Boolean(box.isOpen)) return;
    box.isOpen = this.open;
    if (box.isOpen) await readBox(box, attempt);
    page.redraw();
  };
  // One whose runner died has no end either.
  const running = isRunning(attempt) && task.live === true;
  return h("details", { class: "attempt", key: box.name, open: box.isOpen, on: { toggle } },
    h("summary", { class: "row" }, sign(markOfVerdict(attempt.verdict, !running)),
      h("span", { class: "row-main" }, h("b", null, `Attempt ${attempt.attempt}`), " ", h("span", { class: `state is-${markOfVerdict(attempt.verdict, !running)}` }, running ? "running" : said(attempt.verdict ?? "no end recorded")),
        attempt.why && h("span", { class: "line" }, withCode(attempt.why))),
      h("span", { class: "row-facts" }, attempt.diff && h("span", { class: "lines" }, h("span", { class: "plus" }, `+${short(attempt.diff.insertions)}`), " ", h("span", { class: "minus" }, `−${short(attempt.diff.deletions)}`)),
        attempt.cost_usd !== undefined && attempt.cost_usd !== null && h("span", { class: "number" }, money(attempt.cost_usd)),
        running ? age(task.age_seconds ?? 0, loadedAt) : h("span", { class: "number" }, duration(attempt.duration_seconds)), moment(attempt.started_at))),
    box.isOpen && h("div", { class: "inside" }, inside(box, attempt)));
}

function inside(box, attempt) {
  const { details } = box;
  if (!details) return empty("reading…");
  if (details.error) return empty(details.error);
  const tabs = [["transcript", "Transcript"], ["changes", `Changes${attempt.commits?.length ? ` (${attempt.commits.length})` : ""}`], ["files", `Files (${details.files.length})`]];
  const choose = (name) => async () => {
    box.tab = name;
    page.redraw();
    if (await readTab(box)) page.redraw();
  };
  return [evidence(details, attempt),
    h("div", { class: "tabs", role: "group", "aria-label": `What is shown of attempt ${attempt.attempt}` }, tabs.map(([name, text]) => button(text, choose(name), { key: name, "aria-pressed": String(box.tab === name) }))),
    box.tab === "transcript" ? transcript(box) : box.tab === "changes" ? changes(attempt) : files(box, details)];
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

function transcript(box) {
  const part = box.transcript;
  if (!part) return empty("The agent has printed nothing yet.");
  const older = async () => {
    const from = Math.max(0, part.from - PART);
    box.transcript = await get(`attempts/${encodeURIComponent(box.name)}/transcript?from=${from}`);
    box.transcript.pieces = joined([], box.transcript.pieces);
    box.isOld = true;
    box.follows = false;
    page.redraw();
  };
  const newest = async () => {
    Object.assign(box, { isOld: false, transcript: null, follows: true });
    await readTab(box);
    page.redraw();
  };
  const scrolled = function () {
    box.follows = this.scrollHeight - this.scrollTop - this.clientHeight < 40;
  };
  return [
    (part.from > 0 || box.isOld) && h("p", { class: "parts" }, h("span", { class: "faint" }, `from ${bytes(part.from)} of ${bytes(part.size)}`),
      part.from > 0 && !report && button("Part before", older), box.isOld && button("Newest part", newest)),
    h("div", { class: "transcript", key: "transcript", role: "log", tabindex: 0, "aria-label": "Transcript", "data-follow": box.follows ? "end" : null, on: { scroll: scrolled } },
      part.pieces.length ? part.pieces.map((piece) => h("p", { class: `piece is-${piece.kind}` }, h("bdi", null, piece.text))) : empty("Nothing was said in this part."))];
}

function files(box, details) {
  const open = (name, from) => async () => {
    const query = from === undefined ? "" : `?from=${Math.max(0, from)}`;
    box.file = { name };
    try {
      const part = await get(`attempts/${encodeURIComponent(box.name)}/files/${encodeURIComponent(name)}${query}`);
      box.file = { name, ...part };
    } catch (error) {
      box.file = { name, error: error.message };
    }
    page.redraw();
  };
  const { file } = box;
  return [h("div", { class: "tools is-files" }, details.files.map(([name, size]) => button([name, " ", h("span", { class: "faint" }, bytes(size))], open(name), { key: name, "aria-pressed": String(file?.name === name) }))),
    file?.error && empty(file.error),
    file?.text !== undefined && [
      file.size > file.next - file.from && h("p", { class: "parts", key: "parts" }, h("span", { class: "faint" }, `${bytes(file.from)} to ${bytes(file.next)} of ${bytes(file.size)}`),
        file.from > 0 && button("Start", open(file.name, 0)), file.from > 0 && button("Part before", open(file.name, file.from - PART)),
        file.next < file.size && button("Part after", open(file.name, file.next)), file.next < file.size && button("End", open(file.name))),
      file.text ? h("pre", { class: "file", key: "text", tabindex: 0, "aria-label": file.name }, file.text) : empty("It is empty.")]];
}

