// The view of costs: what attempts used, by task, day, agent or story.

import { h, s } from "./dom.js";
import { get } from "./data.js";
import { counted, duration, empty, money, number, panel, short, taskLink } from "./words.js";

const GROUPS = ["task", "day", "agent", "story"];
const ROWS = 200;

export const costsView = {
  title: () => "Costs",
  async load(route) {
    const by = GROUPS.includes(route.query.by) ? route.query.by : "task";
    return { by, costs: await get(`costs?by=${by}`) };
  },
  draw({ by, costs }) {
    const known = costs.sums.some((sum) => sum.cost_usd !== null);
    const value = (sum) => (known ? sum.cost_usd ?? 0 : sum.duration_seconds);
    const most = Math.max(...costs.sums.map(value), 0);
    const all = by === "day" ? [...costs.sums].reverse() : [...costs.sums].sort((one, other) => value(other) - value(one));
    const { total } = costs;
    return [h("div", { class: "view-head" }, h("h1", null, "Costs"),
      h("div", { class: "tabs", role: "group", "aria-label": "By what" }, GROUPS.map((group) => h("a", { key: group, href: `#/costs?by=${group}`, "aria-current": group === by ? "true" : null }, `By ${group}`)))),
    h("section", { class: "tiles" }, tile("Cost", money(total.cost_usd), total.unknown_cost > 0 && `${counted(total.unknown_cost, "attempt")} did not tell`),
      tile("Attempts", number(total.attempts)), tile("Agents’ time", duration(total.duration_seconds)),
      tile("Tokens", total.tokens ? short(sumOf(total.tokens)) : "—", total.tokens && `${short(total.tokens.output)} out, ${short(total.tokens.cache_read)} from the cache`)),
    panel(known ? `Cost by ${by}` : `Time by ${by}`, { count: all.length },
      !known && all.length > 0 && empty("No agent told what it cost; the bars are its time."),
      all.length ? table(all, by, value, most) : empty("No attempt yet."))];
  },
};

function sumOf(tokens) {
  return tokens.input + tokens.output + tokens.cache_read + tokens.cache_write;
}

function tile(name, value, note) {
  return h("div", { class: "tile" }, h("span", { class: "tile-name" }, name), h("b", null, value), note && h("span", { class: "faint" }, note));
}

function table(all, by, value, most) {
  const row = (sum) => h("tr", { key: sum.name },
    h("th", { scope: "row" }, by === "task" ? taskLink(sum.name) : h("bdi", null, sum.name)),
    h("td", { class: "bar-cell" }, s("svg", { width: "100%", height: 10, "aria-hidden": "true" }, s("rect", { class: "bar-back", width: "100%", height: 10, rx: 3 }), s("rect", { class: "bar-front", width: `${most ? (value(sum) / most) * 100 : 0}%`, height: 10, rx: 3 }))),
    h("td", { class: "number" }, money(sum.cost_usd), sum.unknown_cost > 0 && sum.cost_usd !== null && h("span", { class: "faint" }, ` + ${sum.unknown_cost} unknown`)),
    h("td", { class: "number" }, number(sum.attempts)),
    h("td", { class: "number wide-only" }, duration(sum.duration_seconds)),
    h("td", { class: "number wide-only" }, sum.tokens ? short(sumOf(sum.tokens)) : "—"));
  const more = all.length - ROWS;
  return [h("table", { class: "costs" },
    h("thead", null, h("tr", null, ["Name", "Share", "Cost", "Attempts"].map((name) => h("th", { scope: "col", key: name }, name)), ["Time", "Tokens"].map((name) => h("th", { scope: "col", key: name, class: "wide-only" }, name)))),
    h("tbody", null, all.slice(0, ROWS).map(row))), more > 0 && h("p", { class: "more" }, `and ${number(more)} more`)];
}
