// The choice between dark and light: as the system says, until a reader chooses. A page that is opened as a file may
// have no storage, so a choice that cannot be kept is forgotten.
const THEME = "fulgurite.theme";
const root = document.documentElement;

function stored(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function chooseTheme(theme) {
  root.dataset.theme = theme;
  try { localStorage.setItem(THEME, theme); } catch { /* see above */ }
  nameTheme();
}

function nameTheme() {
  const button = document.getElementById("theme");
  if (!button) return;
  button.textContent = isDark() ? "☀" : "☾";
  const label = isDark() ? "Light colours" : "Dark colours";
  button.setAttribute("aria-label", label);
  button.title = label;
}

if (["dark", "light"].includes(stored(THEME))) root.dataset.theme = stored(THEME);
document.getElementById("theme")?.addEventListener("click", () => chooseTheme(isDark() ? "light" : "dark"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
nameTheme();
