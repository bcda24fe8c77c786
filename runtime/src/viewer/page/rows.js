// The list: only rows in view are elements, all of one height, so that a program of any length scrolls alike.

const HEIGHT = 20;
/** Rows beyond the edges of the view, so that a slow frame shows no gap. */
const BEYOND = 12;

/** Makes an element. Texts are set as texts, so that no name of a program is read as HTML. */
function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** The pieces of a line as elements. `other` has the texts of the line with which it is compared. */
function pieceElements(stage, pieces, other) {
  return pieces.map((piece) => {
    if (piece.value === undefined) {
      const differs = other && piece.text.trim() && !other.has(piece.text) ? " differs" : "";
      return piece.kind || differs ? el("span", { class: `${piece.kind ?? ""}${differs}` }, piece.text) : piece.text;
    }
    const name = stage.valueName(piece.value);
    const differs = other && !other.has(name) ? " differs" : "";
    return el("span", {
      class: (piece.made ? "value made" : "value") + differs,
      "data-name": stage.data.values.name[piece.value], "data-value": piece.value, "data-stage": stage.number,
    }, name);
  });
}

class Rows {
  constructor(box) {
    this.box = box;
    this.content = el("div", { role: "rowgroup", class: "content" });
    box.append(this.content);
    this.shown = new Map();
    this.count = 0;
    this.waiting = false;
    box.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(box);
  }

  /** Shows `count` rows; `row(i)` makes the element of one. */
  show(count, row) {
    this.count = count;
    this.row = row;
    this.content.style.height = `${count * HEIGHT}px`;
    this.box.setAttribute("aria-rowcount", count);
    this.again();
  }

  /** Makes all elements anew. */
  again() {
    this.shown.forEach((element) => element.remove());
    this.shown.clear();
    this.draw();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    if (!this.row) return;
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - BEYOND);
    const end = Math.min(this.count, Math.ceil((this.box.scrollTop + this.box.clientHeight) / HEIGHT) + BEYOND);
    for (const [i, element] of this.shown) {
      if (i < first || i >= end) { element.remove(); this.shown.delete(i); }
    }
    const fresh = document.createDocumentFragment();
    for (let i = first; i < end; i += 1) {
      if (this.shown.has(i)) continue;
      const element = this.row(i);
      element.style.transform = `translateY(${i * HEIGHT}px)`;
      this.shown.set(i, element);
      fresh.append(element);
    }
    this.content.append(fresh);
    this.ondraw?.(first, end);
  }

  /** Replaces the element of one row. */
  redraw(i) {
    if (!this.shown.has(i)) return;
    this.shown.get(i).remove();
    this.shown.delete(i);
    this.draw();
  }

  /** Scrolls so that a row is in view; `far` rows are shown in the middle. */
  reveal(i) {
    const top = i * HEIGHT;
    const { scrollTop, clientHeight } = this.box;
    if (top >= scrollTop && top + HEIGHT <= scrollTop + clientHeight) return;
    const isNear = top >= scrollTop - 2 * HEIGHT && top <= scrollTop + clientHeight + HEIGHT;
    this.box.scrollTop = !isNear ? top - clientHeight / 2 : top < scrollTop ? top : top + HEIGHT - clientHeight;
    this.draw();
  }

  get page() { return Math.max(1, Math.floor(this.box.clientHeight / HEIGHT) - 1); }
}

/** The strip beside the list: changes, and the lines of the lit value. */
function drawRuler(canvas, marks, count, view) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (width === 0 || height === 0) return;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const draw = canvas.getContext("2d");
  draw.scale(scale, scale);
  const colour = (name) => getComputedStyle(root).getPropertyValue(name);
  const each = height / Math.max(count, 1);
  draw.fillStyle = colour("--line");
  draw.fillRect(0, view[0] * each, width, Math.max(4, (view[1] - view[0]) * each));
  for (const [name, left, wide] of [["added", 1, 4], ["removed", 1, 4], ["changed", 1, 4], ["moved", 1, 4], ["lit", 6, 5]]) {
    draw.fillStyle = colour(name === "lit" ? "--accent" : `--${name}-sign`);
    for (const at of marks[name] ?? []) draw.fillRect(left, at * each, wide, Math.max(1.5, each));
  }
}
