// Charts: <figure class="curve" data-series="topic/orders/in" data-labels='["in"]' data-unit="records/s" data-since="2h">
// (several series: joined by a blank; data-limit draws a dashed line). uPlot and its sheet are loaded when the first chart comes
// into view. Units "s" and "B" are written as durations and sizes.
import { clockText, dayText } from "./times.js";

const vendor = new URL("../vendor/uplot-1.6.32/", import.meta.url);
const prefixes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const HEIGHT = 176;
const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000];

function loadPlot() {
  if (!loadPlot.loaded) {
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("uPlot.min.css", vendor) });
    const script = Object.assign(document.createElement("script"), { src: new URL("uPlot.iife.min.js", vendor) });
    loadPlot.loaded = new Promise((resolve, reject) => { script.onload = resolve; script.onerror = reject; });
    document.head.append(sheet, script);
  }
  return loadPlot.loaded;
}

// A token in the theme of now: light-dark() is resolved by an element that has it as its colour.
function colour(name) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const faded = (rgb, share) => rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${share})`);

function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([length]) => seconds >= length);
  if (at < 0 || at === 3) return `${+seconds.toPrecision(2)} s`;
  const rest = Math.floor((seconds % parts[at][0]) / parts[at + 1][0]);
  return `${Math.floor(seconds / parts[at][0])} ${parts[at][1]}${rest ? ` ${rest} ${parts[at + 1][1]}` : ""}`;
}

function short(value) {
  const [size, letter] = prefixes.find(([each]) => Math.abs(value) >= each) ?? [1, ""];
  return [`${+(value / size).toPrecision(3)}`, letter];
}

function written(value, unit) {
  if (value == null) return "–";
  if (unit === "s") return duration(value);
  const [digits, letter] = short(value);
  if (unit === "B" || unit === "bytes") return `${digits} ${letter === "k" ? "K" : letter}B`;
  const grouped = letter === "k" && value < 1e5 ? Math.round(value).toLocaleString("en-US") : digits + letter;
  return unit === "records/s" || unit === "rows/s" ? `${grouped}/s` : unit ? `${grouped} ${unit}` : grouped;
}

const two = (number) => String(number).padStart(2, "0");
const clock = (seconds) => clockText(seconds).slice(0, 2).map(two).join(":");

function times(chart, ticks) {
  const long = ticks.length > 1 && ticks[ticks.length - 1] - ticks[0] > 2 * 86400;
  const brief = ticks.length > 1 && ticks[1] - ticks[0] < 60;
  return ticks.map(long ? dayText : brief ? (seconds) => clockText(seconds).map(two).join(":") : clock);
}

function labelsOf(figure) {
  const text = figure.dataset.labels ?? figure.dataset.series;
  return text.startsWith("[") ? JSON.parse(text) : text.split(" ");
}

function note(figure, text) {
  let place = figure.querySelector(".note");
  if (!place) place = figure.appendChild(Object.assign(document.createElement("p"), { className: "note" }));
  place.textContent = text;
  place.hidden = !text;
}

// Title, the newest value, and names if there are several lines.
function caption(figure, data, strokes) {
  const place = figure.querySelector("figcaption");
  const labels = labelsOf(figure);
  place.querySelectorAll(".now, .legend").forEach((each) => each.remove());
  const newest = data.slice(1).map((curve) => curve.findLast((value) => value != null)).filter((value) => value != null);
  const now = labels.length > 1 && figure.dataset.worst !== undefined ? Math.max(...newest) : newest[0];
  const text = written(now, figure.dataset.unit);
  place.append(Object.assign(document.createElement("span"), { className: "now", textContent: text }));
  figure.querySelector(".plot")?.setAttribute("aria-label", `${place.firstChild.textContent.trim()}, now ${text}`);
  if (labels.length < 2) return;
  const legend = place.appendChild(Object.assign(document.createElement("span"), { className: "legend" }));
  labels.forEach((label, index) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 10 3");
    svg.append(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
    for (const [key, value] of Object.entries({ width: 10, height: 3, rx: 1.5, fill: strokes[index] })) svg.firstChild.setAttribute(key, value);
    const item = legend.appendChild(document.createElement("span"));
    item.append(svg, label);
  });
}

function area(stroke) {
  return (chart) => {
    const { top, height } = chart.bbox;
    const fill = chart.ctx.createLinearGradient(0, top, 0, top + height);
    fill.addColorStop(0, faded(stroke, 0.26));
    fill.addColorStop(1, faded(stroke, 0.02));
    return fill;
  };
}

function limitLine(figure) {
  const at = Number(figure.dataset.limit);
  const bad = colour("--bad");
  return (chart) => {
    if (!at || at > chart.scales.y.max) return;
    const { ctx, bbox } = chart;
    const y = chart.valToPos(at, "y", true);
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = bad;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `${11 * devicePixelRatio}px Plex, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.fillText(figure.dataset.limitWords, bbox.left + 6 * devicePixelRatio, y - 5 * devicePixelRatio);
    ctx.restore();
  };
}

