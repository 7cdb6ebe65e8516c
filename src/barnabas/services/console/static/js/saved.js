// Searches that people keep: names and addresses, in this browser.
import { element } from "./rows.js";

const KEY = "barnabas.searches";

function load() {
  try { return JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { return {}; }
}

function store(all) {
  try { localStorage.setItem(KEY, JSON.stringify(all)); } catch { /* storage is switched off or full */ }
}

export function watchSaved(query) {
  const list = document.querySelector("#saved ul");
  const name = document.getElementById("saved-name");

  function show() {
    list.replaceChildren(...Object.entries(load()).map(([title, address]) => {
      const item = element("li");
      const link = element("a", title);
      link.href = `?${address}`;
      const forget = element("button", "Forget", "plain");
      forget.type = "button";
      forget.setAttribute("aria-label", `Forget ${title}`);
      forget.addEventListener("click", () => { const all = load(); delete all[title]; store(all); show(); });
      item.append(link, " ", forget);
      return item;
    }));
  }

  document.getElementById("save").addEventListener("click", () => {
    const kept = new URLSearchParams(query);
    kept.delete("at");
    store({ ...load(), [name.value.trim() || kept.get("find") || kept.get("where") || "search"]: kept.toString() });
    name.value = "";
    show();
  });
  show();
}
