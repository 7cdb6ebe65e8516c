// Times are UTC as the console sends them; <time datetime> becomes local time where the user prefers that.

let isLocal = false;
try { isLocal = localStorage.getItem("zone") === "local"; } catch { /* storage is switched off */ }
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");

function localText(when, withZone) {
  const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  return `${day} ${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}.${String(when.getMilliseconds()).padStart(3, "0")}${withZone ? " here" : ""}`;
}

// Exact, in the chosen zone; milliseconds that no calendar has stay a number.
export function timeText(ms) {
  if (ms < 0) return "–";
  const when = new Date(ms);
  if (Number.isNaN(when.getTime())) return `${ms} ms`;
  return isLocal ? localText(when, false) : when.toISOString().replace("T", " ");
}

export function clockText(seconds) {
  const when = new Date(seconds * 1000);
  return isLocal ? [when.getHours(), when.getMinutes(), when.getSeconds()] : [when.getUTCHours(), when.getUTCMinutes(), when.getUTCSeconds()];
}

export function dayText(seconds) {
  const when = new Date(seconds * 1000);
  return isLocal ? `${when.getDate()} ${months[when.getMonth()]}` : `${when.getUTCDate()} ${months[when.getUTCMonth()]}`;
}

function show() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    time.title = `${when.toISOString().replace("T", " ").replace("Z", " UTC")}\n${localText(when, true)}`;
    if (!("short" in time.dataset)) time.textContent = timeText(when.getTime());
  }
  for (const button of document.querySelectorAll("[data-zone]")) button.ariaPressed = String(isLocal === (button.dataset.zone === "local"));
}

export function watchTimes() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-zone]");
    if (!button) return;
    isLocal = button.dataset.zone === "local";
    try { localStorage.setItem("zone", button.dataset.zone); } catch { /* for this page only */ }
    show();
    document.dispatchEvent(new Event("theme"));
  });
  document.addEventListener("tick", show);
  show();
}
