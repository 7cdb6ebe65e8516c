// Curves: <figure class="curve" data-series="topic/orders/in" data-labels='["in"]' data-unit="records/s" data-since="2h">
// (several series: joined by a blank). uPlot and its sheet are loaded when the first curve comes into view.

const vendor = new URL("../vendor/uplot-1.6.32/", import.meta.url);
const colours = ["--one", "--two", "--three", "--four"];
const prefixes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function loadPlot() {
  if (!loadPlot.loaded) {
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("uPlot.min.css", vendor) });
    const script = Object.assign(document.createElement("script"), { src: new URL("uPlot.iife.min.js", vendor) });
    loadPlot.loaded = new Promise((resolve, reject) => { script.onload = resolve; script.onerror = reject; });
    document.head.append(sheet, script);
  }
  return loadPlot.loaded;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function short(value) {
  if (value == null) return "–";
  const [size, letter] = prefixes.find(([each]) => Math.abs(value) >= each) ?? [1, ""];
  return `${+(value / size).toPrecision(3)}${letter}`;
}

// 24 hours, and the day where it changes; uPlot's own words are American.
function clock(seconds, withDay) {
  const when = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  const time = `${two(when.getHours())}:${two(when.getMinutes())}`;
  return withDay === "only" ? day : withDay ? `${day} ${time}:${two(when.getSeconds())}` : time;
}

function times(chart, ticks) {
  const long = ticks.length > 1 && ticks[ticks.length - 1] - ticks[0] > 2 * 86400;
  return ticks.map((tick) => clock(tick, long ? "only" : false));
}

function labelsOf(figure) {
  const text = figure.dataset.labels ?? figure.dataset.series;
  return text.startsWith("[") ? JSON.parse(text) : text.split(" ");
}

function note(figure, text) {
  let place = figure.querySelector(".note");
  if (!place) place = figure.appendChild(Object.assign(document.createElement("p"), { className: "note quiet" }));
  place.textContent = text;
  place.hidden = !text;
}

function plot(figure, data) {
  figure.chart?.destroy();
  figure.querySelector(".plot")?.remove();
  const place = figure.appendChild(Object.assign(document.createElement("div"), { className: "plot" }));
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const unit = figure.dataset.unit ?? "";
  const value = (chart, raw) => (raw == null ? "–" : `${short(raw)} ${unit}`);
  const series = labelsOf(figure).map((label, index) => ({ label, value, stroke: colour(colours[index % colours.length]), width: 1.5, points: { show: false } }));
  figure.chart = new uPlot({
    width: Math.max(place.clientWidth, 200), height: 180, legend: { show: true, live: true },
    scales: { y: { range: (chart, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.05] } },
    axes: [{ ...axis, values: times, space: 70, size: 30 }, { ...axis, size: 56, values: (chart, ticks) => ticks.map(short) }],
    series: [{ label: "", value: (chart, raw) => (raw == null ? "–" : clock(raw, true)) }, ...series],
  }, data, place);
}

async function draw(figure, anew) {
  const asked = new URLSearchParams(figure.dataset.series.split(" ").map((name) => ["series", name]));
  if (figure.dataset.since) asked.set("since", figure.dataset.since);
  const answer = await fetch(`/api/v1${document.body.dataset.base}/curves?${asked}`);
  const found = await answer.json();
  if (!answer.ok) return note(figure, found.error);
  const data = [found.times.map((ms) => ms / 1000), ...found.curves];
  if (!found.curves.some((curve) => curve.some((value) => value !== null))) return note(figure, "Nothing was recorded yet.");
  note(figure, "");
  await loadPlot();
  if (figure.chart && !anew) figure.chart.setData(data);
  else plot(figure, data);
}

// Of data that a page has already: times in milliseconds, one list of values for each name.
export async function drawData(figure, times, curves, names) {
  await loadPlot();
  figure.dataset.labels = JSON.stringify(names);
  plot(figure, [times.map((ms) => ms / 1000), ...curves]);
}

export function drawAll() {
  const figures = [...document.querySelectorAll("figure.curve[data-series]")];
  const seen = new Set();
  const all = (anew) => seen.forEach((figure) => draw(figure, anew).catch(() => {}));
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) seen.delete(target);
      else if (!seen.has(target)) { seen.add(target); draw(target, false).catch(() => {}); }
    }
  });
  figures.forEach((figure) => watcher.observe(figure));
  new ResizeObserver(() => figures.forEach((figure) => {
    const place = figure.querySelector(".plot");
    if (figure.chart && place) figure.chart.setSize({ width: Math.max(place.clientWidth, 200), height: 180 });
  })).observe(document.querySelector("main"));
  document.addEventListener("theme", () => all(true));
  document.addEventListener("tick", () => all(false));
}
