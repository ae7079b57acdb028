// The view of a run over time: its attempts in lanes, what it waited for, what happened.

import { h, s, page } from "./dom.js";
import { get, report } from "./data.js";
import {
  button, capped, clock, counted, duration, empty, markName, markOfVerdict, moment, money, number, panel, said,
  shapes, sign, taskLink, withCode,
} from "./words.js";

const LANE = 30;
const TOP = 46;
const LEFT = 30;
// The most bars that are drawn, and the most rows of a list.
const BARS = 3000;
const ROWS = 150;
const GLYPHS = {
  landed: "✓", asked: "?", answered: "↩", parked: "!", blocked: "‖", limited: "~", requested: "■",
  clock: "↻", refused: "×", missed: "…",
};
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

export const timelineView = {
  title: () => "Timeline",
  async load(route) {
    const run = Math.max(1, Number.parseInt(route.query.run, 10) || 1);
    return { timeline: await get(`timeline?run=${run}`) };
  },
  // A bar that runs grows.
  poll({ timeline, now }) {
    return timeline.number === 1 && now.status === "running";
  },
  draw({ timeline, now, loadedAt, route }) {
    if (!timeline.run_id) return [h("div", { class: "view-head" }, h("h1", null, "Timeline")), panel("Runs", null, empty("No run yet."))];
    const isLive = timeline.number === 1 && ["running", "pausing", "stopping"].includes(now.status);
    const times = timesOf(timeline, isLive, clockOf(now, loadedAt));
    const zoom = bounded(Number(route.query.zoom) || 1);
    return [head(timeline, isLive), tiles(timeline, times, isLive),
      panel("Attempts", { tools: zoomTools(zoom) }, timeline.bars.length ? picture(timeline, times, zoom) : empty("No attempt yet."), key(timeline, times)),
      marks(timeline), attempts(timeline, times)];
  },
};

// The time by the clock of the server, which ran the attempts.
function clockOf(now, loadedAt) {
  const [attempt] = now.attempts;
  return attempt ? Date.parse(attempt.since) + attempt.seconds * 1000 + performance.now() - loadedAt : Date.now();
}

function timesOf(timeline, isLive, nowAt) {
  const at = (time) => Date.parse(time);
  const start = at(timeline.started_at);
  const ends = timeline.bars.map((bar) => at(bar.ended_at ?? bar.started_at));
  const last = Math.max(start, at(timeline.last_at), ...ends.slice(-BARS), isLive ? nowAt : 0);
  return { start, end: Math.max(last, start + 1000), last, isLive };
}

function head(timeline, isLive) {
  const runs = Math.min(timeline.runs, 200);
  const to = (run) => `#/timeline?run=${run}`;
  const choose = function () {
    location.hash = to(this.value);
  };
  const turn = (run, text, label) => (run >= 1 && run <= timeline.runs ? h("a", { class: "button", href: to(run), "aria-label": label }, text) : h("span", { class: "button is-off", "aria-hidden": "true" }, text));
  return h("div", { class: "view-head" },
    h("div", null, h("h1", null, "Timeline"), h("p", { class: "faint" }, isLive ? "goes on" : withCode(timeline.why ?? "exited unexpectedly"), timeline.exit_code !== null && ` (exit code ${timeline.exit_code})`)),
    !report && h("div", { class: "tools" }, turn(timeline.number + 1, "‹", "The run before"),
      h("select", { id: "run", key: `run-${timeline.number}-${runs}`, "aria-label": "Run", on: { change: choose } }, Array.from({ length: runs }, (_, at) => h("option", { value: at + 1, selected: at + 1 === timeline.number }, at ? `${at} before the newest` : "Newest run"))),
      turn(timeline.number - 1, "›", "The run after")));
}

function tiles(timeline, times, isLive) {
  const wall = (times.last - times.start) / 1000;
  const tile = (name, value, note) => h("div", { class: "tile", key: name }, h("span", { class: "tile-name" }, name), h("b", null, value), note && h("span", { class: "faint" }, note));
  return h("section", { class: "tiles" },
    tile("Started", clock(timeline.started_at), isLive ? "goes on" : `until ${clock(timeline.last_at)}`),
    tile("Wall time", duration(wall)),
    tile("Agents’ time", duration(timeline.agent_seconds), wall > 0 && `${(timeline.agent_seconds / wall).toFixed(1)} at once on average`),
    tile("Attempts", number(timeline.bars.length), `${timeline.marks.filter((mark) => mark.kind === "landed").length} landed`));
}

function bounded(zoom) {
  return Math.min(60, Math.max(1, zoom));
}

