// One record: its value as a tree, its bytes as hexadecimal.
import { element, shown, time } from "./rows.js";

const DEEPEST = 100;

function leaf(value) {
  if (value instanceof Digits) return element("span", value.text, "number");
  if (typeof value === "string") return element("span", JSON.stringify(value), "text");
  return element("span", String(value), "word");
}

class Digits {
  constructor(text) { this.text = text; }
}

// Numbers keep all of their digits where the browser tells them.
function parse(text) {
  return JSON.parse(text, (_, value, context) => (typeof value === "number" ? new Digits(context?.source ?? String(value)) : value));
}

function branch(name, value, depth) {
  const isNode = value !== null && typeof value === "object" && !(value instanceof Digits);
  if (!isNode || depth > DEEPEST) {
    const line = element("div", name === null ? "" : `${name}: `);
    line.append(isNode ? element("span", "…", "word") : leaf(value));
    return line;
  }
  const made = element("details");
  const entries = Object.entries(value);
  const kind = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  made.append(element("summary", name === null ? kind : `${name} ${kind}`));
  const fill = () => { if (made.childElementCount === 1) made.append(...entries.map(([key, inner]) => branch(key, inner, depth + 1))); };
  made.addEventListener("toggle", fill);
  if (depth < 2 && entries.length <= 200) { made.open = true; fill(); }
  return made;
}

export function tree(text) {
  const made = element("div", undefined, "tree");
  try {
    made.append(branch(null, parse(text), 0));
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

function details(title, content) {
  const made = element("details");
  made.append(element("summary", title), content);
  return made;
}

function facts(record) {
  const made = element("dl", undefined, "facts");
  const { key, value } = record;
  const schema = value.schema ? `, schema ${value.schema}` : "";
  const pairs = [["Time", time(record.timestamp)], ["Key", shown(key)], ["Value", `${value.format}${schema}, ${value.size ?? 0} bytes${value.cut ? ", cut" : ""}${value.note ? `; ${value.note}` : ""}`]];
  for (const [name, inner] of record.headers) pairs.push([`Header ${name}`, shown(inner)]);
  for (const [name, text] of pairs) made.append(element("dt", name), element("dd", text, "mono"));
  return made;
}

export async function openPane(pane, link) {
  const url = new URL(link.href);
  const answer = await fetch(`/api/v1${url.pathname}${url.search}`);
  const found = await answer.json();
  if (!answer.ok) {
    pane.replaceChildren(element("p", found.error, "message bad"));
  } else {
    const { record } = found;
    const title = element("h2");
    const whole = element("a", `Partition ${record.partition}, offset ${record.offset}`);
    whole.href = link.href;
    title.append(whole);
    const isTree = ["json", "avro", "protobuf"].includes(record.value.format) && !record.value.cut;
    const parts = [title, facts(record), isTree ? tree(record.value.text) : element("pre", shown(record.value))];
    if (record.value.schema_text) parts.push(details(`Schema ${record.value.schema}`, element("pre", record.value.schema_text)));
    if (record.value.hex) parts.push(details("Bytes", element("pre", hexLines(record.value.hex))));
    pane.replaceChildren(...parts);
  }
  pane.hidden = false;
  pane.focus();
  pane.scrollIntoView({ block: "nearest" });
}

const value = document.querySelector("pre#value[data-json]");
if (value) value.replaceWith(tree(value.textContent));
const hex = document.querySelector("pre#hex[data-hex]");
if (hex) hex.textContent = hexLines(hex.dataset.hex);
