// What every page has: keys, the theme, "go to", and curves where there are some.
import { watchGoto } from "./goto.js";

const base = document.body.dataset.base;

function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

function rows() {
  return [...document.querySelectorAll("main tbody tr, main li.row")].filter((row) => row.offsetParent !== null);
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.classList.contains("here"));
  const next = Math.min(Math.max(now + step, 0), all.length - 1);
  if (now >= 0) all[now].classList.remove("here");
  all[next].classList.add("here");
  all[next].scrollIntoView({ block: "nearest" });
  (all[next].querySelector("a, button") ?? all[next]).focus({ preventScroll: true });
}

let waitsForLetter = false;

function go(letter) {
  const link = [...document.querySelectorAll("nav.main a")].find((a) => a.dataset.letter === letter);
  if (link) location.href = link.href;
}

const keys = {
  "/": () => document.getElementById("goto")?.focus(),
  "?": () => document.getElementById("keys").showModal(),
  f: () => document.querySelector("main [data-filter], main input[type=search]")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  g: () => { waitsForLetter = true; setTimeout(() => { waitsForLetter = false; }, 1500); },
  " ": () => document.querySelector("main [data-pause]")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === " " && event.target.closest("button, a, summary")) return;
  if (waitsForLetter) {
    waitsForLetter = false;
    go(event.key);
    event.preventDefault();
  } else if (keys[event.key] && (event.key !== " " || document.querySelector("main [data-pause]"))) {
    keys[event.key]();
    event.preventDefault();
  }
});

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* for this page only */ }
  document.dispatchEvent(new Event("theme"));
});

// What scrolls sideways is reached by Tab while it does, so that arrow keys can move it.
const tables = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) Object.assign(target, { tabIndex: 0, role: "group", ariaLabel: "A wide table" });
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll(".wide").forEach((each) => tables.observe(each));

if (document.getElementById("goto")) watchGoto(document.getElementById("goto"), base);
if (document.querySelector("figure.curve")) import("./curves.js").then((curves) => curves.drawAll());
