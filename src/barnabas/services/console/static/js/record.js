// One record: its value as JSON with line numbers and folding, its headers, its schema, its bytes as hexadecimal.
import { element, marked, shown, time } from "./rows.js";

const DEEPEST = 100;
const LARGE = 200;

class Digits {
  constructor(text) { this.text = text; }
}

// Numbers keep all of their digits where the browser tells them.
function parse(text) {
  return JSON.parse(text, (_, value, context) => (typeof value === "number" ? new Digits(context?.source ?? String(value)) : value));
}

function leaf(value) {
  if (value instanceof Digits) return marked(value.text, "n");
  if (typeof value === "string") return marked(JSON.stringify(value), "t");
  return element("span", value === null ? "null" : typeof value === "object" ? "…" : String(value), "w");
}

function line(depth, ...parts) {
  const made = element("div", undefined, "row-line");
  made.append("  ".repeat(depth), ...parts);
  return made;
}

function branch(name, value, depth, comma) {
  const label = name === null ? [] : [element("span", JSON.stringify(name), "k"), element("span", ": ", "s")];
  const isNode = value !== null && typeof value === "object" && !(value instanceof Digits);
  if (!isNode || depth > DEEPEST || !Object.keys(value).length) {
    const empty = isNode && depth <= DEEPEST ? element("span", Array.isArray(value) ? "[]" : "{}", "s") : leaf(value);
    return line(depth, ...label, empty, element("span", comma, "s"));
  }
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const made = element("details");
  const summary = element("summary");
  summary.dataset.close = close + comma;
  summary.append("  ".repeat(depth), ...label, element("span", open, "s"));
  made.append(summary);
  const entries = Array.isArray(value) ? value.map((inner) => [null, inner]) : Object.entries(value);
  const fill = () => {
    if (made.childElementCount > 1) return;
    made.append(...entries.map(([key, inner], at) => branch(key, inner, depth + 1, at + 1 < entries.length ? "," : "")), line(depth, element("span", close + comma, "s")));
  };
  made.addEventListener("toggle", fill);
  if (depth < 3 && entries.length <= LARGE) { made.open = true; fill(); }
  return made;
}

export function tree(text) {
  const made = element("pre", undefined, "tree");
  try {
    made.append(branch(null, parse(text), 0, ""));
  } catch {
    made.textContent = text;
  }
  return made;
}

export function hexLines(hex) {
  const lines = [];
  for (let at = 0; at < hex.length; at += 32) {
    const bytes = hex.slice(at, at + 32).match(/../g);
    const letters = bytes.map((byte) => { const code = parseInt(byte, 16); return code > 31 && code < 127 ? String.fromCharCode(code) : "."; });
    lines.push(`${(at / 2).toString(16).padStart(6, "0")}  ${bytes.join(" ").padEnd(48)}${letters.join("")}`);
  }
  return lines.join("\n");
}

function facts(pairs) {
  const made = element("dl", undefined, "facts");
  for (const [name, ...parts] of pairs) {
    const place = element("dd");
    place.append(...parts);
    made.append(element("dt", name), place);
  }
  return made;
}

function readers(found) {
  const has = found.filter((each) => each.has_read).map((each) => each.group);
  const not = found.filter((each) => !each.has_read).map((each) => each.group);
  const parts = [has.join(", ")];
  if (not.length) parts.push(has.length ? "; " : "", element("span", `not yet ${not.join(", ")}`, "warn"));
  return parts;
}

function button(word, click, label) {
  const made = element("button", word, "small");
  made.type = "button";
  if (label) made.ariaLabel = label;
  made.addEventListener("click", click);
  return made;
}

function linkButton(word, href, className = "button small") {
  const made = element("a", word, className);
  made.href = href;
  return made;
}

function headersTable(record) {
  return facts(record.headers.map(([name, value]) => [name, element("span", shown(value), "mono")]));
}

