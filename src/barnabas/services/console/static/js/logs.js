// Log search: bars are zoomed into, a line opens its surroundings, and "Follow" asks again every two seconds, or less
// often if a search takes long.
const seconds = 2;

async function fetched(address, part) {
  const answer = await fetch(address);
  if (!answer.ok) return null;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return page.querySelector(part);
}

function zoom(bar) {
  const address = new URL(location);
  address.searchParams.set("since", bar.dataset.since);
  address.searchParams.set("until", bar.dataset.until);
  address.searchParams.delete("before");
  location.href = address;
}

async function open(link) {
  const line = link.closest("li");
  const shown = line.querySelector(".around");
  if (shown) { shown.remove(); return; }
  const around = await fetched(`${link.href}?around=5`, "#around");
  if (!around) { location.href = link.href; return; }
  around.removeAttribute("id");
  around.className = "around";
  line.append(around);
}

document.addEventListener("click", (event) => {
  const bar = event.target.closest("svg.bars g");
  if (bar) zoom(bar);
  const link = event.target.closest(".result > .lines > li > a.when");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    open(link);
  }
});

async function follow() {
  const begun = performance.now();
  if (!document.hidden && !document.querySelector(".around")) {
    const found = await fetched(location, "#found").catch(() => null);
    if (found) document.getElementById("found").replaceWith(found);
  }
  setTimeout(follow, Math.max(seconds * 1000, 5 * (performance.now() - begun)));
}

if (document.querySelector("[data-live]")) setTimeout(follow, seconds * 1000);
