// <section id="progress" data-again="3"> is asked for again every three seconds, while the page is seen, until the
// answer has no data-again any more.

async function renew(section) {
  if (document.hidden || section.contains(document.activeElement)) return section;
  const answer = await fetch(location.href);
  if (!answer.ok) return section;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById(section.id);
  if (!fresh) return section;
  section.replaceWith(fresh);
  return fresh;
}

async function follow(section) {
  while (section.dataset.again) {
    await new Promise((resolve) => setTimeout(resolve, section.dataset.again * 1000));
    section = await renew(section).catch(() => section);
  }
}

for (const section of document.querySelectorAll("[data-again][id]")) follow(section);
