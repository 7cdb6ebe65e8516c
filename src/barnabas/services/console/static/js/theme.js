// Before the page is drawn: the theme that was chosen, if one was.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* storage is switched off: the system's theme will do */ }
