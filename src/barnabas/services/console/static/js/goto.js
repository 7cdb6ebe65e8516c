// "Go to": topics, groups, pages and commands while one types. Without a script the same form leads to the page of matches.

const kinds = [["topic", "Topics"], ["schema", "Schemas"], ["group", "Groups"], ["page", "Pages"], ["command", "Commands"]];
const icons = new URL("../icons.svg", import.meta.url);

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "use"));
  svg.firstChild.setAttribute("href", `${icons}#${name}`);
  return svg;
}

// The part that was typed in bold; whatever strangers called a topic stays text.
function marked(name, part) {
  const made = Object.assign(document.createElement("span"), { className: "name" });
  const at = name.toLowerCase().indexOf(part.toLowerCase());
  if (at < 0) made.textContent = name;
  else made.append(name.slice(0, at), Object.assign(document.createElement("b"), { textContent: name.slice(at, at + part.length) }), name.slice(at + part.length));
  return made;
}

export function watchGoto(input, base) {
  const list = document.getElementById("goto-found");
  let asked = 0;
  let chosen = -1;
  const options = () => [...list.querySelectorAll("li")];

  function option(place, part) {
    const item = Object.assign(document.createElement("li"), { role: "option", ariaSelected: "false" });
    item.dataset.url = place.url;
    const state = Object.assign(document.createElement("span"), { className: "state", textContent: place.state ?? "" });
    item.append(icon(place.icon || "search"), marked(place.name, part), state);
    item.addEventListener("mousedown", () => { location.href = place.url; });
    return item;
  }

  function show(places, part) {
    chosen = -1;
    list.replaceChildren(...kinds.map(([kind, title]) => {
      const group = Object.assign(document.createElement("ul"), { role: "group", ariaLabel: title });
      group.append(...places.filter((place) => place.kind === kind).map((place) => option(place, part)));
      return group;
    }).filter((group) => group.childElementCount));
    options().forEach((item, index) => { item.id = `goto-${index}`; });
    list.hidden = !places.length;
    input.ariaExpanded = String(!list.hidden);
    input.removeAttribute("aria-activedescendant");
  }

  async function ask() {
    const mine = ++asked;
    const part = input.value.trim();
    if (!part) return show([], "");
    const answer = await fetch(`/api/v1${base}/goto?q=${encodeURIComponent(part)}`);
    if (mine !== asked || !answer.ok) return;
    const { found, commands } = await answer.json();
    show([...found, ...(commands ?? [])], part);
  }

  function choose(step) {
    const items = options();
    if (!items.length) return;
    if (chosen >= 0) items[chosen].ariaSelected = "false";
    chosen = (chosen + step + items.length) % items.length;
    items[chosen].ariaSelected = "true";
    items[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", items[chosen].id);
  }

  input.addEventListener("input", ask);
  input.addEventListener("blur", () => { show([], ""); input.closest("form").classList.remove("open"); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      choose(event.key === "ArrowDown" ? 1 : -1);
      event.preventDefault();
    } else if (event.key === "Enter" && !list.hidden) {
      location.href = options()[Math.max(chosen, 0)].dataset.url;
      event.preventDefault();
    } else if (event.key === "Escape") {
      show([], "");
      input.blur();
    }
  });
}
