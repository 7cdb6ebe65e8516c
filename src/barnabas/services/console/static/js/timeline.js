// The search by time: what was found as bars, what was not read yet hatched. It is progress and result in one.

const WIDTH = 600;
const HEIGHT = 44;
const BARS = 75;
const svg = document.getElementById("timeline");
const found = [];

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
}

export function add(rows) {
  found.push(...rows.map((row) => row.timestamp).filter((ms) => ms >= 0));
}

// `share` of the offsets is read; without hits there is no time to show, and the bar of 3 px does.
export function draw(share, newestFirst) {
  svg.toggleAttribute("hidden", found.length < 2);
  if (found.length < 2) return false;
  const low = found.reduce((least, ms) => Math.min(least, ms), Infinity);
  const high = found.reduce((most, ms) => Math.max(most, ms), -Infinity);
  const unread = Math.round((1 - share) * WIDTH);
  const left = newestFirst ? unread : 0;
  const counts = new Array(BARS).fill(0);
  for (const ms of found) counts[Math.min(BARS - 1, Math.floor(((ms - low) / Math.max(1, high - low)) * BARS))] += 1;
  const step = (WIDTH - unread) / BARS;
  const most = Math.max(...counts);
  svg.querySelector("g").replaceChildren(...counts.map((count, at) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const height = count ? Math.max(2, Math.round((count / most) * (HEIGHT - 6))) : 0;
    set(bar, { x: (left + at * step).toFixed(1), y: HEIGHT - height, width: Math.max(1, step - 1).toFixed(1), height });
    return bar;
  }));
  set(svg.querySelector(".unread"), { x: newestFirst ? 0 : WIDTH - unread, width: unread });
  set(svg.querySelector(".front"), { x: newestFirst ? left : WIDTH - unread, width: unread ? 1.5 : 0 });
  return true;
}
