// Rows of records. Whatever strangers wrote enters the page as text.
import { timeText } from "./times.js";

export const place = location.pathname.replace(/\/(records|tail)\/?$/, "");
const MOST_FIELDS = 12;
const query = new URLSearchParams(location.search);
const find = query.get("regex") ? "" : (query.get("find") ?? "");
// Fields that the search names come first: those of the condition, then those whose value has the text.
const wanted = new Set([...(query.get("where") ?? "").matchAll(/value\.([A-Za-z_]\w*)/g)].map((match) => match[1]));

export function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export { timeText as time };

export function shown(value) {
  if (value.format === "null") return "null";
  return (value.text ?? "") + (value.cut ? "…" : "");
}

// Text in which what was searched for is marked.
export function marked(text, className) {
  const made = element("span", undefined, className);
  const at = find ? text.toLowerCase().indexOf(find.toLowerCase()) : -1;
  if (at < 0) made.textContent = text;
  else made.append(text.slice(0, at), element("mark", text.slice(at, at + find.length)), text.slice(at + find.length));
  return made;
}

function kind(value) {
  return typeof value === "number" ? "n" : typeof value === "string" ? "t" : "w";
}

// The fields of an object without braces; null if it is no object.
function preview(text) {
  let value;
  try { value = JSON.parse(text); } catch { return null; }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  const written = (inner) => (typeof inner === "string" ? inner : JSON.stringify(inner));
  const first = ([name, inner]) => (wanted.has(name) ? 0 : find && written(inner).toLowerCase().includes(find.toLowerCase()) ? 1 : 2);
  const fields = Object.entries(value).sort((left, right) => first(left) - first(right)).slice(0, MOST_FIELDS);
  return fields.flatMap(([name, inner]) => [element("span", name, "k"), " ", marked(written(inner), kind(inner)), " "]);
}

function cell(value, className) {
  const made = element("td", undefined, `mono clip ${className}`);
  const parts = className === "value" && !value.cut && value.format !== "null" ? preview(value.text ?? "") : null;
  made.append(...(parts ?? [marked(shown(value), "")]));
  if (value.format === "null") made.classList.add("quiet");
  return made;
}

export function row(hit) {
  const made = element("tr");
  const link = element("a", hit.offset.toLocaleString("en-US"));
  link.href = `${place}/records/${hit.partition}/${hit.offset}`;
  const offset = element("td", undefined, "right");
  offset.append(link);
  const when = element("time", timeText(hit.timestamp));
  const moment = new Date(hit.timestamp);
  if (hit.timestamp >= 0 && !Number.isNaN(moment.getTime())) when.dateTime = moment.toISOString();
  const time = element("td", undefined, "time");
  time.append(when);
  made.append(time, element("td", String(hit.partition), "right"), offset, cell(hit.key, "key"), cell(hit.value, "value"));
  return made;
}
