// Rows of records. Whatever strangers wrote enters the page as text.

import { timeText } from "./times.js";

export const place = location.pathname.replace(/\/(records|tail)\/?$/, "");

export function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export { timeText as time } from "./times.js";

export function shown(value) {
  if (value.format === "null") return "null";
  return (value.text ?? "") + (value.cut ? "…" : "");
}

function cell(value, className) {
  const made = element("td", shown(value), `mono clip ${className}`);
  if (value.format === "null") made.classList.add("quiet");
  return made;
}

export function row(hit) {
  const made = element("tr");
  const link = element("a", String(hit.offset));
  link.href = `${place}/records/${hit.partition}/${hit.offset}`;
  const offset = element("td", undefined, "right");
  offset.append(link);
  made.append(element("td", timeText(hit.timestamp), "time"), element("td", String(hit.partition), "right"), offset, cell(hit.key, "key"), cell(hit.value, "value"));
  return made;
}
