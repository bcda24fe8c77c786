// The page: its state, and what keys, clicks and the pointer do to it.

const $ = (id) => document.getElementById(id);
const NARROW = matchMedia("(max-width: 700px)");

const app = {
  left: null, right: null, rows: [], view: [], folded: new Set(["inputs", "results"]), changes: [],
  filter: null, only: false, unified: false, active: 0, side: "right", lit: -1, pinned: -1, opened: null,
  chartSide: "right",

  get oneColumn() { return this.unified || NARROW.matches || !this.left; },
  list(side) { return this[side]?.entries() ?? null; },
  entry(row, side) { return row[side] >= 0 ? this.list(side).items[row[side]] : null; },
  /** The entry of a row that is meant: that of the chosen side, or the only one. */
  meant(row) {
    const other = this.side === "right" ? "left" : "right";
    return this.entry(row, this.oneColumn ? "right" : this.side) ?? this.entry(row, this.oneColumn ? "left" : other);
  },

  /** Shows these stages; the place of the chosen line is kept if it is in both. */
  show(left, right) {
    const kept = this.view[this.active] === undefined ? null : this.meant(this.rows[this.view[this.active]])?.key;
    Object.assign(this, { left, right });
    $("left").value = left ? left.number : "";
    $("right").value = right.number;
    this.rows = compared(this.list("left"), this.list("right"));
    this.places = { left: new Map(), right: new Map() };
    this.rows.forEach((row, i) => {
      if (row.left >= 0) this.places.left.set(row.left, i);
      if (row.right >= 0) this.places.right.set(row.right, i);
    });
    this.layout();
    const row = kept ? this.rows.findIndex((r) => this.entry(r, "right")?.key === kept) : -1;
    if (row >= 0 && this.viewOf.has(row)) this.activate(this.viewOf.get(row)); else this.activate(0);
    this.chart.show(this[this.chartSide] ?? right);
    this.lightAgain();
    if (!this.opened) this.openStage();
  },

  choose(number) { this.show(this.beside(stages[number]), stages[number]); this.openStage(); },

  /** The stage with which a stage is best compared: the trace of a program, or what was there before. */
  beside(stage) {
    if (stage instanceof StepStage) return stage.of;
    return this.left && this.left.number < stage.number ? this.left : stages[stage.number - 1] ?? null;
  },

  /** Finds the rows in view after a change of folds, filters or stages. */
  layout() {
    const needed = { left: new Set(), right: new Set() };
    const hidden = { left: [], right: [] };
    const isFiltered = this.filter !== null || this.only;
    for (const side of ["left", "right"]) {
      const list = this.list(side);
      list?.items.forEach((e, at) => {
        const head = e.parent < 0 ? null : list.items[e.parent];
        hidden[side][at] = head !== null && (hidden[side][e.parent] || this.folded.has(head.key));
      });
    }
    const matches = (row) => {
      if (this.only && row.sign === "same") return false;
      return ["left", "right"].some((side) => {
        const entry = this.entry(row, side);
        return entry && (!this.filter || this.filter(this.list(side).searched(entry), row.sign));
      });
    };
    const chosen = isFiltered ? this.rows.map(matches) : null;
    if (isFiltered) {
      this.rows.forEach((row, i) => {
        if (!chosen[i]) return;
        for (const side of ["left", "right"]) {
          for (let e = this.entry(row, side); e && e.parent >= 0; e = this.list(side).items[e.parent]) needed[side].add(e.parent);
        }
      });
    }
    const isShown = (row, i) => {
      if (isFiltered) return chosen[i] || needed.left.has(row.left) || needed.right.has(row.right);
      return (row.left >= 0 && !hidden.left[row.left]) || (row.right >= 0 && !hidden.right[row.right]);
    };
    this.view = [];
    this.rows.forEach((row, i) => { if (isShown(row, i)) this.view.push(i); });
    this.viewOf = new Map(this.view.map((row, i) => [row, i]));
    this.changes = this.view.flatMap((row, i) => (this.rows[row].sign === "same" ? [] : [i]));
    this.hidden = hidden;
    this.active = Math.min(this.active, Math.max(0, this.view.length - 1));
    const found = isFiltered ? chosen.filter((c, i) => c && this.meant(this.rows[i]).kind !== "head").length : 0;
    $("found").textContent = isFiltered ? plural(found, "line") : "";
    $("count").textContent = this.left ? plural(this.rows.filter((r) => r.sign !== "same").length, "change") : "";
    document.body.classList.toggle("one", this.oneColumn);
    const names = this.oneColumn ? [this.right] : [this.left, this.right];
    $("names").replaceChildren(...names.map((s) => el("div", {}, el("b", {}, s.name), ` ${s instanceof StepStage ? plural(s.count, "step") : plural(s.count, "line")}${this.oneColumn && this.left ? `, compared with ${this.left.name}` : ""}`)));
    $("rows").setAttribute("aria-colcount", this.oneColumn ? 1 : 2);
    this.box.show(this.view.length, (i) => this.row(i));
  },

  row(i) {
    const row = this.rows[this.view[i]];
    const meant = this.meant(row);
    const isHead = meant.kind === "head";
    const element = el("div", {
      role: "row", class: `row ${meant.kind}${i === this.active ? " active" : ""}`, id: `row${i}`, "aria-rowindex": i + 1,
      "aria-level": meant.depth + 1, "aria-selected": i === this.active ? "true" : "false",
      "aria-expanded": isHead ? String(!this.folded.has(meant.key)) : null,
    });
    if (this.oneColumn) {
      const side = row.right >= 0 ? "right" : "left";
      element.append(this.cell(row, side, side === "left" && row.sign === "moved" ? "moved" : row.sign));
    } else {
      element.append(this.cell(row, "left", row.sign), this.cell(row, "right", row.sign));
    }
    return element;
  },

  cell(row, side, sign) {
    const entry = this.entry(row, side);
    if (!entry) return el("div", { role: "gridcell", class: "cell blank", "data-side": side, "aria-label": `${SAID[sign] || "nothing"} on the other side` });
    const list = this.list(side);
    const isOpen = !this.folded.has(entry.key);
    const pieces = entry.kind === "line" ? entry.stage.pieces(entry.line) : entry.pieces;
    const partner = sign === "changed" ? this.entry(row, side === "left" ? "right" : "left") : null;
    const other = partner && entry.kind === "line" ? new Set(partner.stage.pieces(partner.line).map((p) => p.text ?? partner.stage.valueName(p.value))) : null;
    const body = entry.kind === "value"
      ? [...pieceElements(entry.stage, [{ value: entry.value, made: true }, { text: ": ", kind: "colon" }, { text: entry.stage.valueType(entry.value)[0], kind: "type" }]), el("span", { class: "quiet" }, `  ${entry.note}`)]
      : entry.kind === "line" ? pieceElements(entry.stage, pieces, other) : pieceElements(null, pieces);
    const number = entry.kind === "line" ? entry.line + 1 : entry.step !== undefined ? entry.step + 1 : "";
    const [mark, said] = entry.kind === "head" ? ["", ""] : [SIGNS[sign], SAID[sign]];
    return el("div", { role: "gridcell", class: `cell ${entry.kind === "head" ? "" : sign}`, "data-side": side },
      el("span", { class: "sign", "aria-hidden": said ? null : "true" }, mark, said && el("span", { class: "hidden" }, said)),
      el("span", { class: "number" }, String(number)),
      el("span", { class: "code", style: `padding-left:${Math.min(entry.depth, 12) * 14}px` },
        entry.kind === "head" && el("span", { class: "twisty", "aria-hidden": "true" }, isOpen ? "▾" : "▸"), ...body),
      this.remark(list, entry));
  },

  /** The end of a cell: sizes of heads, times of steps, places of lines. */
  remark(list, entry) {
    if (entry.kind === "head" && entry.step !== undefined) {
      const measured = entry.stage.measured(entry.stage.steps[entry.step]);
      if (!measured) return el("span", { class: "remark" }, bytesText(entry.stage.steps[entry.step].bytes));
      const bar = el("span", { class: "bar", "aria-hidden": "true", style: `width:${Math.max(1, Math.round(40 * Math.min(1, measured.share * 4)))}px` });
      return el("span", { class: "remark" }, bar, `${timeText(measured.each)} ${(100 * measured.share).toFixed(1)} %`);
    }
    if (entry.kind === "head" && entry.lines > 0) return el("span", { class: "remark" }, plural(entry.lines, "line"));
    if (entry.kind !== "line") return null;
    const place = text(entry.stage.lines.place[entry.line]);
    return place ? el("span", { class: "remark place" }, place.split("/").at(-1)) : null;
  },

  activate(i, reveal = true) {
    const before = this.active;
    this.active = Math.max(0, Math.min(i, this.view.length - 1));
    if (reveal) this.box.reveal(this.active);
    for (const at of new Set([before, this.active])) this.box.redraw(at);
    $("rows").setAttribute("aria-activedescendant", `row${this.active}`);
  },

  toggle(key) {
    if (this.folded.has(key)) this.folded.delete(key); else this.folded.add(key);
    const row = this.view[this.active];
    this.layout();
    this.activate(this.viewOf.get(row) ?? this.active);
  },

  foldAll() {
    const heads = ["left", "right"].flatMap((side) => this.list(side)?.items.filter((e) => e.kind === "head").map((e) => e.key) ?? []);
    const isFolded = heads.every((key) => this.folded.has(key));
    this.folded = new Set(isFolded ? [] : heads);
    $("fold").textContent = isFolded ? "fold all" : "unfold all";
    this.layout();
    this.activate(0);
  },

  change(direction) {
    const { changes, active } = this;
    if (changes.length === 0) { say("No line in view changed."); return; }
    // neighbouring changes are one: a reader goes from block to block
    const starts = changes.filter((at, i) => i === 0 || changes[i - 1] !== at - 1);
    const next = direction > 0 ? starts.find((at) => at > active) ?? starts[0] : starts.findLast((at) => at < active) ?? starts.at(-1);
    this.activate(next);
    this.open(this.view[next]);
  },

  /** Goes to a line of a stage, or to a step of a program. */
  go(stage, number) {
    const side = this.right === stage ? "right" : this.left === stage ? "left" : null;
    if (!side) { this.show(this.beside(stage), stage); this.go(stage, number); return; }
    this.side = side;
    const list = this.list(side);
    const isStep = stage instanceof StepStage;
    const entry = list.items.find((e) => (isStep ? e.step === number : e.kind === "line" && e.line === number));
    if (!entry) return;
    const row = this.places[side].get(entry.at);
    for (let head = entry.parent; head >= 0; head = list.items[head].parent) this.folded.delete(list.items[head].key);
    if (this.filter || this.only) this.unfilter();
    this.layout();
    this.activate(this.viewOf.get(row));
    this.open(row);
  },

  unfilter() {
    $("filter").value = "";
    this.filter = null;
    this.only = false;
    $("only").setAttribute("aria-pressed", "false");
  },

  open(row) {
    const entry = this.meant(this.rows[row]);
    const { left } = this.rows[row];
    this.chart.follow(entry);
    const before = this.rows[row].sign === "changed" && left >= 0 ? this.list("left").plain(this.list("left").items[left]) : null;
    if (entry.kind === "line") this.panel(lineDetails(entry.stage, entry.line, before));
    else if (entry.kind === "value") this.panel(valueDetails(entry.stage, entry.value, entry.note));
    else if (entry.step !== undefined) this.panel(stepDetails(entry.stage, entry.step));
  },
  openValue(stage, value) {
    this.pin(stage.data.values.name[value]);
    this.panel(valueDetails(stage, value));
  },
  openStage() {
    this.opened = null;
    this.fill(stageDetails(this.right, this.rows));
    document.body.classList.remove("opened");
  },
  panel(content) {
    this.opened = true;
    this.fill([el("button", { class: "close", "aria-label": "Close the details", onclick: () => this.openStage() }, "✕"), ...content]);
    document.body.classList.add("opened");
  },
  fill(content) {
    $("details").replaceChildren(...content.filter(Boolean));
    $("details").scrollTop = 0;
  },

  /** Lights all appearances of a value: one rule of style serves rows that are made later, too. */
  light(name) {
    if (this.lit === name) return;
    this.lit = name;
    litRule.textContent = name < 0 ? "" : `[data-name="${name}"] { background: var(--lit) !important; color: var(--lit-text) !important; outline: 1px solid var(--accent); } .made[data-name="${name}"] { text-decoration: underline 2px; }`;
    this.ruler();
  },
  lightAgain() { const { lit } = this; this.lit = -2; this.light(lit); },
  pin(name) { this.pinned = name; this.light(name); },

  /** Lights the next value of the active line. */
  nextValue(direction) {
    const entry = this.meant(this.rows[this.view[this.active]]);
    if (entry.kind !== "line") return;
    const values = entry.stage.pieces(entry.line).filter((p) => p.value !== undefined);
    const at = values.findIndex((p) => entry.stage.data.values.name[p.value] === this.pinned);
    const next = values[(at + direction + values.length) % values.length] ?? values[0];
    if (!next) return;
    this.pin(entry.stage.data.values.name[next.value]);
    say(tipText(entry.stage, next.value));
    const element = this.box.shown.get(this.active)?.querySelector(`[data-name="${this.pinned}"]`);
    if (element) showTip(element);
  },

  ruler() {
    const marks = { added: [], removed: [], changed: [], moved: [], lit: [] };
    for (const i of this.changes) marks[this.rows[this.view[i]].sign].push(i);
    if (this.lit >= 0) {
      for (const side of ["left", "right"]) {
        const stage = this[side] instanceof StepStage ? this[side].of : this[side];
        const value = stage instanceof TraceStage ? stage.byName.get(this.lit) : undefined;
        if (value === undefined) continue;
        const lines = new Set([stage.data.values.made[value], ...stage.readers[value]]);
        this.list(side).items.forEach((e) => {
          if (e.kind === "line" && lines.has(e.line) && this.viewOf.has(this.places[side].get(e.at))) marks.lit.push(this.viewOf.get(this.places[side].get(e.at)));
        });
      }
    }
    const first = $("rows").scrollTop / HEIGHT;
    drawRuler($("ruler"), marks, this.view.length, [first, first + $("rows").clientHeight / HEIGHT]);
  },
};

