// The view of what landed and nobody has looked at, what deserves it most first.

import { h, page } from "./dom.js";
import { get, report } from "./data.js";
import { acceptTools } from "./actions.js";
import { diffs } from "./diff.js";
import { command, counted, duration, empty, moment, money, panel, short, sign, taskLink, withCode } from "./words.js";

export const reviewView = {
  title: () => "Review",
  isWide: true,
  async load(route) {
    const review = await get("review");
    const item = chosen(review, route);
    const details = item && await get(`attempts/${encodeURIComponent(`${item.task_id}.${item.attempt}`)}`).catch(() => null);
    return { review, details };
  },
  draw({ review, details, route }) {
    const all = review.to_review;
    const head = h("div", { class: "view-head" }, h("div", null, h("h1", null, all.length ? `${all.length} to review` : "Review"),
      h("p", { class: "faint" }, "Landed work that nobody has looked at, the riskiest first.")));
    if (!all.length) return [head, panel("To review", { count: 0 }, empty("Nothing is left to review."))];
    const item = chosen(review, route);
    return [head, h("div", { class: "columns is-review" },
      h("div", { class: "main-column" }, item ? shown(item, details) : panel("Not here", null, empty(`\`${route.id}\` has no landed work to review.`))),
      h("aside", { class: "side-column", "aria-label": "To review" }, panel("In order of risk", { count: all.length },
        h("ul", { class: "rows" }, all.map((it) => row(it, it === item))))))];
  },
};

function chosen(review, route) {
  return route.id ? review.to_review.find((item) => item.task_id === route.id) : review.to_review[0];
}

function row(item, isChosen) {
  return h("li", { class: "row is-tall", key: item.task_id }, sign(item.risks.length ? "stuck" : "done"),
    h("a", { class: "row-main review-link", href: `#/review/${encodeURIComponent(item.task_id)}`, "aria-current": isChosen ? "true" : null },
      h("span", { class: "code" }, item.task_id), " ", h("bdi", { class: "title" }, item.title),
      item.risks.length > 0 && h("span", { class: "line" }, withCode(item.risks[0].why), item.risks.length > 1 && `, and ${item.risks.length - 1} more`)),
    h("span", { class: "row-facts lines" }, h("span", { class: "plus" }, `+${short(item.insertions)}`), " ", h("span", { class: "minus" }, `−${short(item.deletions)}`)));
}

function shown(item, details) {
  const fact = (name, ...value) => [h("dt", { key: `${name}-name` }, name), h("dd", { key: name }, value)];
  const commits = details?.commits ?? [];
  return panel(item.title === item.task_id ? "Work" : item.title, { key: `review-${item.task_id}`, tools: taskLink(item.task_id) },
    h("div", { class: "review-body" },
      h("div", null,
        item.risks.length > 0 ? h("ul", { class: "risks" }, item.risks.map((risk, at) => h("li", { key: at }, sign("stuck"), " ", withCode(risk.why)))) : h("p", { class: "faint" }, "No reason for doubt was found."),
        h("dl", { class: "facts is-wide" },
          fact("Size", `${counted(item.files, "file")}, +${short(item.insertions)} −${short(item.deletions)}, ${counted(item.commits, "commit")}`),
          item.proof && fact("Proof", withCode(item.proof.text)),
          details?.verify?.length > 0 && fact("Verified", h("ul", null, details.verify.map((check) => h("li", { key: check.command }, h("code", { class: "wrap" }, check.command), " ", h("span", { class: "faint" }, check.last_line ?? ""))))),
          fact("Took", duration(item.duration_seconds), item.cost_usd > 0 && `, ${money(item.cost_usd)}`),
          fact("Landed", moment(item.at)),
          fact("What its agent did", h("a", { href: `#/task/${encodeURIComponent(item.task_id)}?attempt=${item.attempt}` }, `transcript of attempt ${item.attempt}`))),
        acceptTools(item),
        h("p", { class: "need-foot" }, h("span", { class: "faint" }, "Takes it back: "), command(`ralph take-back ${item.task_id}`))),
      h("div", null, commits.length ? commits.map((commit) => h("div", { key: commit.id }, h("p", { class: "commit" }, h("code", null, commit.id.slice(0, 9)), " ", h("bdi", null, commit.subject)), diffs([commit.id])))
        : empty(report ? "The changes are not in this report." : "Its commits are not known."))));
}
