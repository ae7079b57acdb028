// The shell of the page: addresses, views, keys, the connection, and when what is read again.

import { h, page, render } from "./dom.js";
import { connection, follow, get, report } from "./data.js";
import { may, openDialog, toast } from "./actions.js";
import { button, clock, markOf, moment, setTable, sign, stateOf, taskLink, tick, withCommands } from "./words.js";
import { nowView } from "./now.js";
import { graphView } from "./graph.js";
import { timelineView } from "./timeline.js";
import { tasksView, taskView } from "./task.js";
import { reviewView } from "./review.js";
import { costsView } from "./costs.js";
import { forgetJournal, journalView } from "./journal.js";

// The pause in which events are gathered before the view is read again, in milliseconds.
const GATHER = 120;
// The interval at which a view reads on what has no events.
const POLL = 1500;
const TABS = [["now", "Now", "1"], ["graph", "Graph", "2"], ["timeline", "Timeline", "3"], ["task", "Tasks", "4"], ["review", "Review", "5"], ["costs", "Costs", "6"], ["journal", "Journal", "7"]];
const VIEWS = { now: nowView, graph: graphView, timeline: timelineView, task: tasksView, review: reviewView, costs: costsView, journal: journalView };
const KEYS = [["1 – 7", "go to a view"], ["/", "search"], ["?", "show the keys"], ["t", "dark, light, or as the system"], ["Arrow keys", "in the graph: go from box to box"],
  ["Enter", "in the graph: open the task"], ["+ − 0", "in the graph: zoom in, out, fit"], ["Shift + arrow keys", "in the graph: move it"], ["Ctrl + Enter", "send an answer"], ["Esc", "close"]];

const state = { about: null, now: null, view: null, route: null, data: null, error: null, isReading: false, isDirty: false, lastTask: null, took: 0 };
const main = document.getElementById("view");

// The route of the address: `#/task/ID?name=value`.
function routeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  let id = "";
  try {
    id = decodeURIComponent(rest.join("/"));
  } catch {
    id = rest.join("/");
  }
  return { name: name in VIEWS ? name : "now", id, query: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

function addressOf({ name, id, query }) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  const path = id ? `${name}/${encodeURIComponent(id)}` : name;
  return words.size ? `#/${path}?${words}` : `#/${path}`;
}

// Changes the query of the address.
function go(changes, isTyped) {
  const { name, id, query } = state.route;
  const address = addressOf({ name, id, query: { ...query, ...changes } });
  if (!isTyped) {
    location.hash = address;
    return;
  }
  history.replaceState(null, "", address);
  state.route = routeOf(address);
  draw();
}

function viewOf(route) {
  return route.name === "task" && route.id ? taskView : VIEWS[route.name];
}

function routed() {
  // A link to a part of the page, like that which skips the navigation, is no address.
  if (location.hash && !location.hash.startsWith("#/")) return;
  const route = routeOf(location.hash);
  const before = state.route;
  state.route = route;
  if (before && before.name === route.name && before.id === route.id) {
    read();
    return;
  }
  if (route.name === "task" && route.id) state.lastTask = route.id;
  Object.assign(state, { view: viewOf(route), data: null, error: null });
  document.body.dataset.view = route.name;
  tabs();
  render(main, h("p", { class: "empty is-late", key: "reading" }, "reading…"));
  window.scrollTo(0, 0);
  if (before) main.focus({ preventScroll: true });
  read();
}

// Reads what the view shows, and draws it. While it reads, events only say that it must read again.
async function read() {
  if (state.isReading) {
    state.isDirty = true;
    return;
  }
  state.isReading = true;
  const begun = performance.now();
  do {
    state.isDirty = false;
    const { view, route } = state;
    try {
      const now = await get("now");
      const data = await view.load(route, now);
      if (view === state.view && route === state.route) Object.assign(state, { now, data: { ...data, now, loadedAt: performance.now() }, error: null });
      else state.isDirty = true;
    } catch (error) {
      // Without a connection, what was read stays.
      const isLost = !error.status || error.status === 401;
      if (view === state.view && (!isLost || !state.data)) state.error = error;
    }
  } while (state.isDirty && (state.view !== viewOf(state.route) || !state.data) && !state.error);
  state.isReading = false;
  state.took = performance.now() - begun;
  draw();
  if (state.isDirty) later();
}