const litRule = document.head.appendChild(el("style"));
const say = (message) => { $("said").textContent = message; };

function tipText(stage, value) {
  const [type, size] = stage.valueType(value);
  return `${stage.valueName(value)}: ${type}, ${bytesText(size)}; ${stage.lifetime(value)}; read by ${plural(stage.readers[value].length, "line")}`;
}

function showTip(element) {
  const stage = stages[Number(element.dataset.stage)];
  const value = Number(element.dataset.value);
  const [type, size] = stage.valueType(value);
  const tip = $("tip");
  tip.replaceChildren(el("b", {}, stage.valueName(value)), " ", el("span", { class: "type" }, type), el("br"),
    `${bytesText(size)} · ${stage.lifetime(value)}`, el("br"), `read by ${plural(stage.readers[value].length, "line")} of ${stage.name}`);
  tip.hidden = false;
  const at = element.getBoundingClientRect();
  const box = tip.getBoundingClientRect();
  const below = at.bottom + 6 + box.height < innerHeight;
  tip.style.left = `${Math.max(4, Math.min(at.left, innerWidth - box.width - 8))}px`;
  tip.style.top = `${below ? at.bottom + 6 : at.top - box.height - 6}px`;
}
const hideTip = () => { $("tip").hidden = true; };

app.box = new Rows($("rows"));
app.chart = new Chart($("chart"), (stage, number) => app.go(stage, number));
let rulerWaits = false;
app.box.ondraw = () => {
  if (rulerWaits) return;
  rulerWaits = true;
  requestAnimationFrame(() => { rulerWaits = false; app.ruler(); });
};

