// New records as they come; a page that is paused or hidden asks for nothing.
import { place, row } from "./rows.js";

const MOST_ROWS = 500;
const rows = document.getElementById("rows");
const state = document.getElementById("state");
const button = document.getElementById("pause");
const query = new URLSearchParams(location.search);
let stream = null;
let token = "";
let paused = false;
let skipped = 0;
let seen = 0;

function tell(text) {
  const missed = skipped ? `, skipped ${skipped.toLocaleString("en-US")}` : "";
  state.textContent = `${text}: ${seen.toLocaleString("en-US")} records${missed}.`;
}

function stop(text) {
  stream?.close();
  stream = null;
  tell(text);
}

function start() {
  const asked = new URLSearchParams(query);
  if (token) asked.set("at", token);
  stream = new EventSource(`${place}/tail/stream?${asked}`);
  stream.addEventListener("hits", (event) => {
    const found = JSON.parse(event.data);
    token = found.continue_at;
    seen += found.rows.length;
    rows.prepend(...found.rows.reverse().map(row));
    while (rows.childElementCount > MOST_ROWS) rows.lastElementChild.remove();
    tell("Live");
  });
  stream.addEventListener("skipped", (event) => { skipped += JSON.parse(event.data).count; tell("Live"); });
  stream.addEventListener("failed", (event) => { stop("Stopped"); paused = true; button.textContent = "Resume"; state.textContent = JSON.parse(event.data).error; });
  stream.onerror = () => { stop("The connection to the console was lost"); paused = true; button.textContent = "Resume"; };
}

button.addEventListener("click", () => {
  paused = !paused;
  button.textContent = paused ? "Resume" : "Pause";
  if (paused) stop("Paused"); else start();
});
document.addEventListener("visibilitychange", () => {
  if (paused) return;
  if (document.hidden) stop("Paused"); else if (!stream) start();
});
start();
