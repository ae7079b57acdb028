// The data: fetched from the server, or read from the file in a report that needs no server.

const inside = document.getElementById("data");
// The answers of a report, by address; none on a server.
export const report = inside ? await unpacked(inside.textContent) : null;

// Reads the data of a report: JSON, packed by gzip, as base64.
function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

// An answer that is not a success.
export class DataError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// What is known of the connection: `state` is `live`, `lost` or `locked`.
export const connection = { state: "live", newsAt: new Date() };
let whenConnection = () => {};

function set(state) {
  if (state === "live") connection.newsAt = new Date();
  if (connection.state === state) return;
  connection.state = state;
  whenConnection();
}

// Returns the answer to an address below `/api/`.
export async function get(address) {
  if (report) {
    const answer = report[address] ?? report[address.split("?")[0]];
    if (answer === undefined) throw new DataError("this report does not contain it", 404);
    return answer;
  }
  return read(await send(address, { headers: { accept: "application/json" } }));
}

// Does something; returns `{ done, text }`.
export async function act(action) {
  const request = {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(action),
  };
  try {
    const answer = await (await send("actions", request)).json();
    return { done: answer.done === true, text: answer.text ?? answer.error ?? "" };
  } catch (error) {
    return { done: false, text: error.message };
  }
}

async function send(address, request) {
  let answer;
  try {
    answer = await fetch(`/api/${address}`, request);
  } catch {
    lost();
    throw new DataError("the server does not answer", 0);
  }
  if (answer.status === 401) {
    lost();
    throw new DataError("this browser has not been let in", 401);
  }
  return answer;
}

async function read(answer) {
  const text = await answer.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new DataError(text || `the server answered ${answer.status}`, answer.status);
  }
  if (!answer.ok) throw new DataError(value.error ?? text, answer.status);
  if (connection.state === "live") connection.newsAt = new Date();
  return value;
}

let stream = null;
let changed = () => {};
let checking = false;

// Calls `event({ name, data })` for each event, and `moved` when the connection changes.
export function follow(event, moved) {
  changed = event;
  whenConnection = moved;
  if (!report) open();
}

// A browser has six connections to a server: a page that is not seen leaves its own to others.
document.addEventListener("visibilitychange", () => {
  if (!stream || checking) return;
  if (document.hidden) stream.close();
  else open();
});

function open() {
  stream = new EventSource("/api/events");
  stream.onopen = () => set("live");
  stream.onerror = lost;
  for (const name of ["journal", "files", "snapshot"]) {
    stream.addEventListener(name, (event) => {
      set("live");
      connection.newsAt = new Date();
      changed({ name, data: JSON.parse(event.data) });
    });
  }
}

// Waits until the server answers and lets this browser in. One that was restarted does not know it.
async function lost() {
  if (connection.state === "live") set("lost");
  if (checking) return;
  checking = true;
  stream?.close();
  for (;;) {
    const answer = await fetch("/api/page").catch(() => null);
    await new Promise((done) => setTimeout(done, answer?.ok ? 300 : 1000));
    if (answer?.ok) break;
    set(answer?.status === 401 ? "locked" : "lost");
  }
  checking = false;
  open();
}