$("title").textContent = doc.title;
if (doc.error) { $("error").hidden = false; $("error").textContent = doc.error; }
for (const side of ["left", "right"]) {
  const options = stages.map((s) => el("option", { value: String(s.number) }, `${s.number + 1} ${s.name}`));
  if (side === "left") options.unshift(el("option", { value: "" }, "nothing"));
  $(side).replaceChildren(...options);
  $(side).addEventListener("change", () => {
    app.opened = null;
    app.show($("left").value === "" ? null : stages[Number($("left").value)], stages[Number($("right").value)]);
    app.openStage();
  });
}
$("swap").addEventListener("click", () => { if (app.left) app.show(app.right, app.left); });

const pointed = (event) => event.target.closest?.("[data-value]");
document.addEventListener("pointerover", (event) => {
  const element = pointed(event);
  if (element) { app.light(Number(element.dataset.name)); showTip(element); } else { app.light(app.pinned); hideTip(); }
});
$("rows").addEventListener("scroll", hideTip, { passive: true });
$("rows").addEventListener("click", (event) => {
  const element = event.target.closest(".row");
  if (!element) return;
  const i = Number(element.id.slice(3));
  app.side = event.target.closest(".cell")?.dataset.side ?? app.side;
  const entry = app.meant(app.rows[app.view[i]]);
  const value = pointed(event);
  app.activate(i, false);
  if (value) app.pin(app.pinned === Number(value.dataset.name) ? -1 : Number(value.dataset.name));
  if (entry.kind === "head" && (entry.step === undefined || event.target.closest(".twisty"))) app.toggle(entry.key);
  else app.open(app.view[i]);
});
$("details").addEventListener("click", (event) => {
  const value = pointed(event);
  if (value) app.openValue(stages[Number(value.dataset.stage)], Number(value.dataset.value));
});
$("ruler").addEventListener("click", (event) => {
  app.activate(Math.floor((event.offsetY / $("ruler").clientHeight) * app.view.length));
});

