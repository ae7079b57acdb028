// The view of the run: how it stands, who is needed, what runs, what landed, what is next.

import { h, s } from "./dom.js";
import { get, report } from "./data.js";
import { answerBox, resetButton, runTools } from "./actions.js";
import {
  age, capped, command, commitId, countdown, counted, countsByMark, disclosure, duration, empty, markName, markOf, moment,
  money, number, panel, question, said, short, sign, taskLink, withCode, withCommands,
} from "./words.js";
import { diffs } from "./diff.js";

const GOES_ON = ["running", "suspended", "pausing", "stopping"];
const KINDS = {
  login: "authentication", landing_blocked: "landing is blocked", checkout_waits: "your checkout", baseline: "already broken",
  question: "question", parked: "parked", spent: "cost limit", blocked: "blocked", on_branch: "other branch",
  claimed: "in progress elsewhere", cancelled: "cancelled dependency", excluded: "not selected",
};
// How many entries of a list are shown.
const LIST = 100;
// How many lines of a question the report has.
const ASKED = 12;
// The titles of the tasks that were read.
const titles = new Map();

// Why the run stands as it does.
function reason(now) {
  if (now.waiting) return [now.waiting.why, "; ", countdown(now.waiting.until), " left, until ", moment(now.waiting.until, true)];
  if (now.status === "crashed") return ["Its process is gone; finished work is not repeated. ", withCommands("`ralph run` continues.")];
  if (now.headline.command && !GOES_ON.includes(now.status)) return withCommands(`\`${now.headline.command}\` ${now.run_id ? "goes on" : "starts"}.${now.why ? ` Before: ${now.why}.` : ""}`);
  return now.why ? withCommands(now.why) : null;
}

// The parts of the headline; one of them leads to the reviews, one to what needs a person.
function headline(now) {
  const { parts, word } = now.headline;
  if (!parts.length) return word[0].toUpperCase() + word.slice(1);
  const linked = (part) => {
    if (part.kind === "review") return h("a", { href: "#/review" }, part.text);
    return h("span", { class: `part-${part.kind}` }, part.text);
  };
  return parts.map((part, at) => [at > 0 && h("span", { class: "dot-between" }, " · "), linked(part)]);
}

export const nowView = {
  title: () => "Now",
  async load(route, now) {
    // The graph is large, and only its titles are needed.
    const isKnown = now.attempts.every((attempt) => titles.has(attempt.task_id));
    const graph = isKnown ? null : await get("graph").catch(() => null);
    for (const node of graph?.nodes ?? []) titles.set(node.id, node.title);
    if (now.attempts.length && !report && GOES_ON.includes(now.status)) await readActivity();
    return { now };
  },
  poll({ now }) {
    return now.attempts.length > 0 && !report && GOES_ON.includes(now.status) && readActivity();
  },
  draw({ now, loadedAt }) {
    return h("div", { class: "now" },
      h("section", { class: `hero is-${now.headline.tone}`, key: "hero" },
        h("div", { class: "hero-text" },
          now.headline.parts.length > 0 && h("p", { class: "standing-word" }, now.headline.word),
          h("h1", null, headline(now)),
          h("p", { class: "why" }, reason(now))),
        runTools(now),
        progress(now)),
      now.run_id ? null : beginning(now),
      now.run_id && now.unknown?.length > 0 && h("div", { class: now.number > 1 ? "unknown faint" : "unknown banner", key: "unknown" }, now.unknown.map((text) => h("p", { key: text }, h("b", null, "Not known: "), withCommands(text)))),
      h("div", { class: "columns", key: "columns" },
        h("div", { class: "main-column" },
          needs(now.attention, now),
          running(now, loadedAt),
          unreachable(now),
          failed(now, now.attention),
          landed(now),
          upcoming(now)),
        h("aside", { class: "side-column", "aria-label": "Numbers" }, now.run_id && totals(now, loadedAt), steps(now), queue(now), earlier(now))));
  },
};

// How many tasks are in each state, as a bar and in words.
function progress({ left: counts, attempts }) {
  if (!counts || !counts.total) return null;
  const parts = countsByMark(counts, attempts).reverse();
  let at = 0;
  const bars = parts.map(([mark, count]) => {
    const width = (count / counts.total) * 100;
    const bar = s("rect", { key: mark, class: `part is-${mark}`, x: `${at}%`, y: 0, width: `${width}%`, height: 8 });
    at += width;
    return bar;
  });
  const words = parts.map(([mark, count]) => h("li", { key: mark, class: `is-${mark}` }, sign(mark), h("b", null, number(count)), ` ${markName(mark)}`));
  return h("div", { class: "progress" },
    h("div", { class: "bar", role: "img", "aria-label": `${counts.complete} of ${counts.total} complete` }, s("svg", { width: "100%", height: 8, "aria-hidden": "true" }, bars)),
    h("ul", { class: "legend" }, words, h("li", { class: "of" }, `of ${number(counts.total)}`)));
}

