// The view of the graph: boxes and lines, to zoom, pan and search.

import { h, s, page } from "./dom.js";
import { get, report } from "./data.js";
import { button, counted, empty, markName, markOf, number, said, shapes, sign, stateOf, taskLink } from "./words.js";

const SCALES = { least: 0.05, most: 3 };
// The size of the small map, and the scale below which the whole does not fit and is begun at its left edge.
const MAP = { width: 180, height: 110 };
const READABLE = 0.6;

// How the graph is shown: where it is, and what is chosen. What is near and searched is in the address.
const shown = { x: 0, y: 0, scale: 1, placed: null, chosen: null };
let current = null;

export const graphView = {
  title: () => "Graph",
  isWide: true,
  async load(route) {
    const { hide, around, levels } = route.query;
    const words = new URLSearchParams({ draw: 1, ...(hide && { hide }), ...(around && { around, levels: levels ?? 2 }) });
    return { graph: await get(`graph?${words}`), drawn: String(words) };
  },
  draw({ graph, route, drawn }) {
    const layout = graph.layout ?? { width: 0, height: 0, boxes: [], lines: [] };
    const { boxes, lines } = layout;
    current = { graph, layout, boxes, lines, drawn, query: (route.query.q ?? "").toLowerCase(), route, nodes: new Map(graph.nodes.map((node) => [node.id, node])) };
    return h("div", { class: "graph" },
      h("div", { class: "view-head" }, h("h1", { class: "away" }, "Graph"), tools(graph, route.query)),
      near(route.query),
      !graph.layout ? h("p", { key: "large" }, `${counted(graph.nodes.length, "task")} are too many to draw. Hide what is complete, or choose a task in the `, h("a", { href: "#/task" }, "list"), " and show what is around it.") : graph.nodes.length ? h("div", { class: "stage-box", key: "stage" }, picture(layout, boxes, lines), map(layout), h("div", { class: "card", key: "card", own: true, "aria-live": "polite" }))
        : empty(route.query.hide ? "Nothing is left to do." : "The graph has no task."),
      graph.layout && legend());
  },
  after(main) {
    const svg = main.querySelector("svg.picture");
    if (!svg) return;
    flatten(svg);
    if (shown.placed !== current.drawn) place(svg);
    move(svg);
    highlight(main);
  },
};

function tools(graph, query) {
  const search = function (event) {
    if (event.type === "keydown" && event.key !== "Enter") return;
    if (event.type === "keydown") go(matches()[0]);
    else page.go({ q: this.value }, true);
  };
  const done = graph.counts.complete + graph.counts.cancelled;
  return h("div", { class: "tools" },
    h("input", { type: "search", id: "graph-search", class: "search", "aria-label": "Search the graph", placeholder: "Search", value: query.q ?? "", on: { input: search, keydown: search } }),
    !report && !query.around && done > 0 && button("Hide complete", () => page.go({ hide: query.hide ? "" : "complete" }), { "aria-pressed": String(Boolean(query.hide)) }),
    graph.layout && h("span", { class: "group", role: "group", "aria-label": "Zoom" },
      button("−", () => zoom(1 / 1.3), { "aria-label": "Zoom out" }), button("+", () => zoom(1.3), { "aria-label": "Zoom in" }),
      button("Fit", () => fit(), { "aria-label": "Fit the whole graph" })),
    h("span", { class: "faint" }, counted(graph.nodes.length, "task"), query.hide && ` (${number(done)} done are hidden)`));
}

// What of the graph is shown, if it is not the whole, and how to see more or less.
function near({ around, levels = "2" }) {
  if (!around) return null;
  const more = (by) => () => page.go({ levels: Math.max(1, Number(levels) + by) });
  return h("p", { class: "near", key: "near" },
    h("span", null, "Around ", taskLink(around), `, ${counted(Number(levels), "level")} up and down`), button("−", more(-1), { "aria-label": "One level less" }), button("+", more(1), { "aria-label": "One level more" }),
    button("Whole graph", () => page.go({ around: "", levels: "" })));
}

// All boxes in small, with what of them is in sight; a click moves there.
function map(layout) {
  const scale = Math.min(MAP.width / (layout.width || 1), MAP.height / (layout.height || 1));
  const moved = (event) => {
    if (!(event.buttons & 1) && event.type !== "click") return;
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const { width, height } = view().getBoundingClientRect();
    shown.x = width / 2 - ((event.clientX - left) / scale) * shown.scale;
    shown.y = height / 2 - ((event.clientY - top) / scale) * shown.scale;
    move(view());
  };
  const dot = (box) => s("rect", { key: box.id, class: `map-box is-${markOfBox(box)}`, x: box.x * scale, y: box.y * scale, width: Math.max(1.5, box.width * scale), height: Math.max(1.5, box.height * scale) });
  return s("svg", { class: "map", key: "map", "aria-hidden": "true", width: Math.ceil(layout.width * scale), height: Math.ceil(layout.height * scale), "data-scale": scale, on: { click: moved, pointermove: moved } },
    layout.boxes.map(dot), s("rect", { class: "map-view", key: "view" }));
}

