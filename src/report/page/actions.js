// What a person can do: answers, notes, and changes to tasks and runs. Shown only where the page may act.

import { h, render } from "./dom.js";
import { act } from "./data.js";
import { button, command, withCode } from "./words.js";

// Whether the page may act; set by the shell.
export const may = { act: false };

let toastTimer = 0;

// Shows a message for some seconds.
export function toast(text, isBad = false) {
  const place = document.getElementById("toast");
  render(place, h("p", { class: isBad ? "toast is-bad" : "toast" }, text,
    button("×", () => render(place), { class: "plain", "aria-label": "Close the message" })));
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => render(place), isBad ? 20000 : 6000);
}

// Does it and says how it went: an error of a dialog stands in it.
export async function perform(action, fine) {
  const { done, text } = await act(action);
  const place = document.querySelector("dialog[open] .dialog-error");
  if (place) render(place, !done && h("p", { class: "bad-text", role: "alert" }, text || "it failed"));
  if (done || !place) toast(done ? fine ?? text : text || "it failed", !done);
  return done;
}

// Opens the dialog with these children.
export function openDialog(title, ...children) {
  const dialog = document.getElementById("dialog");
  render(dialog);
  render(dialog, h("div", { class: "dialog-head" }, h("h2", { id: "dialog-title" }, title),
    button("×", () => dialog.close(), { class: "plain", "aria-label": "Close" })), children, h("div", { class: "dialog-error" }));
  if (!dialog.open) dialog.showModal();
  return dialog;
}

// Asks before an action that changes much, and does it.
function confirmed(title, text, yes, action) {
  const act = async () => {
    if (await perform(action)) dialog.close();
  };
  const dialog = openDialog(title, h("p", null, withCode(text)),
    h("div", { class: "dialog-foot" }, button("Cancel", () => dialog.close(), { autofocus: true }), button(yes, act, { class: "is-danger" })));
  dialog.querySelector("[autofocus]").focus();
}

// Asks for a text and does something with it.
function asked(title, label, yes, then, isNeeded = true) {
  const box = h("textarea", { rows: 4, id: "dialog-text", required: isNeeded });
  const send = async (event) => {
    event.preventDefault();
    if (isNeeded && !box.value.trim()) return;
    if (await then(box.value.trim())) dialog.close();
  };
  const dialog = openDialog(title, h("form", { on: { submit: send } },
    h("label", { for: "dialog-text" }, label), box,
    h("div", { class: "dialog-foot" }, button("Cancel", () => dialog.close()),
      h("button", { class: "is-main" }, yes))));
  box.focus();
}

// The box for an answer to the question of a task. Typed text stays while the view is refreshed.
export function answerBox(id) {
  if (!may.act) return null;
  const name = `answer-${id}`;
  const send = async function (event) {
    event.preventDefault();
    const box = this.querySelector("textarea");
    const text = box.value.trim();
    if (!text) return box.focus();
    const submit = this.querySelector("button");
    submit.disabled = true;
    if (await perform({ action: "answer", id, text }, `answered ${id}`)) box.value = "";
    submit.disabled = false;
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
  };
  return h("form", { class: "answer", key: name, on: { submit: send } },
    h("label", { for: name, class: "away" }, `Answer for ${id}`),
    h("textarea", { id: name, rows: 2, placeholder: "Type the answer; the next attempt gets it", on: { keydown: keys } }),
    h("button", { class: "is-main" }, "Answer"));
}

export function resetButton(id, label = "Reset") {
  const text = `\`${id}\` becomes pending and gets new attempts. The work of its attempts is kept.`;
  return may.act && button(label, () => confirmed(`Reset ${id}?`, text, "Reset", { action: "reset", id }), { "aria-label": `${label} ${id}` });
}

function completeButton(id) {
  const text = `\`${id}\` is marked complete without an attempt and without verification. Tasks that wait on it can start.`;
  return button("Complete", () => confirmed(`Mark ${id} complete?`, text, "Mark complete", { action: "complete", id }));
}

// Asks the provider of rate-limited agents again.
export function retryButton() {
  return may.act && button("Retry now", () => perform({ action: "retry_now" }));
}

// The actions for landed work.
export function acceptTools(item) {
  if (!may.act) return command(`ralph review ${item.task_id} --accept`);
  const accept = (note) => perform({ action: "accept", id: item.task_id, note }, `${item.task_id}: reviewed`);
  return h("div", { class: "tools" }, button("Accept", () => accept(""), { class: "is-main", "aria-label": `Accept ${item.task_id}` }),
    button("Accept with a note", () => asked(`Accept ${item.task_id}`, "The note stands with it in the journal", "Accept", accept)));
}

// The actions for one task.
export function taskTools(task) {
  if (!may.act) return null;
  const id = task.id;
  const isOver = ["complete", "cancelled"].includes(task.state);
  const note = (text) => perform({ action: "note", id, text }, "noted for the next attempt");
  const block = (reason) => perform({ action: "block", id, reason });
  return h("div", { class: "tools" },
    !isOver && button("Note", () => asked(`Note for ${id}`, "The next attempt reads it in its prompt", "Leave the note", note)),
    !isOver && task.state !== "blocked" && button("Block", () => asked(`Block ${id}`, "Why it must not start", "Block", block)),
    task.state !== "ready" && task.state !== "waiting" && resetButton(id),
    !isOver && completeButton(id));
}

// The actions for the run.
export function runTools(now) {
  if (!may.act) return null;
  const goesOn = ["running", "pausing", "stopping", "suspended"].includes(now.status);
  const isPaused = now.paused || now.status === "paused" || now.status === "pausing";
  const text = "Its attempts end at once. Their work is kept; the next run tries their tasks again.";
  const stopNow = () => confirmed("Stop the run now?", text, "Stop now", { action: "stop", now: true });
  return h("div", { class: "tools" },
    now.waiting && now.status === "running" && retryButton(),
    isPaused && goesOn && button("Resume", () => perform({ action: "resume" })),
    !isPaused && goesOn && button("Pause", () => perform({ action: "pause" })),
    goesOn && now.status !== "stopping" && button("Stop", () => perform({ action: "stop" }), { title: "Start nothing more, and let its attempts finish" }),
    goesOn && button("Stop now", stopNow, { class: "is-danger" }),
    button("Add task", addTask));
}

function addTask() {
  const field = (name, label, element) => [h("label", { for: `add-${name}` }, label), element];
  const input = (name, more) => h("input", { id: `add-${name}`, name, autocomplete: "off", ...more });
  const send = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    const words = (text) => text.split(/[\s,]+/).filter(Boolean);
    const action = {
      action: "add_task", title: values.title.trim(), description: values.description,
      after: words(values.after), verify: values.verify.split("\n").filter((line) => line.trim()),
    };
    if (values.priority) action.priority = Number(values.priority);
    if (await perform(action)) dialog.close();
  };
  const dialog = openDialog("Add a task", h("form", { on: { submit: send } },
    field("title", "Title", input("title", { required: true })),
    field("description", "Description", h("textarea", { id: "add-description", name: "description", rows: 4 })),
    field("after", "Waits on (ids)", input("after")),
    field("priority", "Priority (1 is the most urgent)", input("priority", { type: "number", min: 0, max: 9 })),
    field("verify", "Verify commands, one a line", h("textarea", { id: "add-verify", name: "verify", rows: 2, class: "code" })),
    h("div", { class: "dialog-foot" }, button("Cancel", () => dialog.close()), h("button", { class: "is-main" }, "Add"))));
  dialog.querySelector("input").focus();
}
