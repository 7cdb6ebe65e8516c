// Why the group was rebalanced last: read from the records of its coordinator, which may take longer than the page.
const place = document.getElementById("last-rebalance");

async function show() {
  const answer = await fetch(`/api/v1${place.dataset.src}?hours=24`);
  if (!answer.ok) return;
  const [last] = (await answer.json()).rebalances;
  if (!last) return;
  place.querySelector("span").textContent = `${new Date(last.timestamp).toLocaleString("sv")}: ${last.why}`;
  place.hidden = false;
}

show().catch(() => {});
