// The search: one stream of events, rows as they come, Cancel and Continue.
import { openPane } from "./record.js";
import { element, place, row } from "./rows.js";
import { watchSaved } from "./saved.js";
import { add, draw } from "./timeline.js";

const rows = document.getElementById("rows");
const state = document.getElementById("state");
const bar = document.getElementById("progress");
const cancel = document.getElementById("cancel");
const onward = document.getElementById("continue");
const pane = document.getElementById("pane");
const query = new URLSearchParams(location.search);
query.delete("wait");
let stream = null;
let token = "";
let count = 0;
let lastShare = 0;
const submit = document.querySelector("#search .search-line > button.first");

const number = (value) => value.toLocaleString("en-US");

// "143 found", then what was read and how fast.
function told(progress) {
  const read = `${number(progress.records)} records, ${number(Math.round(progress.bytes / 1e6))} MB read in ${progress.seconds.toFixed(1)} s`;
  return progress.failures ? `${read}; ${number(progress.failures)} could not be evaluated (${progress.failure})` : read;
}

function say(text, withCount = true) {
  state.replaceChildren(...(withCount && (count || !stream) ? [element("b", `${number(count)} found`), " "] : []), text);
}

function share(part) {
  const isDrawn = draw(part, query.get("order") !== "oldest");
  bar.hidden = isDrawn || !stream;
  bar.value = part;
  document.getElementById("share").textContent = stream ? `${Math.floor(part * 100)} %` : "";
}

function stop(text, withCount = true) {
  stream?.close();
  stream = null;
  cancel.hidden = true;
  submit.hidden = false;
  share(lastShare);
  bar.hidden = true;
  say(text, withCount);
  onward.hidden = !token;
  const next = new URLSearchParams(query);
  next.set("at", token);
  onward.href = `?${next}`;
}

const words = { done: "Everything was searched", limit: "There is more", budget: "Stopped here, because a search reads no more at once" };

function start(at) {
  const asked = new URLSearchParams(query);
  if (at) asked.set("at", at);
  stream?.close();
  stream = new EventSource(`${place}/records/search?${asked}`);
  cancel.hidden = false;
  submit.hidden = true;
  onward.hidden = true;
  say("Starting the search…", false);
  stream.addEventListener("hits", (event) => {
    const found = JSON.parse(event.data);
    token = found.continue_at;
    count += found.rows.length;
    rows.append(...found.rows.map(row));
    add(found.rows);
    share(lastShare);
  });
  stream.addEventListener("progress", (event) => {
    const progress = JSON.parse(event.data);
    token = progress.continue_at;
    lastShare = progress.of ? progress.offsets / progress.of : 1;
    share(lastShare);
    say(progress.records ? `${told(progress)}.` : "Starting the search…");
  });
  stream.addEventListener("end", (event) => {
    const end = JSON.parse(event.data);
    token = end.continue_at;
    stream.close();
    stream = null;
    if (end.reason === "done") lastShare = 1;
    stop([`${words[end.reason]}: ${told(end.progress)}.`, ...end.notes].join(" "));
  });
  stream.addEventListener("failed", (event) => {
    const failure = JSON.parse(event.data);
    stop("", false);
    state.append(element("span", failure.field ? `${failure.field}: ${failure.error}` : failure.error, "bad"));
  });
  stream.onerror = () => stop("The connection to the console was lost.");
}

cancel.addEventListener("click", () => stop("Cancelled."));
onward.addEventListener("click", (event) => { event.preventDefault(); start(token); });
rows.addEventListener("click", (event) => {
  const link = event.target.closest("tr")?.querySelector("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  rows.querySelector("[aria-current]")?.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  openPane(pane, decoded(link), go);
});

// The record before or after the open one in the list; 0 closes it.
function go(step) {
  const open = rows.querySelector("[aria-current]");
  const next = step > 0 ? open?.closest("tr").nextElementSibling : open?.closest("tr").previousElementSibling;
  if (step && next) return next.querySelector("a").click();
  if (step) return;
  pane.hidden = true;
  open?.removeAttribute("aria-current");
  open?.focus();
}


function decoded(link) {
  const url = new URL(link.href);
  if (query.get("decode")) url.searchParams.set("decode", query.get("decode"));
  return { href: url.href };
}

for (const link of document.querySelectorAll("#export a")) {
  const asked = new URLSearchParams(query);
  for (const name of ["limit", "at", "order"]) asked.delete(name);
  asked.set("format", link.dataset.format);
  link.href = `${place}/records/export?${asked}`;
}
watchSaved(query);
rows.replaceChildren();
start(query.get("at") ?? "");
addEventListener("pagehide", () => stream?.close());