function draw() {
  head();
  main.classList.toggle("is-wide", Boolean(state.view.isWide));
  if (state.error) {
    const again = button("Read again", read);
    render(main, h("section", { class: "panel is-error", key: "error" }, h("h1", null, state.error.status === 404 ? (report ? "Not in this report" : "Not found") : "This cannot be shown"), h("p", { class: "error-text" }, withCommands(state.error.message)), h("p", null, again)));
  } else if (state.data) {
    render(main, state.view.draw({ ...state.data, route: state.route }));
    state.view.after?.(main);
    for (const element of main.querySelectorAll("[data-follow]")) element.scrollTop = element.scrollHeight;
    tick();
  }
}

let timer = 0;

// Reads again soon, after the other events of the moment; less often where reading takes long.
function later() {
  if (document.hidden) {
    state.isDirty = true;
    return;
  }
  if (!timer) timer = setTimeout(() => {
    timer = 0;
    read();
  }, Math.max(GATHER, Math.min(5000, state.took)));
}

function changed({ name, data }) {
  if (name === "snapshot" && data.rotated) {
    forgetJournal();
    toast("The journal was rotated or edited; everything is read again.");
  }
  if (name === "journal" && data.kind === "continued") toast("The machine slept or the run was suspended; the timeline shows how long.");
  later();
}

async function poll() {
  if (document.hidden || !state.data || !state.view.poll || state.isReading || connection.state !== "live") return;
  const { view } = state;
  if (await view.poll({ ...state.data, route: state.route }) && view === state.view) draw();
}

function nameOfRoot() {
  return state.about?.root?.split("/").filter(Boolean).at(-1) ?? "ralph";
}

const SIGNS = { good: "done", run: "running", warn: "stuck", bad: "failed", calm: "ready" };
const COLORS = { good: "#1a7a45", run: "#1f63c7", warn: "#a34d00", bad: "#bf2c45", calm: "#575b6b" };

// The title of the tab and its icon say how the run stands, too.
function nameTab() {
  const { now, route, view } = state;
  const needs = now?.headline.needs ?? 0;
  const own = route.name === "now" ? "" : `${view.title(route)} · `;
  const title = `${needs > 0 ? `(${needs}) ` : ""}${own}${nameOfRoot()}`;
  if (document.title !== title) document.title = title;
  const color = COLORS[now?.headline.tone ?? "calm"];
  const shape = needs > 0 ? `<path d='M8 .9 15.1 8 8 15.1.9 8z' fill='${color}'/><path d='M8 4.4v4.2M8 11v.4' stroke='white' stroke-width='2' stroke-linecap='round'/>` : `<circle cx='8' cy='8' r='7' fill='${color}'/>`;
  const icon = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns='http:${"//"}www.w3.org/2000/svg' viewBox='0 0 16 16'>${shape}</svg>`)}`;
  const link = document.getElementById("icon");
  if (link.href !== icon) link.href = icon;
}

function head() {
  const { now, about } = state;
  const tone = now?.headline.tone ?? "calm";
  const said = (now?.headline.parts ?? []).filter((part) => ["done", "needs", "can_run"].includes(part.kind)).map((part) => part.text);
  if (state.view) nameTab();
  const theme = themes[document.documentElement.dataset.theme ?? ""] ?? themes[""];
  const news = report
    ? h("span", { class: "pill", key: "report" }, h("span", null, "report", about?.made_at && h("span", { class: "wide-only" }, " made at ", moment(about.made_at))))
    : h("span", { class: `pill is-${connection.state}`, key: "live", title: `Last news at ${clock(connection.newsAt, true)}` }, connection.state === "live" ? "live" : "no connection");
  render(document.getElementById("head"),
    h("a", { class: "brand", href: "#/now" }, "ralph"),
    h("bdi", { class: "root", title: about?.root }, nameOfRoot()),
    now && h("a", { class: `standing is-${tone}`, href: "#/now", id: "standing", title: now.headline.text }, sign(SIGNS[tone]), h("span", null, now.headline.word), h("span", { class: "wide-only" }, said.length > 0 && ` · ${said.join(" · ")}`)),
    h("span", { class: "space" }), news,
    button([h("span", { class: "wide-only" }, "Search "), h("kbd", null, "/")], search, { class: "plain", "aria-label": "Search tasks" }),
    button(theme, turnTheme, { class: "plain", id: "theme", "aria-label": `Colors: ${theme}` }),
    button("?", showKeys, { class: "plain", "aria-label": "Keys" }));
  const place = about ? `${report ? `The report of ${about.root}` : about.root}` : "ralph";
  document.getElementById("head").setAttribute("aria-label", place);
}