function legend() {
  const marks = [...new Set(current.boxes.map(markOfBox))];
  return h("ul", { class: "legend graph-legend" }, marks.map((mark) => h("li", { key: mark, class: `is-${mark}` }, sign(mark), markName(mark))),
    h("li", { key: "dead" }, s("svg", { width: 30, height: 10, "aria-hidden": "true" }, s("path", { class: "line is-dead", d: "M1 5h28" }), s("path", { class: "line-cross", d: "M12 2l6 6m0-6l-6 6" })), "cannot be satisfied without a person"));
}

function picture(layout, boxes, lines) {
  return s("svg", { class: "picture", key: "picture", role: "group", "aria-label": "Graph of the tasks; arrow keys move between them", on: handlers },
    s("g", { class: "canvas" },
      s("g", { class: "lines", key: "lines", "aria-hidden": "true" }, lines.map(drawLine)),
      s("g", { class: "boxes", key: "boxes" }, boxes.map(drawBox))));
}

function drawLine(line) {
  const { points } = line;
  const key = `${line.from} ${line.to}`;
  return s("g", { key, "data-from": line.from, "data-to": line.to, class: `edge is-${line.state}` },
    s("path", { class: `line is-${line.state}`, d: path(points) }),
    s("path", { class: `line-end is-${line.state}`, d: arrow(points) }),
    line.state === "dead" && s("path", { class: "line-cross", d: "M-4-4l8 8m0-8l-8 8", transform: `translate(${middleOf(points)})` }));
}

// A line that leaves and reaches each point to the right.
function path(points) {
  return points.slice(1).reduce((d, [x, y], at) => {
    const [fromX, fromY] = points[at];
    const bend = points.length === 2 ? Math.max(24, Math.abs(x - fromX) / 2) : (x - fromX) / 2;
    return y === fromY || bend <= 0 ? `${d}L${x},${y}` : `${d}C${fromX + bend},${fromY} ${x - bend},${y} ${x},${y}`;
  }, `M${points[0]}`);
}

function arrow(points) {
  const [x, y] = points.at(-1);
  return `M${x - 6},${y - 3.5}L${x},${y}L${x - 6},${y + 3.5}`;
}

function middleOf(points) {
  const at = Math.floor((points.length - 1) / 2);
  const [one, other] = [points[at], points[at + 1] ?? points[at]];
  return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
}