function applyFilter() {
  app.filter = parsedFilter($("filter").value);
  app.layout();
  app.activate(0);
}
let typing = 0;
$("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(applyFilter, 60);
});
$("filter").addEventListener("keydown", (event) => {
  if (event.key === "Escape") { app.unfilter(); app.layout(); $("rows").focus(); event.stopPropagation(); }
  if (event.key === "Enter" || event.key === "ArrowDown") { $("rows").focus(); event.preventDefault(); }
});
$("previous").addEventListener("click", () => app.change(-1));
$("next").addEventListener("click", () => app.change(1));
$("only").addEventListener("click", () => {
  app.only = !app.only;
  $("only").setAttribute("aria-pressed", String(app.only));
  app.layout();
  app.activate(0);
});
$("fold").addEventListener("click", () => app.foldAll());
$("unified").addEventListener("click", () => {
  app.unified = !app.unified;
  $("unified").setAttribute("aria-pressed", String(app.unified));
  app.layout();
  app.activate(app.active);
});
$("types").addEventListener("click", () => {
  const isHidden = document.body.classList.toggle("no-types");
  $("types").setAttribute("aria-pressed", String(!isHidden));
});
$("help").addEventListener("click", () => $("keys").showModal());
NARROW.addEventListener("change", () => { app.layout(); app.activate(app.active); });
new ResizeObserver(() => app.ruler()).observe($("rows"));
document.getElementById("theme").addEventListener("click", () => app.ruler());