function zoomTools(now) {
  const zoom = (factor) => () => page.go({ zoom: now * factor < 1.01 ? "" : bounded(now * factor).toFixed(2) }, true);
  return h("span", { class: "group", role: "group", "aria-label": "Zoom" }, button("−", zoom(1 / 1.6), { "aria-label": "Zoom out" }), button("+", zoom(1.6), { "aria-label": "Zoom in" }));
}

function picture(timeline, times, zoom) {
  const room = document.getElementById("view").clientWidth - 64;
  const width = Math.max(room, 560) * zoom;
  const scale = (width - LEFT - 12) / (times.end - times.start);
  const x = (time) => LEFT + Math.max(0, (typeof time === "number" ? time : Date.parse(time)) - times.start) * scale;
  const height = TOP + timeline.lanes * LANE + 8;
  return h("div", { class: "scroller", key: "scroller", tabindex: 0, role: "group", "aria-label": "Attempts over time" },
    s("svg", { class: "timeline", width, height, role: "group", "aria-label": `${counted(timeline.bars.length, "attempt")} in ${counted(timeline.lanes, "lane")}` },
      s("defs", null, s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { class: "hatch", width: 2.5, height: 6 })),
        s("pattern", { id: "dots", width: 5, height: 5, patternUnits: "userSpaceOnUse" }, s("circle", { class: "hatch", cx: 2.5, cy: 2.5, r: 1.1 }))),
      axis(times, x, scale, height),
      lanes(timeline.lanes, width),
      timeline.waits.map((wait) => s("g", { class: "wait" }, s("title", null, wait.why), s("rect", { x: x(wait.from), y: TOP - 4, width: Math.max(2, Math.min(x(wait.until), x(times.end)) - x(wait.from)), height: height - TOP }))),
      timeline.bars.slice(-BARS).map((bar) => drawBar(bar, x, times)),
      drawMarks(timeline.marks, x, times)));
}

function axis(times, x, scale, height) {
  const least = 84 / scale / 1000;
  const step = (STEPS.find((it) => it >= least) ?? 86400 * Math.ceil(least / 86400)) * 1000;
  const offset = new Date(times.start).getTimezoneOffset() * 60000;
  const first = Math.ceil((times.start - offset) / step) * step + offset;
  const ticks = [];
  for (let time = first; time <= times.end && ticks.length < 2000; time += step) ticks.push(time);
  return s("g", { class: "axis", "aria-hidden": "true" }, ticks.map((time) => [
    s("path", { d: `M${x(time)} 18V${height}` }), s("text", { x: x(time) + 4, y: 13 }, clock(time, step < 60000))]));
}

function lanes(count, width) {
  return s("g", { class: "lane", "aria-hidden": "true" }, Array.from({ length: Math.min(count, 500) }, (_, lane) => [
    s("path", { d: `M0 ${TOP + (lane + 1) * LANE - 2}H${width}` }), s("text", { x: 6, y: TOP + lane * LANE + 18 }, lane + 1)]));
}

// What waits to land is no longer worked on.
function markOfBar(bar, times) {
  if (bar.queued_at && !bar.ended_at) return "queued";
  return markOfVerdict(bar.verdict, bar.ended_at !== null || !times.isLive);
}

function drawBar(bar, x, times) {
  const end = bar.ended_at ? Date.parse(bar.ended_at) : times.end;
  const mark = markOfBar(bar, times);
  const left = x(bar.started_at);
  const right = Math.max(x(end), left + 3);
  const top = TOP + bar.lane * LANE;
  const label = `${bar.task_id}, attempt ${bar.attempt}: ${said(bar.verdict ?? (mark === "running" || mark === "queued" ? mark : "interrupted"))}, ${duration((end - Date.parse(bar.started_at)) / 1000)}`;
  const part = (from, until, kind) => {
    const start = Math.min(right, Math.max(left, x(from)));
    return s("rect", { class: `bar-part ${kind}`, x: start, y: top, width: Math.max(0, Math.min(right, x(until)) - start), height: LANE - 8 });
  };
  const room = right - left - 24;
  const most = Math.floor(room / 6.9);
  const name = bar.attempt > 1 ? `${bar.task_id} · ${bar.attempt}` : bar.task_id;
  return s("a", { key: `${bar.task_id}.${bar.attempt}`, class: `attempt-bar is-${mark}`, href: `#/task/${encodeURIComponent(bar.task_id)}` },
    s("title", null, bar.why ? `${label}\n${bar.why}` : label),
    s("rect", { class: "bar-whole", x: left, y: top, width: right - left, height: LANE - 8, rx: 4 }),
    bar.verified_from && part(bar.verified_from, bar.queued_at ?? end, "is-verify"),
    bar.queued_at && part(bar.queued_at, end, "is-queue"),
    s("rect", { class: "bar-edge", x: left + 0.5, y: top + 0.5, width: Math.max(2, right - left - 1), height: LANE - 9, rx: 4 }),
    right - left > 20 && s("g", { class: `sign is-${mark}`, transform: `translate(${left + 4} ${top + 4}) scale(.87)` }, shapes(mark)),
    most >= 3 && s("text", { x: left + 22, y: top + 15 }, name.length > most ? `${name.slice(0, most - 1)}…` : name));
}