function needs(attention, now) {
  if (!attention.length) return null;
  const unproved = attention.filter((need) => need.kind === "unproved");
  const others = attention.filter((need) => need.kind !== "unproved");
  return panel("Needs you", { count: others.length || undefined, class: "needs" },
    capped(others, LIST, (need) => needRow(need, now), "p"),
    unproved.length > 0 && h("article", { class: "need", key: "unproved" }, h("div", { class: "need-head" }, sign("stuck"), h("span", { class: "kind" }, `${counted(unproved.length, "task")} not proved`),
      unproved.slice(0, 6).map((need) => taskLink(need.task_id)), unproved.length > 6 && h("span", { class: "faint" }, `and ${unproved.length - 6} more`)),
    h("p", { class: "why" }, "Nothing shows that their checks notice them. ", h("a", { href: "#/review" }, "Review"), " shows each with the reason.")));
}

function needRow(need, now) {
  const id = need.task_id;
  const canReset = ["parked", "spent", "blocked"].includes(need.kind);
  return h("article", { class: "need", key: `${need.kind}-${id}` },
    h("div", { class: "need-head" },
      sign("stuck"), h("span", { class: "kind" }, KINDS[need.kind] ?? said(need.kind)),
      id && taskLink(id), need.title && h("bdi", { class: "title" }, need.title),
      need.unblocks > 1 && h("span", { class: "faint" }, `frees ${counted(need.unblocks, "task")}`)),
    need.kind !== "question" && h("p", { class: "why" }, withCommands(need.why)),
    need.detail?.length > 0 && (need.kind === "question" ? question(id, need.detail.join("\n")) : h("pre", { class: "excerpt", tabindex: 0 }, need.detail.join("\n"))),
    need.kind === "question" && need.detail?.length >= ASKED && h("p", null, h("a", { href: `#/task/${encodeURIComponent(id)}` }, "The whole question")),
    need.kind === "question" && id && !now.loop && answerBox(id),
    h("div", { class: "need-foot" },
      canReset && id && resetButton(id, need.kind === "blocked" ? "Unblock" : "Try again"),
      need.next && h("span", { class: "remedy" }, withCommands(need.next)),
      need.show && h("span", { class: "remedy" }, withCommands(need.show))));
}

// What was read last of what each running attempt does and has used, by its name.
let activity = {};

async function readActivity() {
  const read = await get("activity").catch(() => null);
  if (!read || JSON.stringify(read) === JSON.stringify(activity)) return false;
  activity = read;
  return true;
}

function running(now, loadedAt) {
  if (!now.attempts.length) return null;
  const goesOn = GOES_ON.includes(now.status);
  const row = (attempt) => {
    const mark = attempt.still ? markOf(attempt.still) : goesOn ? "running" : "interrupted";
    const seen = attempt.still ? {} : activity[`${attempt.task_id}.${attempt.attempt}`] ?? {};
    const cost = attempt.spend?.cost_usd ?? seen.cost_usd;
    const tokens = attempt.spend?.tokens ?? seen.tokens;
    const stage = attempt.still ? said(attempt.still) : attempt.no_contact_since ? ["no contact since ", moment(attempt.no_contact_since)] : said(attempt.stage);
    return h("li", { class: "row is-tall", key: `${attempt.task_id}.${attempt.attempt}` },
      sign(mark),
      h("span", { class: "row-main" }, taskLink(attempt.task_id), " ", h("bdi", { class: "title" }, titles.get(attempt.task_id) ?? ""),
        (attempt.command ?? seen.doing) && h("bdi", { class: "line doing" }, attempt.command ?? seen.doing)),
      h("span", { class: "row-facts" },
        h("span", { class: `stage is-${mark}` }, stage),
        attempt.runs_on && h("span", { class: "faint" }, `on ${attempt.runs_on}`),
        attempt.waiting_for && h("span", { class: "faint" }, withCode(attempt.waiting_for)),
        attempt.attempt > 1 && h("span", { class: "faint" }, `attempt ${attempt.attempt}`),
        cost > 0 && h("span", { class: "number" }, money(cost)),
        tokens && h("span", { class: "number faint", title: "Tokens so far" }, `${short(sumOf(tokens))} tokens`),
        goesOn && !attempt.still ? age(attempt.seconds, loadedAt) : moment(attempt.since)));
  };
  const title = goesOn ? "Running" : now.attempts.every((it) => it.still !== "interrupted") ? "Queued to land" : "Interrupted";
  return panel(title, { count: now.attempts.length, tools: !goesOn && h("span", { class: "faint" }, withCommands("`ralph run` continues")) },
    now.merge_queue.blocked && h("p", { class: "warn-text" }, withCode(now.merge_queue.blocked.text)),
    h("ul", { class: "rows" }, capped(now.attempts, LIST, row)));
}

