// A simple layout of the graph in layers, for answers without one: boxes from left to right by the
// longest chain that they wait on.

const WIDTH = 208;
const HEIGHT = 46;
const GAP = { x: 64, y: 14 };

// Returns `{ width, height, boxes, lines }`, as the server does. `fold` names what becomes one box.
export function layered(graph, fold) {
  const units = fold.size ? folded(graph, fold) : graph.nodes.map((node) => ({ id: node.id, label: node.id, kind: "task", mark: node.mark, tasks: [node.id] }));
  const unitOf = new Map(units.flatMap((unit) => unit.tasks.map((id) => [id, unit])));
  const lines = joinedEdges(graph, unitOf);
  const before = new Map(units.map((unit) => [unit, []]));
  const after = new Map(units.map((unit) => [unit, []]));
  for (const line of lines) {
    before.get(line.to).push(line.from);
    after.get(line.from).push(line.to);
  }
  const joined = units.filter((unit) => before.get(unit).length || after.get(unit).length);
  const layers = layersOf(joined, before, after);
  order(layers, before, after);
  const size = place(layers, units.filter((unit) => !joined.includes(unit)));
  return {
    ...size, engine: "page", boxes: units,
    lines: lines.map(({ from, to, state }) => ({ from: from.id, to: to.id, state, points: curve(from, to) })),
  };
}

function folded(graph, fold) {
  const units = new Map();
  for (const node of graph.nodes) {
    const name = fold.has("complete") && node.mark === "done" ? "complete"
      : fold.has("story") && node.story ? `story ${node.story}`
        : fold.has("milestone") && node.milestone ? `milestone ${node.milestone}` : null;
    const id = name === null ? node.id : `(${name})`;
    if (!units.has(id)) units.set(id, { id, label: name ?? node.id, kind: name === null ? "task" : "group", mark: node.mark, tasks: [] });
    const unit = units.get(id);
    unit.tasks.push(node.id);
    const urgency = ["done", "cancelled", "waiting", "ready", "running", "stuck"];
    if (urgency.indexOf(node.mark) > urgency.indexOf(unit.mark)) unit.mark = node.mark;
  }
  return [...units.values()];
}

function joinedEdges(graph, unitOf) {
  const rank = { satisfied: 0, pending: 1, dead: 2 };
  const lines = new Map();
  for (const edge of graph.edges) {
    const from = unitOf.get(edge.from);
    const to = unitOf.get(edge.to);
    if (!from || !to || from === to || (edge.implied && edge.state !== "dead")) continue;
    const key = `${from.id} ${to.id}`;
    const known = lines.get(key);
    if (!known) lines.set(key, { from, to, state: edge.state });
    else if (rank[edge.state] > rank[known.state]) known.state = edge.state;
  }
  return [...lines.values()];
}

// The units by the longest chain before them. What is on a cycle of groups comes last.
function layersOf(units, before, after) {
  const open = new Map(units.map((unit) => [unit, before.get(unit).length]));
  const level = new Map(units.map((unit) => [unit, 0]));
  const ready = units.filter((unit) => open.get(unit) === 0);
  for (const unit of ready) {
    for (const next of after.get(unit)) {
      level.set(next, Math.max(level.get(next), level.get(unit) + 1));
      open.set(next, open.get(next) - 1);
      if (open.get(next) === 0) ready.push(next);
    }
  }
  const layers = [];
  for (const unit of units) (layers[level.get(unit)] ??= []).push(unit);
  return layers.filter(Boolean);
}

// Orders each layer by the middle of its neighbors, back and forth.
function order(layers, before, after) {
  const at = new Map();
  const number = (layer) => layer.forEach((unit, place) => at.set(unit, place / layer.length));
  layers.forEach(number);
  for (let round = 0; round < 6; round += 1) {
    const near = round % 2 ? after : before;
    for (const layer of round % 2 ? [...layers].reverse() : layers) {
      const middle = new Map(layer.map((unit) => {
        const others = near.get(unit);
        return [unit, others.length ? others.reduce((sum, other) => sum + at.get(other), 0) / others.length : at.get(unit)];
      }));
      layer.sort((one, other) => middle.get(one) - middle.get(other));
      number(layer);
    }
  }
}

function place(layers, alone) {
  const step = HEIGHT + GAP.y;
  const tallest = Math.max(0, ...layers.map((layer) => layer.length));
  layers.forEach((layer, column) => layer.forEach((unit, row) => {
    Object.assign(unit, { x: column * (WIDTH + GAP.x), y: ((tallest - layer.length) / 2 + row) * step, width: WIDTH, height: HEIGHT });
  }));
  const columns = Math.max(layers.length, Math.ceil(Math.sqrt(alone.length / 3)), 1);
  const top = tallest ? tallest * step + GAP.y * 2 : 0;
  alone.forEach((unit, place) => {
    Object.assign(unit, { x: (place % columns) * (WIDTH + GAP.x), y: top + Math.floor(place / columns) * step, width: WIDTH, height: HEIGHT });
  });
  const rows = Math.ceil(alone.length / columns);
  return { width: columns * (WIDTH + GAP.x) - GAP.x, height: Math.max(HEIGHT, top + rows * step - GAP.y) };
}

function curve(from, to) {
  return [[from.x + from.width, from.y + from.height / 2], [to.x, to.y + to.height / 2]];
}