// Marks that are close together become one with a number.
function drawMarks(all, x, times) {
  const groups = [];
  for (const mark of all) {
    const at = Math.min(x(mark.at), x(times.end));
    const last = groups.at(-1);
    if (last && at - last.at < 15) last.marks.push(mark);
    else groups.push({ at, marks: [mark] });
  }
  const rank = ["landed", "answered", "requested", "missed", "clock", "limited", "blocked", "refused", "parked", "asked"];
  return s("g", { class: "marks", "aria-hidden": "true" }, groups.map(({ at, marks }) => {
    const first = marks.reduce((one, other) => (rank.indexOf(other.kind) > rank.indexOf(one.kind) ? other : one));
    return s("g", { class: `mark is-${first.kind}`, transform: `translate(${at} 29)` },
      s("title", null, marks.slice(0, 12).map((mark) => `${clock(mark.at, true)} ${said(mark.kind)} ${mark.task_id ?? ""}: ${mark.text}`).join("\n")),
      s("circle", { r: 7.5 }), s("text", { y: 3.8 }, marks.length > 1 && first.kind === "landed" ? marks.length : GLYPHS[first.kind] ?? "·"));
  }));
}

function key(timeline, times) {
  const box = (kind, text) => h("li", { key: kind }, s("svg", { width: 22, height: 12, "aria-hidden": "true" }, s("rect", { class: `key-box ${kind}`, x: 0.5, y: 0.5, width: 21, height: 11, rx: 3 })), text);
  return h("ul", { class: "legend" }, box("is-work", "working"), box("is-verify", "verifying"), box("is-queue", "queued to land"),
    timeline.waits.length > 0 && box("is-wait", "nothing could start"),
    [...new Set(timeline.bars.map((bar) => markOfBar(bar, times)))].map((mark) => h("li", { key: mark }, sign(mark), { done: "complete", stuck: "asked a person", running: "runs" }[mark] ?? markName(mark))));
}

function marks(timeline) {
  const told = [...timeline.marks, ...timeline.waits.map((wait) => ({ at: wait.from, kind: "waited", task_id: null, text: `${wait.why}, until ${clock(wait.until)}` }))];
  if (!told.length) return null;
  told.sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
  const row = (mark) => h("li", { class: "row", key: `${mark.at} ${mark.kind} ${mark.task_id}` }, h("span", { class: `dot is-${mark.kind}`, "aria-hidden": "true" }, GLYPHS[mark.kind] ?? "⋯"),
    moment(mark.at, true), h("span", { class: "kind" }, said(mark.kind)), h("span", { class: "row-main" }, mark.task_id && [taskLink(mark.task_id), " "], h("bdi", { class: "title" }, mark.text)));
  return panel("What happened", { count: told.length }, h("ul", { class: "rows" }, capped(told, ROWS, row)));
}

function attempts(timeline, times) {
  if (!timeline.bars.length) return null;
  const row = (bar) => {
    const end = bar.ended_at ? Date.parse(bar.ended_at) : times.end;
    const mark = markOfBar(bar, times);
    return h("li", { class: "row", key: `${bar.task_id}.${bar.attempt}` }, sign(mark), h("span", { class: "row-main" }, taskLink(bar.task_id), h("span", { class: "faint" }, ` attempt ${bar.attempt}`), mark !== "done" && bar.why && h("span", { class: "line" }, withCode(bar.why))),
      h("span", { class: "row-facts" }, h("span", { class: `state is-${mark}` }, said(bar.verdict ?? (mark === "running" || mark === "queued" ? mark : "interrupted"))), bar.cost_usd !== null && h("span", { class: "number" }, money(bar.cost_usd)), h("span", { class: "number" }, duration((end - Date.parse(bar.started_at)) / 1000)), moment(bar.started_at)));
  };
  return panel("List", { count: timeline.bars.length }, h("ul", { class: "rows" }, capped([...timeline.bars].reverse(), ROWS, row)));
}
