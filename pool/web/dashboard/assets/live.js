// The dashboard's own script: live updates, colours, keys, questions before what cannot be undone. No libraries.
"use strict";

// ---------------------------------------------------------------- live updates

const region = document.getElementById("live");
const pulse = document.getElementById("pulse");
let stream = null;

function follow() {
  if (!region || !("live" in region.dataset) || stream) return;
  const page = location.pathname + location.search;
  stream = new EventSource("/ui/live?page=" + encodeURIComponent(page));
  stream.onmessage = (event) => { show(JSON.parse(event.data)); tell("live"); };
  stream.onerror = () => tell("reconnecting");
}

function unfollow() {
  if (stream) stream.close();
  stream = null;
}

function tell(word) {
  if (!pulse || pulse.dataset.state === word) return;
  pulse.dataset.state = word;
  pulse.querySelector(".word").textContent = word;
}

// New markup over old, node by node, so that focus, selection and opened details stay where they are.
function show(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  merge(region, fresh.content);
}

function merge(old, fresh) {
  const wanted = [...fresh.childNodes];
  let at = old.firstChild;
  for (const node of wanted) {
    const next = at && at.nextSibling;
    if (!at) old.appendChild(node.cloneNode(true));
    else if (at.nodeType !== node.nodeType || at.nodeName !== node.nodeName) old.replaceChild(node.cloneNode(true), at);
    else if (at.nodeType === Node.TEXT_NODE) { if (at.data !== node.data) at.data = node.data; }
    else if (at.nodeType === Node.ELEMENT_NODE) { mergeAttributes(at, node); merge(at, node); }
    at = next;
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

const OWN_STATE = new Set(["open", "value", "data-here"]);

function mergeAttributes(old, fresh) {
  const isVisible = old.nodeName === "INPUT" && old.type !== "hidden";
  for (const { name, value } of [...fresh.attributes]) {
    if (name === "open" || (isVisible && name === "value")) continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !OWN_STATE.has(name)) old.removeAttribute(name);
  }
}

document.addEventListener("visibilitychange", () => (document.hidden ? unfollow() : follow()));
addEventListener("pagehide", unfollow);
if (region && "live" in region.dataset) follow();
else if (pulse) pulse.hidden = true;

// ---------------------------------------------------------------- colours

const CHOICES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");

function chosenTheme() {
  return document.documentElement.dataset.theme || "auto";
}

function choose(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("jobpool-theme", theme); } catch { /* storage is off */ }
  label();
}

function label() {
  const words = { auto: "as the system", light: "light", dark: "dark" };
  themeButton.setAttribute("aria-label", "Colours: " + words[chosenTheme()]);
  themeButton.title = "Colours: " + words[chosenTheme()];
}

if (themeButton) {
  themeButton.addEventListener("click", () => {
    choose(CHOICES[(CHOICES.indexOf(chosenTheme()) + 1) % CHOICES.length]);
  });
  label();
}

// ---------------------------------------------------------------- questions, and the line about what was done

document.addEventListener("submit", (event) => {
  const question = event.target.dataset && event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

// A reload must not say again what was done.
if (location.search.includes("said=")) {
  const query = new URLSearchParams(location.search);
  query.delete("said");
  const rest = query.toString();
  history.replaceState(null, "", location.pathname + (rest ? "?" + rest : "") + location.hash);
}

// ---------------------------------------------------------------- keys

const PLACES = { o: "/", q: "/ui/queues", j: "/ui/jobs", d: "/ui/dead", s: "/ui/schedule", p: "/ui/pools" };
let goesTo = false;

function isTyping(target) {
  return target.closest("input:not([type=hidden]), textarea, select, dialog") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target)) return;
  if (goesTo) {
    goesTo = false;
    if (PLACES[event.key]) location.assign(PLACES[event.key]);
    return;
  }
  press(event);
});

function press(event) {
  const find = document.getElementById("find");
  const keys = document.getElementById("keys");
  if (event.key === "/" && find) { event.preventDefault(); find.focus(); }
  else if (event.key === "?" && keys) keys.showModal();
  else if (event.key === "g") goesTo = true;
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
}

// The focus goes to the link of the next row, so that Enter opens it and a screen reader reads it.
function step(by) {
  const links = [...document.querySelectorAll(".rows tbody tr")].map((row) => row.querySelector("a")).filter(Boolean);
  if (!links.length) return;
  const row = document.activeElement && document.activeElement.closest(".rows tbody tr");
  const here = row ? links.indexOf(row.querySelector("a")) : -1;
  links[Math.max(0, Math.min(links.length - 1, here < 0 ? 0 : here + by))].focus();
}