function sumOf(tokens) {
  return Object.values(tokens).reduce((sum, count) => sum + count, 0);
}

// What comes before the first run: the graph and how to go on.
function beginning(now) {
  const step = (text, line) => h("li", { key: line }, text, " ", command(line));
  if (!now.left?.total) return panel("Begin", null, empty(now.left ? "The graph has no task yet." : "There is no graph that can be read."), h("ul", { class: "steps" }, step("Make one:", "ralph init"), step("or from a description:", "ralph draft"), step("See what is wrong:", "ralph check")));
  return panel("Begin", null, h("ul", { class: "steps" }, step("Check the graph and the settings:", "ralph check"), step("See what would happen:", "ralph plan"), step("Start:", "ralph run")));
}

// The executors that are out.
function unreachable(now) {
  if (!now.unreachable?.length || !GOES_ON.includes(now.status)) return null;
  return panel("Executors that are out", { count: now.unreachable.length },
    h("ul", { class: "rows" }, capped(now.unreachable, LIST, (it) => h("li", { class: "row is-tall", key: it.executor },
      sign("waiting"), h("span", { class: "row-main" }, h("bdi", null, it.executor), h("span", { class: "line" }, it.why)),
      h("span", { class: "row-facts" }, h("span", { class: "faint" }, "since ", moment(it.since)),
        it.next_try ? h("span", { class: "faint" }, "next try ", moment(it.next_try)) : it.tries > 0 && h("span", { class: "faint" }, "tried again now"))))));
}

// The failed tasks that do not need a person: those are told above.
function failed(now, attention) {
  const needs = new Set(attention.map((need) => need.task_id));
  const all = now.failed?.filter((task) => !needs.has(task.id)) ?? [];
  if (!all.length) return null;
  return panel("Failed", { count: all.length },
    h("ul", { class: "rows" }, capped(all, LIST, (task) => h("li", { class: "row is-tall", key: task.id },
      sign("failed"), h("span", { class: "row-main" }, taskLink(task.id), " ", h("bdi", { class: "title" }, task.title ?? ""),
        h("span", { class: "line" }, withCode(task.why))),
      h("span", { class: "row-facts" }, h("span", { class: "faint" }, `attempt ${task.attempt}`), moment(task.at))))));
}

function landed(now) {
  const all = now.landed;
  if (!all.length) return now.run_id && !GOES_ON.includes(now.status) ? panel("Landed", { count: 0 }, empty("This run completed no task.")) : null;
  const newest = [...all].reverse();
  return panel("Landed", { count: all.length }, h("ul", { class: "rows" }, capped(newest, LIST, landedRow)));
}

function landedRow(task) {
  const lines = task.insertions !== undefined && h("span", { class: "lines" }, h("span", { class: "plus" }, `+${short(task.insertions)}`), " ", h("span", { class: "minus" }, `−${short(task.deletions)}`));
  const [turn, more] = task.commits?.length ? disclosure(`landed-${task.id}`, lines, { title: `Changes of ${task.id}` }, () => commits(task)) : [lines];
  const facts = h("span", { class: "row-facts" },
    turn,
    task.attempts > 1 && h("span", { class: "faint" }, counted(task.attempts, "attempt")),
    task.cost_usd !== null && task.cost_usd !== undefined && h("span", { class: "number" }, money(task.cost_usd)),
    task.duration_seconds !== undefined && h("span", { class: "number" }, duration(task.duration_seconds)),
    task.at && moment(task.at));
  const remarks = (task.remarks ?? []).map((remark) => h("span", { class: "line", key: remark }, withCode(remark)));
  const main = h("span", { class: "row-main" }, taskLink(task.id), " ", h("bdi", { class: "title" }, task.title ?? ""), remarks);
  return h("li", { key: task.id }, h("div", { class: "row" }, sign("done"), main, facts), more);
}

function commits(task) {
  const row = (commit) => h("p", { key: commit.id, class: "commit" }, h("code", null, commitId(commit.id)), " ", h("bdi", null, commit.subject));
  return h("div", { class: "inside" }, task.commits.map(row), diffs(task.commits.map((commit) => commit.id)));
}