/** Keys that serve anywhere but in a field of text. */
const KEYS = {
  "/": () => { $("filter").focus(); $("filter").select(); },
  "?": () => $("keys").showModal(),
  n: () => app.change(1), "]": () => app.change(1), p: () => app.change(-1), "[": () => app.change(-1),
  c: () => $("only").click(), z: () => app.foldAll(), u: () => $("unified").click(),
  t: () => $("types").click(),
  s: () => { app.chartSide = app.chartSide === "right" ? "left" : "right"; app.chart.show(app[app.chartSide] ?? app.right); },
  d: () => {
    const stage = app.right instanceof StepStage ? app.right.of : app.right;
    const value = stage instanceof TraceStage ? stage.byName.get(app.pinned) : undefined;
    if (value !== undefined && stage.data.values.made[value] >= 0) app.go(stage, stage.data.values.made[value]);
  },
  Escape: () => { hideTip(); app.pin(-1); app.openStage(); $("rows").focus(); },
};
/** Keys that serve in the list. */
const MOVES = {
  ArrowDown: () => app.activate(app.active + 1), j: () => app.activate(app.active + 1),
  ArrowUp: () => app.activate(app.active - 1), k: () => app.activate(app.active - 1),
  PageDown: () => app.activate(app.active + app.box.page), PageUp: () => app.activate(app.active - app.box.page),
  Home: () => app.activate(0), End: () => app.activate(app.view.length - 1),
  ArrowRight: () => sideways(1), ArrowLeft: () => sideways(-1),
  Enter: () => {
    const entry = app.meant(app.rows[app.view[app.active]]);
    if (entry.kind === "head" && entry.step === undefined) app.toggle(entry.key); else app.open(app.view[app.active]);
  },
};
function sideways(direction) {
  const entry = app.meant(app.rows[app.view[app.active]]);
  if (entry.kind !== "head") { app.nextValue(direction); return; }
  if (app.folded.has(entry.key) === (direction > 0)) app.toggle(entry.key);
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const inList = event.target === $("rows") || event.target === document.body;
  const action = KEYS[event.key] ?? (inList && app.view.length > 0 ? MOVES[event.key] : undefined);
  if (!action) return;
  event.preventDefault();
  action();
});

// At first the last trace stands beside the one before it: that is the compiler's last work on lines.
const traced = stages.filter((s) => !(s instanceof StepStage));
app.show(traced.at(-2) ?? null, traced.at(-1) ?? stages.at(-1));
// The texts in which a filter looks are made while a reader reads, so that the first filter of a long program is fast.
function prepare(lists, from = 0) {
  const [list, ...rest] = lists;
  if (!list) return;
  requestIdleCallback((idle) => {
    let at = from;
    while (at < list.items.length && idle.timeRemaining() > 2) { list.searched(list.items[at]); at += 1; }
    if (at < list.items.length) prepare(lists, at); else prepare(rest);
  });
}
if (globalThis.requestIdleCallback) prepare([app.list("right"), app.list("left")].filter(Boolean));
// for tests of the page, and for readers at the console
globalThis.fulgurite = { app, applyFilter, doc, stages };