// Tabs whose panels are made when they are opened.
function tabbed(parts) {
  const list = element("div", undefined, "tabs");
  const body = element("div", undefined, "pane-body");
  list.role = "tablist";
  list.ariaLabel = "Parts of the record";
  body.role = "tabpanel";
  body.tabIndex = 0;
  const choose = (chosen) => {
    [...list.children].forEach((tab, at) => { tab.ariaSelected = String(at === chosen); tab.tabIndex = at === chosen ? 0 : -1; });
    body.ariaLabel = parts[chosen][0];
    body.replaceChildren(...parts[chosen][2]());
  };
  parts.forEach(([word, count], at) => {
    const tab = element("button", word, "plain");
    Object.assign(tab, { type: "button", role: "tab" });
    if (count !== "") tab.append(element("span", String(count), "count"));
    tab.addEventListener("click", () => choose(at));
    list.append(tab);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = ([...list.children].indexOf(document.activeElement) + step + parts.length) % parts.length;
    list.children[next].focus();
    choose(next);
    event.preventDefault();
  });
  choose(0);
  return [list, body];
}

function valueOf(record) {
  const isTree = ["json", "avro", "protobuf"].includes(record.value.format) && !record.value.cut;
  const copy = element("button", undefined, "small");
  copy.append(element("span", "Copy"));
  Object.assign(copy, { type: "button" });
  copy.dataset.copy = shown(record.value);
  return [isTree ? tree(record.value.text) : element("pre", shown(record.value)), copy];
}

function foot(href, found) {
  const made = element("div", undefined, "pane-foot");
  const base = href.replace(/\/records\/.*$/, "");
  const { record } = found;
  if (!found.masked) made.append(linkButton("Replay", `${href}#replay`));
  if (found.may_write && !found.masked) made.append(linkButton("Edit a copy", `${base}/produce?partition=${record.partition}&offset=${record.offset}`));
  made.append(linkButton("Link", href));
  if (!found.masked) {
    const value = linkButton("Value", `${href.split("?")[0]}/value`, "button plain small");
    value.download = "";
    made.append(value);
  }
  return made;
}

function head(link, record, go) {
  const made = element("div", undefined, "pane-head");
  const title = element("h2");
  const whole = element("a", `partition ${record.partition}, offset ${record.offset}`);
  whole.href = link.href;
  title.append(`${shown(record.key)} `, whole);
  made.append(title, button("↑", () => go(-1), "Previous record"), button("↓", () => go(1), "Next record"), button("✕", () => go(0), "Close"));
  return made;
}

export async function openPane(pane, link, go) {
  const url = new URL(link.href);
  const answer = await fetch(`/api/v1${url.pathname}${url.search}`);
  const found = await answer.json();
  if (!answer.ok) {
    pane.replaceChildren(element("p", found.error, "message bad"));
  } else {
    const { record } = found;
    const { value } = record;
    const schema = value.schema ? `, schema ${value.schema}` : "";
    const pairs = [["Time", time(record.timestamp)], ["Format", `${value.format}${schema}, ${value.size ?? 0} bytes${value.cut ? ", cut" : ""}${value.note ? `; ${value.note}` : ""}`]];
    if (found.readers.length) pairs.push(["Read by", ...readers(found.readers)]);
    const parts = [["Value", "", () => valueOf(record)]];
    if (record.headers.length) parts.push(["Headers", record.headers.length, () => [headersTable(record)]]);
    if (value.schema_text) parts.push([`Schema`, value.schema, () => [element("pre", value.schema_text)]]);
    if (value.hex) parts.push(["Bytes", value.size ?? "", () => [element("pre", hexLines(value.hex))]]);
    const [list, body] = tabbed(parts);
    pane.replaceChildren(head(link, record, go), list, facts(pairs), body, foot(link.href, found));
  }
  pane.hidden = false;
  pane.focus();
  pane.scrollIntoView({ block: "nearest" });
}

const value = document.querySelector("pre#value[data-json]");
if (value) value.replaceWith(tree(value.textContent));
const hex = document.querySelector("pre#hex[data-hex]");
if (hex) hex.textContent = hexLines(hex.dataset.hex);
