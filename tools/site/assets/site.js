"use strict";
// The search, the filter of the list of operators, the menu and the colours. No page needs this script to be read.

const byId = (id) => document.getElementById(id);

// ---- colours

const stored = (() => {
  // a page that was opened from a folder may have no storage
  try { return window.localStorage; } catch { return null; }
})();

function show(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}
show(stored?.getItem("theme"));

byId("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  show(next);
  stored?.setItem("theme", next);
});

// ---- menu of narrow pages

byId("menu").addEventListener("click", () => {
  const open = byId("nav").classList.toggle("open");
  byId("menu").setAttribute("aria-expanded", String(open));
});

// ---- search

const MOST = 30;

// The number of edits between two words, at most `limit + 1`.
function edits(a, b, limit) {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let before = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = before[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(change, before[j] + 1, row[j - 1] + 1));
    }
    before = row;
  }
  return before[b.length];
}

const slug = (property) => property.replaceAll(" ", "-");

// The score of a word that is only near: it counts where nothing is nearer.
const NEAR = 10;

// How well an entry answers one word: 0 is not at all. The text is that of a section of the book.
function answers(entry, text, word) {
  if (word.startsWith("is:")) {
    const wanted = word.slice(3);
    return entry.p.some((p) => slug(p).startsWith(wanted)) ? NEAR + 1 : 0;
  }
  const name = entry.n.toLowerCase();
  const last = name.split(".").pop();
  if (name === word || last === word) return name === word ? 100 : 90;
  // a library's name is known by its last part: `torch.addmm` is `aten.addmm(…)` too
  const bareWord = word.split(".").pop();
  let best = last === bareWord ? 75 : 0;
  for (const other of entry.a) {
    const bare = other.toLowerCase().split("(")[0];
    const parts = bare.split(".");
    if (bare === word || parts.slice(1).join(".") === word) best = Math.max(best, 80);
    else if (parts.includes(bareWord)) best = Math.max(best, 70);
    else if (bare.startsWith(word)) best = Math.max(best, 50);
    else if (bare.includes(word)) best = Math.max(best, 30);
  }
  if (name.startsWith(word)) best = Math.max(best, 60 - Math.min(name.length - word.length, 20));
  else if (name.includes(word)) best = Math.max(best, 35);
  if (best) return best;
  const says = entry.d.toLowerCase();
  if (says.split(/[^a-z0-9]+/).includes(word)) return 25;
  if (says.includes(word)) return 15;
  if (word.length > 2 && text.includes(word)) return NEAR + 1;
  if (word.length > 3 && edits(last, word, 2) <= (word.length > 5 ? 2 : 1)) return NEAR;
  // `cumulative` is shortened to `cum` in a name
  if (word.length > 6 && last.startsWith(word.slice(0, 3))) return NEAR;
  return 0;
}

// The entries that answer every word, the best first; if there is none, those that answer the most words.
function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const scored = [];
  let most = 1;
  for (const [i, entry] of (window.INDEX ?? []).entries()) {
    const text = window.TEXTS?.[i] ?? "";
    const scores = words.map((word) => answers(entry, text, word));
    const met = scores.filter(Boolean).length;
    if (met < most) continue;
    most = met;
    const sum = scores.reduce((a, b) => a + b, 0);
    // operators are looked for most often, and those of the first database before others
    scored.push({ met, sum, entry, length: text.length, rank: sum + (entry.k === "operator" ? 3 : 0) + (entry.m ? 3 : 0) });
  }
  let best = scored.filter(({ met }) => met === most);
  const clear = best.filter(({ sum }) => sum > NEAR * most);
  if (clear.length) best = clear;
  // a word says more about a short section than about a long one
  best.sort((a, b) => b.rank - a.rank || a.length - b.length || a.entry.n.length - b.entry.n.length || (a.entry.n < b.entry.n ? -1 : 1));
  return best.map(({ entry }) => entry);
}

const query = byId("query");
const found = byId("found");
let chosen = -1;

function close() {
  found.hidden = true;
  query.setAttribute("aria-expanded", "false");
  query.removeAttribute("aria-activedescendant");
  chosen = -1;
}

function choose(next) {
  const links = [...found.querySelectorAll("a")];
  if (!links.length) return;
  chosen = (next + links.length) % links.length;
  links.forEach((link, i) => link.setAttribute("aria-selected", String(i === chosen)));
  query.setAttribute("aria-activedescendant", links[chosen].id);
  links[chosen].scrollIntoView({ block: "nearest" });
}

function list() {
  const all = find(query.value);
  found.replaceChildren();
  if (!query.value.trim()) return close();
  all.slice(0, MOST).forEach((entry, i) => {
    const link = document.createElement("a");
    link.href = window.ROOT + entry.u;
    link.id = `found-${i}`;
    link.setAttribute("role", "option");
    link.setAttribute("aria-selected", "false");
    const name = document.createElement("strong");
    name.textContent = entry.n;
    const what = document.createElement("span");
    what.className = "what";
    what.textContent = entry.k === "operator" ? entry.p.slice(0, 3).join(", ") : entry.k;
    link.append(name, what);
    const says = document.createElement("span");
    says.className = "says";
    says.textContent = entry.d;
    link.append(says);
    found.append(link);
  });
  if (!all.length) {
    const none = document.createElement("p");
    none.textContent = "Nothing has these words.";
    found.append(none);
  }
  found.hidden = false;
  query.setAttribute("aria-expanded", "true");
  if (all.length) choose(0);
}

// The words of the book are loaded at the first question; until they are there, names and sentences answer.
function loadTexts() {
  if (byId("texts")) return;
  const script = document.createElement("script");
  script.id = "texts";
  script.src = `${window.ROOT}assets/texts.js`;
  script.addEventListener("load", () => { if (!found.hidden) list(); });
  document.head.append(script);
}

query.addEventListener("input", list);
query.addEventListener("focus", loadTexts);
query.addEventListener("focus", () => { if (query.value) list(); });
query.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Escape") { close(); return; }
  else return;
  event.preventDefault();
});
byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelectorAll("a")[Math.max(chosen, 0)]?.click();
});
document.addEventListener("click", (event) => { if (!byId("search").contains(event.target)) close(); });
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    query.focus();
    query.select();
  }
});

// ---- filter of the list of operators

const table = byId("list");
if (table) {
  const input = byId("narrow");
  const chips = [...document.querySelectorAll("button[data-filter]")];
  const rows = [...table.tBodies[0].rows].map((row) => ({
    row,
    text: `${row.cells[0].textContent} ${row.cells[1].textContent} ${row.dataset.names}`.toLowerCase(),
    is: row.dataset.is.trim().split(" "),
  }));
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text, is } of rows) {
      const fits = words.every((word) => word.startsWith("is:") ? is.includes(word.slice(3)) : text.includes(word));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    byId("shown").textContent = `${shown} of ${rows.length} operators`;
    chips.forEach((chip) => chip.setAttribute("aria-pressed", String(words.includes(chip.dataset.filter))));
  };
  chips.forEach((chip) => chip.addEventListener("click", () => {
    const words = input.value.split(/\s+/).filter(Boolean);
    const filter = chip.dataset.filter;
    input.value = (words.includes(filter) ? words.filter((word) => word !== filter) : [...words, filter]).join(" ");
    apply();
  }));
  input.addEventListener("input", apply);
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  apply();
}
