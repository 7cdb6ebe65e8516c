// "Go to": suggestions from the console while one types.

export function watchGoto(input, base) {
  const list = document.getElementById("goto-found");
  let asked = 0;
  let chosen = -1;

  function show(places) {
    chosen = -1;
    list.replaceChildren(...places.map((place, index) => {
      const item = document.createElement("li");
      item.id = `goto-${index}`;
      item.role = "option";
      item.ariaSelected = "false";
      item.dataset.url = place.url;
      item.textContent = `${place.name} · ${place.kind}`;
      item.addEventListener("mousedown", () => { location.href = place.url; });
      return item;
    }));
    list.hidden = !places.length;
    input.ariaExpanded = String(!list.hidden);
  }

  async function ask() {
    const mine = ++asked;
    if (!input.value.trim()) return show([]);
    const answer = await fetch(`/api/v1${base}/goto?q=${encodeURIComponent(input.value.trim())}`);
    if (mine === asked && answer.ok) show((await answer.json()).found);
  }

  function choose(step) {
    const items = [...list.children];
    if (!items.length) return;
    if (chosen >= 0) items[chosen].ariaSelected = "false";
    chosen = (chosen + step + items.length) % items.length;
    items[chosen].ariaSelected = "true";
    input.setAttribute("aria-activedescendant", items[chosen].id);
  }

  input.addEventListener("input", ask);
  input.addEventListener("blur", () => show([]));
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      choose(event.key === "ArrowDown" ? 1 : -1);
      event.preventDefault();
    } else if (event.key === "Enter" && !list.hidden) {
      location.href = list.children[Math.max(chosen, 0)].dataset.url;
      event.preventDefault();
    } else if (event.key === "Escape") {
      show([]);
      input.blur();
    }
  });
}
