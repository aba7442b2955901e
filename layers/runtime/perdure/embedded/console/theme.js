// Runs before anything is drawn, as a script of its own and no module: the theme that was chosen, so that nothing flashes.
try {
  const chosen = localStorage.getItem("perdure.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing shows what the system says.
}
