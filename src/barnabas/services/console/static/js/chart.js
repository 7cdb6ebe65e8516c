// Curves of the report: the data is the page's own JSON.
import { drawData } from "./curves.js";

const figures = [...document.querySelectorAll("figure.curve[data-field]")];
if (figures.length) {
  const answer = await fetch(`/api/v1${location.pathname}${location.search}`);
  const page = answer.ok ? await answer.json() : { curves: [] };
  const all = () => figures.forEach((figure) => {
    const curve = page.curves.find((each) => each.field === figure.dataset.field);
    if (curve) drawData(figure, page.times, [curve.values], [curve.field]);
  });
  all();
  document.addEventListener("theme", all);
}
