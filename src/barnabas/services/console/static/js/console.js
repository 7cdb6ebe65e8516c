// What every page has: keys, the theme, times, "go to", copying, and charts where there are some.
import { watchGoto } from "./goto.js";
import { watchTimes } from "./times.js";

const base = document.body.dataset.base;
const input = document.getElementById("goto");

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

function search() {
  input?.closest("form").classList.add("open");
  input?.focus();
}

const pause = () => document.querySelector("main [data-pause]") ?? document.getElementById("live");
const keys = {
  "/": search,
  "?": () => document.getElementById("keys").showModal(),
  f: () => document.querySelector("main [data-filter], main input[type=search]")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  g: () => { waitsForLetter = true; setTimeout(() => { waitsForLetter = false; }, 1500); },
  " ": () => pause().click(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey) && input) {
    search();
    event.preventDefault();
  }
  if (event.key === "Escape") document.querySelectorAll("details.menu[open]").forEach((menu) => { menu.open = false; menu.querySelector("summary").focus(); });
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === " " && event.target.closest("button, a, summary")) return;
  if (waitsForLetter) {
    waitsForLetter = false;
    go(event.key);
    event.preventDefault();
  } else if (keys[event.key] && (event.key !== " " || pause())) {
    keys[event.key]();
    event.preventDefault();
  }
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  const copy = event.target.closest("[data-copy], [data-copy-link]");
  if (copy) {
    const word = copy.querySelector("span") ?? copy;
    navigator.clipboard?.writeText(copy.dataset.copy || ("copyLink" in copy.dataset ? location.href : "") || copy.parentElement.querySelector("code, pre").textContent).then(() => {
      const before = word.textContent;
      word.textContent = "Copied";
      setTimeout(() => { word.textContent = before; }, 2000);
    }).catch(() => {});
  }
  if (event.target.closest(".phone-goto")) { event.preventDefault(); search(); }
  const opener = event.target.closest("[data-dialog]");
  if (opener) { event.preventDefault(); document.getElementById(opener.dataset.dialog).showModal(); }
  if (event.target.closest("[data-close]")) event.target.closest("dialog")?.close();
});

document.getElementById("theme")?.addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* for this page only */ }
  document.dispatchEvent(new Event("theme"));
});

// The message of an action goes after six seconds, unless it is pointed at.
for (const toast of document.querySelectorAll(".toast")) {
  const leave = () => setTimeout(() => { if (!toast.matches(":hover, :focus-within")) toast.remove(); else leave(); }, 6000);
  leave();
}

// What scrolls sideways is reached by Tab while it does, so that arrow keys can move it.
const tables = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) Object.assign(target, { tabIndex: 0, role: "group", ariaLabel: target.ariaLabel ?? "A wide table" });
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll(".wide").forEach((each) => tables.observe(each));

watchTimes();
if (input) watchGoto(input, base);
if (document.querySelector("figure.curve")) import("./curves.js").then((curves) => curves.drawAll());

// A dialog that came with the page is modal where there is a script; closing it leads to the page without it.
for (const dialog of document.querySelectorAll("dialog[data-modal]")) {
  dialog.close();
  dialog.showModal();
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); dialog.querySelector(".dialog-foot a")?.click(); });
}
