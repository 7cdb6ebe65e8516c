// Pages that update themselves: at each tick of the console, elements with data-live are taken from a fresh copy of the page.
// One stream a page, closed while the page is hidden. The button in the header says how old the figures are, and pauses.

let stream = null;
let paused = false;
let busy = false;
const button = document.getElementById("live");
const word = button.querySelector(".word");
let age = Number(button.dataset.age);
let since = performance.now();

function say() {
  const seconds = Math.round(age + (performance.now() - since) / 1000);
  const isOld = seconds > 30;
  const text = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
  word.textContent = paused ? "paused" : isOld ? `${text} old` : `live, ${text}`;
  button.classList.toggle("warn", paused || isOld);
  button.querySelector(".dot").className = `dot ${paused || isOld ? "warn" : "ok"}`;
}

function replace(fresh) {
  if (document.getElementById("first-run") && !fresh.getElementById("first-run")) return location.reload();
  for (const old of document.querySelectorAll("[data-live][id]")) {
    const young = fresh.getElementById(old.id);
    if (!young || old.isEqualNode(young) || old.contains(document.activeElement)) continue;
    const here = [...old.querySelectorAll("tbody tr")].findIndex((row) => row.classList.contains("here"));
    old.replaceChildren(...[...young.childNodes].map((node) => document.importNode(node, true)));
    old.querySelectorAll("tbody tr")[here]?.classList.add("here");
  }
  const seen = fresh.getElementById("live");
  if (seen) { age = Number(seen.dataset.age); since = performance.now(); }
}

async function refresh() {
  if (paused || busy) return;
  busy = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.ok && !answer.redirected) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    document.dispatchEvent(new Event("tick"));
  } catch { /* the next tick tries again */ } finally { busy = false; }
}

function watch() {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else if (!stream) {
    stream = new EventSource(`/api/v1${document.body.dataset.base}/live`);
    let first = true;
    stream.addEventListener("tick", () => { if (!first) refresh(); first = false; });
  }
}

button.addEventListener("click", () => {
  paused = !paused;
  button.ariaPressed = String(paused);
  say();
  if (!paused) refresh();
});
document.addEventListener("visibilitychange", () => { watch(); if (!document.hidden) refresh(); });
document.addEventListener("tick", say);
setInterval(() => { if (!document.hidden) say(); }, 1000);
watch();