function tabs() {
  render(document.getElementById("tabs"), h("ul", null, TABS.map(([name, text, digit]) => h("li", { key: name },
    h("a", { href: `#/${name}`, "aria-current": state.route.name === name ? "page" : null, "aria-keyshortcuts": digit }, text)))));
}

function banner() {
  const place = document.getElementById("banner");
  const at = clock(connection.newsAt, true);
  if (connection.state === "live") render(place);
  else if (connection.state === "lost") render(place, h("p", { class: "banner" }, h("b", null, "The server does not answer. "), `What is shown is from ${at}; the page connects again by itself. Runs do not need it.`));
  else render(place, h("p", { class: "banner" }, h("b", null, "The server was restarted. "), `What is shown is from ${at}. Open the new link that it printed; then this page goes on as well.`));
  if (state.route) draw();
}

const themes = { "": "auto", dark: "dark", light: "light" };

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

function turnTheme() {
  const names = Object.keys(themes);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length];
  setTheme(next);
  try {
    localStorage.setItem("ralph-theme", next);
  } catch {
    // A browser without storage forgets it.
  }
  head();
}

function showKeys() {
  openDialog("Keys", h("dl", { class: "facts keys" }, KEYS.map(([keys, text]) => [h("dt", null, h("kbd", null, keys)), h("dd", null, text)])),
    h("p", { class: "faint" }, `ralph ${state.about?.version ?? ""}`, state.about && !may.act && !report && "; this page only shows"));
}

async function search() {
  const found = h("ul", { class: "rows found" });
  const input = h("input", { type: "search", id: "search", "aria-label": "Id or title of a task", placeholder: "Id or title of a task", autocomplete: "off" });
  const dialog = openDialog("Go to a task", input, found);
  input.focus();
  const graph = await get("graph").catch(() => ({ nodes: [] }));
  const show = () => {
    const words = input.value.trim().toLowerCase();
    const all = graph.nodes.filter((node) => `${node.id} ${node.title}`.toLowerCase().includes(words));
    render(found, all.slice(0, 40).map((node) => h("li", { class: "row", key: node.id }, sign(markOf(stateOf(node))), h("span", { class: "row-main" }, taskLink(node.id), " ", h("bdi", { class: "title" }, node.title)))), !all.length && h("li", { class: "empty" }, "No task matches."), all.length > 40 && h("li", { class: "more" }, `and ${all.length - 40} more`));
  };
  input.addEventListener("input", show);
  dialog.onkeydown = (event) => {
    const links = [input, ...found.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      links[Math.max(0, Math.min(links.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))]?.focus();
    } else if (event.key === "Enter" && at === 0) found.querySelector("a")?.click();
  };
  found.onclick = (event) => {
    if (event.target.closest("a")) dialog.close();
  };
  dialog.addEventListener("close", () => { dialog.onkeydown = null; }, { once: true });
  show();
}

function pressed(event) {
  const isTyped = event.target.closest("input, textarea, select, dialog");
  if (event.key === "Escape" && event.target.matches("input, textarea")) event.target.blur();
  if (isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
  const tab = TABS.find(([, , digit]) => digit === event.key);
  if (tab) {
    const isBack = tab[0] === "task" && state.lastTask && state.route.name !== "task";
    location.hash = isBack ? `#/task/${encodeURIComponent(state.lastTask)}` : `#/${tab[0]}`;
  } else if (event.key === "?") showKeys();
  else if (event.key === "t") turnTheme();
  else if (event.key === "/") {
    const own = document.getElementById("graph-search") ?? document.getElementById("task-filter");
    if (own) own.focus();
    else search();
  } else return;
  event.preventDefault();
}

async function start() {
  try {
    setTheme(localStorage.getItem("ralph-theme"));
  } catch {
    // A browser without storage has the colors of the system.
  }
  page.redraw = draw;
  page.refresh = read;
  page.go = go;
  addEventListener("hashchange", routed);
  addEventListener("keydown", pressed);
  addEventListener("resize", () => state.data && draw());
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && state.isDirty) read();
  });
  // On paper nothing can be opened.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...main.querySelectorAll(".piece:not([open]), .diff-file:not([open])")];
    for (const element of folded) element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const element of folded) element.open = false;
  });
  state.about = await get("page").catch(() => null);
  setTable(state.about?.table);
  may.act = Boolean(state.about?.acts) && !report;
  routed();
  head();
  follow(changed, banner);
  setInterval(tick, 1000);
  setInterval(poll, POLL);
}

start();
