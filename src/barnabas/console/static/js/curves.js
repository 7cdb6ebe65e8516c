// Curves: <figure class="curve" data-series="topic/orders/in" data-title="..." data-unit="records/s"> (several: joined by a blank).
// uPlot is loaded when the first curve is drawn; its own sheet comes with it.

const vendor = new URL("../vendor/uplot-1.6.32/", import.meta.url);
const colours = ["--one", "--two", "--three", "--four"];

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

function plot(figure, data, names) {
  figure.querySelector(".plot")?.remove();
  const place = figure.appendChild(Object.assign(document.createElement("div"), { className: "plot" }));
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const series = names.map((label, index) => ({ label, stroke: colour(colours[index % colours.length]), width: 1.5 }));
  figure.chart?.destroy();
  figure.chart = new uPlot({
    width: Math.max(place.clientWidth, 200), height: 180, legend: { show: names.length > 1 },
    axes: [axis, { ...axis, size: 60 }], series: [{}, ...series],
  }, data, place);
}

async function draw(figure) {
  const names = figure.dataset.series.split(" ");
  const asked = new URLSearchParams(names.map((name) => ["series", name]));
  if (figure.dataset.since) asked.set("since", figure.dataset.since);
  const answer = await fetch(`/api/v1${document.body.dataset.base}/curves?${asked}`);
  if (!answer.ok) return;
  const { times, curves } = await answer.json();
  await loadPlot();
  plot(figure, [times.map((ms) => ms / 1000), ...curves], (figure.dataset.labels ?? figure.dataset.series).split(" "));
}

export function drawAll() {
  const figures = [...document.querySelectorAll("figure.curve[data-series]")];
  const all = () => figures.forEach((figure) => draw(figure));
  all();
  document.addEventListener("theme", all);
  document.addEventListener("tick", all);
}