function fits(text, width, size) {
  const most = Math.max(1, Math.floor(width / size));
  const letters = [...text.slice(0, most * 2)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

function markOfBox(box) {
  return markOf(stateOf(current.nodes.get(box.id)));
}

function drawBox(box) {
  const node = current.nodes.get(box.id);
  const mark = markOfBox(box);
  const text = node.title === node.id ? "" : node.title;
  const isFirst = shown.chosen ? shown.chosen === box.id : box === current.boxes[0];
  const isTall = box.height >= 36;
  const name = [box.id, text].filter(Boolean).join(": ");
  return s("a", {
    key: box.id, class: `box is-${mark}`, "data-id": box.id, tabindex: isFirst ? 0 : -1,
    href: `#/task/${encodeURIComponent(node.id)}`, transform: `translate(${box.x} ${box.y})`,
  },
  s("title", null, `${name}, ${said(stateOf(node))}`),
  s("rect", { class: "box-shape", width: box.width, height: box.height, rx: 8 }),
  s("g", { class: `sign is-${mark}`, transform: `translate(11 ${isTall ? 8 : box.height / 2 - 8})` }, shapes(mark)),
  s("text", { class: "box-id", x: 35, y: isTall ? 20.5 : box.height / 2 + 4 }, fits(box.id, box.width - 43, 7.3)),
  isTall && text && s("text", { class: "box-title", x: 35, y: 36.5 }, fits(text, box.width - 43, 6.6)));
}

function isFound(id) {
  const { query } = current;
  return query !== "" && (id.toLowerCase().includes(query) || current.nodes.get(id)?.title.toLowerCase().includes(query));
}

function matches() {
  return current.boxes.filter((box) => isFound(box.id));
}

// Marks the chosen box, its lines, and what a search found; fills the card.
function highlight(root) {
  const svg = root.querySelector("svg.picture");
  if (!svg) return;
  const { chosen } = shown;
  const { query } = current;
  const found = new Set(matches().map((box) => box.id));
  for (const box of svg.querySelectorAll(".box")) {
    box.classList.toggle("is-found", found.has(box.dataset.id));
    box.classList.toggle("is-dim", query !== "" && !found.has(box.dataset.id));
    box.classList.toggle("is-chosen", box.dataset.id === chosen);
  }
  for (const edge of svg.querySelectorAll(".edge")) {
    edge.classList.toggle("is-near", chosen !== null && (edge.dataset.from === chosen || edge.dataset.to === chosen));
  }
  svg.classList.toggle("has-chosen", chosen !== null);
  card(root.querySelector(".card"), current.boxes.find((box) => box.id === chosen), found.size);
}

function card(place, box, found) {
  const parts = [];
  if (current.query) parts.push(h("p", { class: "faint" }, found ? `${counted(found, "match")}; Enter goes to the first` : "Nothing matches."));
  const node = box && current.nodes.get(box.id);
  if (node) {
    const waits = current.graph.edges.filter((edge) => edge.to === node.id && edge.state !== "satisfied");
    const after = current.graph.edges.filter((edge) => edge.from === node.id).length;
    parts.push(h("p", null, sign(markOf(stateOf(node))), " ", taskLink(node.id), " ", h("bdi", { class: "title" }, node.title)),
      h("p", { class: `state is-${markOf(stateOf(node))}` }, said(stateOf(node)), after > 0 && h("span", { class: "faint" }, `, ${counted(after, "task")} after it`)),
      waits.length > 0 && h("p", null, "Waits on ", waits.slice(0, 8).map((edge, at) => [at > 0 && ", ", taskLink(edge.from), " ", h("span", { class: edge.state === "dead" ? "bad-text" : "faint" }, said(current.nodes.get(edge.from)?.state))]), waits.length > 8 && ` and ${waits.length - 8} more`),
      !report && current.route.query.around !== node.id && h("p", null, button("Show around it", () => page.go({ around: node.id }))));
  }
  place.replaceChildren();
  for (const part of parts) if (part) place.append(part);
  place.classList.toggle("is-empty", parts.length === 0);
}

function move(svg) {
  svg.querySelector(".canvas").setAttribute("transform", `translate(${shown.x} ${shown.y}) scale(${shown.scale})`);
  svg.classList.toggle("is-far", shown.scale < 0.45);
  const small = document.querySelector("svg.map");
  if (!small) return;
  const { width, height } = svg.getBoundingClientRect();
  const scale = Number(small.dataset.scale) / shown.scale;
  const places = { x: -shown.x * scale, y: -shown.y * scale, width: width * scale, height: height * scale };
  for (const [name, value] of Object.entries(places)) small.querySelector(".map-view").setAttribute(name, value);
  const { layout } = current;
  const isWhole = shown.x >= 0 && shown.y >= 0 && shown.x + layout.width * shown.scale <= width && shown.y + layout.height * shown.scale <= height;
  small.classList.toggle("is-needless", isWhole);
}

function view() {
  return document.querySelector("svg.picture");
}

// A graph that is wide and low needs no more height than this.
function flatten(svg) {
  const { layout } = current;
  const scale = Math.max(READABLE, Math.min(1.15, (svg.getBoundingClientRect().width - 32) / (layout.width || 1)));
  const wanted = Math.max(300, Math.ceil(layout.height * scale + 64));
  const box = svg.parentElement;
  box.classList.remove("is-flat");
  const isFlat = wanted < box.getBoundingClientRect().height;
  box.classList.toggle("is-flat", isFlat);
  if (isFlat) svg.setAttribute("height", wanted);
}

// The place at first: everything if it can be read, else from the left edge on.
function place(svg) {
  fit(svg);
  if (shown.scale < READABLE) {
    const { height } = svg.getBoundingClientRect();
    const { layout } = current;
    shown.scale = READABLE;
    shown.x = 16;
    shown.y = Math.max(16, (height - layout.height * READABLE) / 2);
    const middle = current.boxes.find((box) => box.id === current.route.query.around);
    if (middle) center(svg, middle);
    else move(svg);
  }
  shown.placed = current.drawn;
}

function fit(svg = view()) {
  const { width, height } = svg.getBoundingClientRect();
  const { layout } = current;
  shown.scale = Math.max(SCALES.least, Math.min(1.15, (width - 32) / (layout.width || 1), (height - 32) / (layout.height || 1)));
  shown.x = (width - layout.width * shown.scale) / 2;
  shown.y = (height - layout.height * shown.scale) / 2;
  move(svg);
}

function center(svg, box) {
  const { width, height } = svg.getBoundingClientRect();
  shown.x = width / 2 - (box.x + box.width / 2) * shown.scale;
  shown.y = height / 2 - (box.y + box.height / 2) * shown.scale;
  move(svg);
}

function zoom(factor, at) {
  const svg = view();
  const { width, height } = svg.getBoundingClientRect();
  const [x, y] = at ?? [width / 2, height / 2];
  const scale = Math.min(SCALES.most, Math.max(SCALES.least, shown.scale * factor));
  shown.x = x - ((x - shown.x) / shown.scale) * scale;
  shown.y = y - ((y - shown.y) / shown.scale) * scale;
  shown.scale = scale;
  move(svg);
}

// Chooses a box, with the focus on it and on the screen.
function go(box) {
  if (!box) return;
  const svg = view();
  choose(box.id);
  const element = [...svg.querySelectorAll(".box")].find((it) => it.dataset.id === box.id);
  svg.querySelectorAll('.box[tabindex="0"]').forEach((it) => it.setAttribute("tabindex", "-1"));
  element.setAttribute("tabindex", "0");
  element.focus({ preventScroll: true });
  const { width, height } = svg.getBoundingClientRect();
  const x = shown.x + (box.x + box.width / 2) * shown.scale;
  const y = shown.y + (box.y + box.height / 2) * shown.scale;
  if (x < 90 || y < 40 || x > width - 90 || y > height - 40) center(svg, box);
}

function choose(id) {
  if (shown.chosen === id) return;
  shown.chosen = id;
  highlight(document);
}

// The nearest box in a direction.
function neighbor(from, [dx, dy]) {
  let best = null;
  let least = Infinity;
  for (const box of current.boxes) {
    if (box === from) continue;
    const x = box.x + box.width / 2 - from.x - from.width / 2;
    const y = box.y + box.height / 2 - from.y - from.height / 2;
    const along = x * dx + y * dy;
    if (along <= 1) continue;
    const distance = along + 2.5 * Math.abs(x * dy + y * dx);
    if (distance < least) [best, least] = [box, distance];
  }
  return best;
}

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const pointers = new Map();
let dragged = 0;

function middle() {
  const all = [...pointers.values()];
  const x = all.reduce((sum, it) => sum + it[0], 0) / all.length;
  const y = all.reduce((sum, it) => sum + it[1], 0) / all.length;
  const apart = all.length > 1 ? Math.hypot(all[0][0] - all[1][0], all[0][1] - all[1][1]) : 0;
  return { x, y, apart };
}

const handlers = {
  keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const box = current.boxes.find((it) => it.id === event.target.closest(".box")?.dataset.id);
    const way = WAYS[event.key];
    if (way && event.shiftKey) {
      shown.x -= way[0] * 80;
      shown.y -= way[1] * 80;
      move(this);
    } else if (way && box) go(neighbor(box, way));
    else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  },
  wheel(event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      shown.x -= event.deltaX || event.deltaY;
      move(this);
      return;
    }
    const { left, top } = this.getBoundingClientRect();
    const step = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    zoom(Math.exp(-step * (event.ctrlKey ? 0.01 : 0.0016)), [event.clientX - left, event.clientY - top]);
  },
  pointerdown(event) {
    if (event.button > 0) return;
    if (!pointers.size) dragged = 0;
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
  },
  pointermove(event) {
    if (!pointers.has(event.pointerId)) return;
    const before = middle();
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    const now = middle();
    dragged += Math.hypot(now.x - before.x, now.y - before.y);
    if (dragged > 4) this.setPointerCapture(event.pointerId);
    shown.x += now.x - before.x;
    shown.y += now.y - before.y;
    const { left, top } = this.getBoundingClientRect();
    if (before.apart && now.apart) zoom(now.apart / before.apart, [now.x - left, now.y - top]);
    else move(this);
  },
  pointerup(event) {
    pointers.delete(event.pointerId);
  },
  pointercancel(event) {
    pointers.delete(event.pointerId);
  },
  click(event) {
    const id = event.target.closest(".box")?.dataset.id;
    // The end of a drag is no click.
    if (dragged > 4) event.preventDefault();
    if (dragged <= 4) choose(id ?? null);
  },
  dragstart(event) {
    event.preventDefault();
  },
  focusin(event) {
    const id = event.target.closest(".box")?.dataset.id;
    if (id) choose(id);
  },
  pointerover(event) {
    const id = event.target.closest(".box")?.dataset.id;
    if (id && !pointers.size && event.pointerType === "mouse") choose(id);
  },
};
