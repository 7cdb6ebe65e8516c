// Pages that update themselves: at each tick of the console, elements with data-live are taken from a fresh copy of the page.
// One stream a page, closed while the page is hidden.

let stream = null;
let paused = false;
let busy = false;

function replace(fresh) {
  for (const old of document.querySelectorAll("[data-live][id]")) {
    const young = fresh.getElementById(old.id);
    if (!young || old.isEqualNode(young) || old.contains(document.activeElement)) continue;
    const here = [...old.querySelectorAll("tbody tr")].findIndex((row) => row.classList.contains("here"));
    old.replaceChildren(...[...young.childNodes].map((node) => document.importNode(node, true)));
    old.querySelectorAll("tbody tr")[here]?.classList.add("here");
  }
}

async function refresh() {
  if (paused || busy) return;
  busy = true;
  try {
    if (document.querySelector("[data-live][id]")) {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.ok && !answer.redirected) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
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

for (const button of document.querySelectorAll("[data-pause]")) {
  button.addEventListener("click", () => {
    paused = !paused;
    button.ariaPressed = String(paused);
    button.textContent = paused ? "Resume" : "Pause";
    if (!paused) refresh();
  });
}

document.addEventListener("visibilitychange", () => { watch(); if (!document.hidden) refresh(); });
watch();