function upcoming(now) {
  const all = now.upcoming;
  if (!all.length) return null;
  const row = (task) => h("li", { class: "row", key: task.id },
    sign(markOf(task.state)),
    h("span", { class: "row-main" }, taskLink(task.id), " ", h("bdi", { class: "title" }, task.title)),
    h("span", { class: "row-facts faint" }, task.why ? h("span", { class: "wrap" }, task.why) : task.starts_at ? ["about ", moment(task.starts_at)] : null));
  const until = now.forecast && h("span", { class: "faint" }, `${now.forecast.reasons[0].why}, about `, moment(now.forecast.ends_at.middle));
  return panel("Next", { tools: until }, h("ul", { class: "rows" }, capped(all, 12, row)));
}

function totals(now, loadedAt) {
  const { spend } = now;
  const tokens = spend.tokens ? sumOf(spend.tokens) : 0;
  const goesOn = GOES_ON.includes(now.status);
  const past = now.started_at ? (Date.now() - Date.parse(now.started_at)) / 1000 : null;
  const whole = now.duration_seconds ?? (now.ended_at && (Date.parse(now.ended_at) - Date.parse(now.started_at)) / 1000);
  const wall = goesOn && past !== null ? age(now.duration_seconds ?? past, loadedAt) : whole && duration(whole);
  const all = spend.attempts > 0 && spend.unknown_cost === spend.attempts;
  const unknown = spend.unknown_cost > 0 && !all ? ` + ${spend.unknown_cost} unknown` : "";
  const fact = (name, ...value) => [h("dt", { key: `${name}-name` }, name), h("dd", { key: name }, value)];
  return panel(now.runs > 1 ? `${now.runs} runs` : "This run", null, h("dl", { class: "facts" },
    fact("Completed", counted(now.completed, "task")),
    fact("Attempts", number(spend.attempts + now.attempts.length), now.limits.max_iterations ? h("span", { class: "faint" }, ` of ${number(now.limits.max_iterations)}`) : null, now.failures > 0 && h("span", { class: "faint" }, `, ${now.failures} failed`)),
    fact("Cost", all ? h("span", { class: "faint" }, "not told") : money(spend.cost_usd), h("span", { class: "faint" }, unknown)),
    tokens > 0 && fact("Tokens", h("span", { title: `${number(spend.tokens.input)} in, ${number(spend.tokens.output)} out, ${number(spend.tokens.cache_read)} from the cache` }, short(tokens))),
    wall && fact("Wall time", wall),
    fact("Agents’ time", duration(now.agent_seconds)),
    now.since && fact("Started", moment(now.since)),
    now.ended_at && fact("Ended", moment(now.ended_at)),
    goesOn && now.last_beat_seconds !== null && fact("Last sign of life", age(now.last_beat_seconds, loadedAt), " ago"),
    now.schedule && fact("Schedule", now.schedule.next_wake ? ["next start ", moment(now.schedule.next_wake)] : now.schedule.awake ? "awake" : "waits for requests"),
    now.missed_start && fact("Missed start", moment(now.missed_start)),
    now.run_id && fact("Run", h("code", { class: "faint" }, now.run_id)),
    now.branch && fact("Lands on", h("code", { class: "wrap" }, now.branch)),
    now.agent.length > 0 && fact("Agent", h("code", { class: "wrap" }, now.agent.map((word, at) => (at ? word : word.split("/").pop())).join(" ").slice(0, 160)))));
}

function steps(now) {
  const next = now.next ?? [];
  if (!next.length) return null;
  return panel("You can", null, h("ul", { class: "steps" }, next.map((step) => h("li", { key: step }, step.includes("`") ? withCommands(step) : step.startsWith("ralph ") ? command(step) : step))));
}

function queue(now) {
  const { waiting, landing, blocked } = now.merge_queue;
  if (!waiting.length && !blocked) return null;
  return panel("Merge queue", { count: waiting.length },
    blocked && h("p", { class: "warn-text" }, withCode(blocked.text)),
    landing && GOES_ON.includes(now.status) && h("p", { class: "faint" }, `Landing ${landing.tasks.join(", ")} on ${landing.branch}`),
    h("ul", { class: "rows" }, capped(waiting, 20, (id) => h("li", { class: "row", key: id }, sign(blocked ? "held" : "queued"), taskLink(id)))));
}

function earlier(now) {
  if (!now.earlier_runs.length) return null;
  return panel("Earlier runs", null, h("ul", { class: "rows" }, now.earlier_runs.map((run) => {
    const tone = run.exit_code === 0 && run.completed > 0 ? "done" : run.exit_code === null ? "interrupted" : "cancelled";
    return h("li", { class: "row", key: run.run_id }, sign(tone),
      h(report ? "span" : "a", { class: "row-main", href: report ? null : `#/timeline?run=${run.number}` }, moment(run.started_at), h("span", { class: "faint" }, ` ${run.why ?? "exited unexpectedly"}`)),
      h("span", { class: "row-facts faint" }, `${run.completed} done`));
  })));
}