function lastDots(strokes, ground) {
  return (chart) => {
    chart.series.slice(1).forEach((_, index) => {
      const curve = chart.data[index + 1];
      const at = curve.findLastIndex((value) => value != null);
      if (at < 0) return;
      const { ctx } = chart;
      ctx.save();
      ctx.beginPath();
      ctx.arc(chart.valToPos(chart.data[0][at], "x", true), chart.valToPos(curve[at], "y", true), 3.5 * devicePixelRatio, 0, 7);
      ctx.fillStyle = strokes[index];
      ctx.strokeStyle = ground;
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.fill();
      ctx.stroke();
      ctx.restore();
    });
  };
}

function tooltip(figure) {
  const tip = Object.assign(document.createElement("div"), { className: "curve-tip", hidden: true });
  const unit = figure.dataset.unit ?? "";
  figure.append(tip);
  return (chart) => {
    const { left, idx } = chart.cursor;
    tip.hidden = idx == null || left < 0;
    if (tip.hidden) return;
    const lines = labelsOf(figure).map((label, index) => `${label} ${written(chart.data[index + 1][idx], unit)}`);
    tip.innerText = [clockText(chart.data[0][idx]).map(two).join(":"), ...lines].join("\n");
    tip.style.top = "44px";
    tip.style.left = `${Math.min(left + 70, figure.clientWidth - tip.offsetWidth - 8)}px`;
  };
}

function plot(figure, data) {
  figure.chart?.destroy();
  figure.querySelectorAll(".plot, .curve-tip").forEach((each) => each.remove());
  const place = figure.appendChild(Object.assign(document.createElement("div"), { className: "plot", role: "img" }));
  const unit = figure.dataset.unit ?? "";
  const axis = { stroke: colour("--text2"), font: "11px Plex, sans-serif", ticks: { show: false } };
  const strokes = labelsOf(figure).map((_, index) => colour(`--c${(index % 6) + 1}`));
  const series = strokes.map((stroke, index) => ({ stroke, width: 1.75, points: { show: false }, ...(index ? {} : { fill: area(stroke) }) }));
  const limit = Number(figure.dataset.limit) || 0;
  figure.chart = new uPlot({
    width: Math.max(place.clientWidth, 200), height: HEIGHT, legend: { show: false }, padding: [6, 24, 0, 0],
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    scales: { y: { range: (chart, low, high) => [Math.min(0, low ?? 0), (Math.max(high ?? 0, high > limit / 3 ? limit : 0) || 1) * 1.08] } },
    axes: [
      { ...axis, grid: { show: false }, values: times, space: 90, size: 28, gap: 8 },
      { ...axis, size: 62, gap: 6, space: 36, ...(unit === "s" ? { incrs: steps } : {}), grid: { stroke: colour("--grid"), width: 1 }, values: (chart, ticks) => ticks.map((tick) => (unit === "s" ? written(tick, unit) : short(tick).join(""))) },
    ],
    series: [{}, ...series],
    hooks: { draw: [limitLine(figure), lastDots(strokes, colour("--surface"))], setCursor: [tooltip(figure)] },
  }, data, place);
  caption(figure, data, strokes);
}

// The axis begins with the first sample.
function trimmed(data) {
  const first = data[0].findIndex((_, at) => data.slice(1).some((curve) => curve[at] != null));
  return first > 0 ? data.map((curve) => curve.slice(Math.max(0, first - 1))) : data;
}

async function draw(figure, anew) {
  if (!figure.chart && !figure.querySelector(".note")) note(figure, "Loading");
  const asked = new URLSearchParams(figure.dataset.series.split(" ").map((name) => ["series", name]));
  if (figure.dataset.since) asked.set("since", figure.dataset.since);
  const answer = await fetch(`/api/v1${document.body.dataset.base}/curves?${asked}`);
  const found = await answer.json();
  if (!answer.ok) return note(figure, found.error);
  const data = trimmed([found.times.map((ms) => ms / 1000), ...found.curves]);
  if (!found.curves.some((curve) => curve.some((value) => value !== null))) return note(figure, "Nothing recorded yet");
  note(figure, "");
  await loadPlot();
  if (figure.chart && !anew) {
    figure.chart.setData(data);
    caption(figure, data, labelsOf(figure).map((_, index) => colour(`--c${(index % 6) + 1}`)));
  } else plot(figure, data);
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
  new ResizeObserver(() => document.querySelectorAll("figure.curve").forEach((figure) => {
    const place = figure.querySelector(".plot");
    if (figure.chart && place) figure.chart.setSize({ width: Math.max(place.clientWidth, 200), height: HEIGHT });
  })).observe(document.querySelector("main"));
  document.addEventListener("theme", () => all(true));
  document.addEventListener("tick", () => all(false));
}
