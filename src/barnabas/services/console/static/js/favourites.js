// Favourite topics are kept in this browser; the link "Favourites" names them in the address.
const key = `favourites ${document.body.dataset.base}`;

function load() {
  try { return new Set(JSON.parse(localStorage.getItem(key) ?? "[]")); } catch { return new Set(); }
}

let favourites = load();

function show() {
  for (const button of document.querySelectorAll("[data-favourite]")) {
    const is = favourites.has(button.dataset.favourite);
    button.ariaPressed = String(is);
  }
  const link = document.getElementById("favourites");
  link.hidden = !favourites.size && !link.ariaCurrent;
  link.textContent = favourites.size ? `Favourites ${favourites.size}` : "Favourites";
  link.href = `?${new URLSearchParams([...favourites].map((name) => ["name", name]))}`;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-favourite]");
  if (!button) return;
  const name = button.dataset.favourite;
  if (!favourites.delete(name)) favourites.add(name);
  try { localStorage.setItem(key, JSON.stringify([...favourites])); } catch { /* for this page only */ }
  show();
});

// Ticked rows bring a bar with what can be done to all of them.
function choose() {
  const bar = document.querySelector(".chosen");
  if (!bar) return;
  const count = document.querySelectorAll("#topics tbody input:checked").length;
  bar.hidden = !count;
  bar.querySelector("span").textContent = count;
}

document.addEventListener("change", choose);
document.addEventListener("tick", () => { show(); choose(); });
show();
choose();
