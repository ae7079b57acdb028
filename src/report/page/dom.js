// Elements, and their update in place. All text of the page is set here, as text and never as HTML.
//
// A view builds new elements each time; `render` then changes the shown ones into these, so that
// scroll positions, focus, typed text and open details remain.

const SVG = "http://www.w3.org/2000/svg";
// The longest text of one node, in characters.
const LONGEST = 300000;
// Characters that have no shape, or that change the order or direction of others.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

function symbol(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

// Returns a text with visible symbols for control and direction characters, cut if it is huge.
export function clean(value) {
  const text = String(value);
  const cut = text.length > LONGEST;
  const shown = (cut ? text.slice(0, LONGEST) : text).replace(HIDDEN, symbol);
  return cut ? `${shown}… (${(text.length - LONGEST).toLocaleString("en")} more characters)` : shown;
}

function relay(event) {
  this.handlers?.[event.type]?.call(this, event);
}

function listen(element, handlers) {
  element.handlers = handlers;
  for (const type of Object.keys(handlers)) element.addEventListener(type, relay);
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
}

function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") listen(element, value);
    else if (name === "key") element.key = value;
    // The children of such an element are changed by its view alone.
    else if (name === "own" || name === "forced") element[name] = true;
    else element.setAttribute(name, value === true ? "" : clean(value));
  }
  append(element, children);
  return element;
}

// Returns an element of HTML. `key` names it among its siblings; `on` has its handlers; `own` leaves its
// content alone; `forced` says that whether it is open is not up to the reader.
export function h(name, properties, ...children) {
  return build(document.createElement(name), properties, children);
}

// Returns an element of SVG.
export function s(name, properties, ...children) {
  return build(document.createElementNS(SVG, name), properties, children);
}

// Changes the children of an element into these.
export function render(parent, ...children) {
  const focused = document.activeElement;
  const fresh = document.createDocumentFragment();
  append(fresh, children);
  adopt(parent, [...fresh.childNodes]);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function isSame(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && old.key === fresh.key
    && old.type === fresh.type;
}

function adopt(parent, fresh) {
  const keys = new Set(fresh.map((node) => node.key).filter((key) => key !== undefined));
  const keyed = new Map();
  for (const child of [...parent.childNodes]) {
    if (child.key === undefined) continue;
    if (keys.has(child.key)) keyed.set(child.key, child);
    else child.remove();
  }
  let at = parent.firstChild;
  for (const node of fresh) {
    const old = node.key === undefined ? at : keyed.get(node.key);
    if (!old || !isSame(old, node)) {
      parent.insertBefore(node, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    morph(old, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of [...fresh.attributes]) {
    // Whether details are open is up to the reader.
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (fresh.forced) old.open = fresh.open;
  if (old.nodeName === "INPUT" && fresh.hasAttribute("value") && document.activeElement !== old) old.value = fresh.getAttribute("value");
  listen(old, fresh.handlers ?? {});
  if (!old.own && old.nodeName !== "TEXTAREA") adopt(old, [...fresh.childNodes]);
}

// Copies a text, and says so on the button.
export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages of other machines have no clipboard without TLS.
    const box = h("textarea", { class: "away", "aria-hidden": "true" });
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
    button.focus();
  }
  button.classList.add("is-done");
  setTimeout(() => button.classList.remove("is-done"), 1200);
}

// What views can ask of the shell, which sets it: to draw again, to read and draw again, and to change
// the query of the address. What is typed changes the entry of the browser's history, the rest adds one.
export const page = { redraw() {}, refresh() {}, go(_changes, _isTyped) {} };

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    entry.target.whenSeen();
  }
}, { rootMargin: "200px" });

// Calls a function when an element is first on the screen.
export function whenSeen(element, then) {
  element.whenSeen = then;
  seen.observe(element);
  return element;
}
