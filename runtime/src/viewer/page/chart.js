// The chart below the list: live memory from line to line, or the times of steps. It is also a slider, whose value is a
// line, so that it can be read and used by keyboard.

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

class Chart {
  constructor(box, go) {
    Object.assign(this, { box, go, at: 0 });
    this.head = el("div", { class: "chart-head" });
    this.area = el("div", { class: "chart-area", role: "slider", tabindex: "0", "aria-valuemin": "1" });
    box.append(this.head, this.area);
    this.area.addEventListener("pointermove", (e) => this.move(this.under(e)));
    this.area.addEventListener("pointerleave", () => this.move(this.chosen ?? this.series?.peak ?? 0));
    this.area.addEventListener("click", (e) => { this.chosen = this.under(e); this.go(this.stage, this.chosen); });
    this.area.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.draw()).observe(this.area);
  }

  show(stage) {
    this.stage = stage;
    this.series = stage.series();
    this.chosen = undefined;
    this.box.hidden = !this.series || this.series.values.length === 0;
    if (this.box.hidden) return;
    const { series } = this;
    const most = series.values[series.peak] ?? 0;
    const peak = el("button", { class: "link", onclick: () => this.go(stage, series.peak) }, `peak ${series.unit(most)} at ${series.of} ${series.peak + 1}`);
    this.now = el("span", { class: "chart-now" });
    this.head.replaceChildren(el("h2", {}, `${series.title} of `, el("code", {}, stage.name)), peak, this.now);
    this.area.setAttribute("aria-label", `${series.title} of ${stage.name}, by ${series.of}`);
    this.area.setAttribute("aria-valuemax", series.values.length);
    this.draw();
    this.move(series.peak);
  }

  under(event) {
    const box = this.area.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT);
    const { length } = this.series.values;
    return Math.min(length - 1, Math.max(0, Math.floor(share * length)));
  }

  key(event) {
    const { length } = this.series.values;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: Math.ceil(length / 20), PageDown: -Math.ceil(length / 20) };
    if (event.key in steps) this.chosen = Math.min(length - 1, Math.max(0, this.at + steps[event.key]));
    else if (event.key === "Home") this.chosen = 0;
    else if (event.key === "End") this.chosen = length - 1;
    else if (event.key === "Enter") { this.go(this.stage, this.at); return; }
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.move(this.chosen);
  }

  /** Puts the cursor at the line or step that a reader has chosen, if it is one of this chart. */
  follow(entry) {
    const at = this.stage instanceof StepStage ? entry.step : entry.stage === this.stage ? entry.line : undefined;
    if (at === undefined || !this.series) return;
    this.chosen = at;
    this.move(at);
  }

  /** Puts the cursor at a line. */
  move(at) {
    if (!this.series || at >= this.series.values.length) return;
    this.at = at;
    const { series, stage } = this;
    const what = stage instanceof StepStage ? stage.steps[at].what : stage.plain(at).slice(0, 90);
    const said = `${series.of} ${at + 1}: ${series.unit(series.values[at])}`;
    this.now.replaceChildren(said, el("code", {}, `  ${what}`));
    this.area.setAttribute("aria-valuenow", at + 1);
    this.area.setAttribute("aria-valuetext", `${said}, ${what}`);
    if (!this.cursor) return;
    const x = this.x(at + 0.5);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
  }

  x(at) { return LEFT + (at / Math.max(1, this.series.values.length)) * (this.area.clientWidth - LEFT - RIGHT); }

  draw() {
    if (!this.series || this.box.hidden) return;
    const [width, height] = [this.area.clientWidth, this.area.clientHeight];
    if (width < LEFT + RIGHT + 10) return;
    const { values, unit, peak } = this.series;
    const most = Math.max(values[peak], 1e-12);
    const [top, bottom] = [10, height - 16];
    const y = (value) => bottom - (value / most) * (bottom - top);
    // at most one point for each pixel: the largest value that falls on it
    const pixels = Math.min(values.length, Math.floor(width - LEFT - RIGHT));
    let path = `M${LEFT} ${bottom}`;
    for (let i = 0; i < pixels; i += 1) {
      const from = Math.floor((i * values.length) / pixels);
      const end = Math.max(from + 1, Math.floor(((i + 1) * values.length) / pixels));
      let value = 0;
      for (let k = from; k < end; k += 1) value = Math.max(value, values[k]);
      path += `L${this.x(from).toFixed(1)} ${y(value).toFixed(1)}L${this.x(end).toFixed(1)} ${y(value).toFixed(1)}`;
    }
    path += `L${width - RIGHT} ${bottom}Z`;
    const label = (x, yy, string, anchor) => svg("text", { x, y: yy, "text-anchor": anchor, class: "axis" }, string);
    this.cursor = svg("line", { y1: top - 6, y2: bottom, class: "cursor", x1: 0, x2: 0 });
    const peakX = this.x(peak + 0.5);
    this.area.replaceChildren(svg("svg", { width, height, "aria-hidden": "true" },
      svg("line", { x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom, class: "base" }),
      svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(most / 2), y2: y(most / 2), class: "grid" }),
      svg("path", { d: path, class: "area" }),
      svg("path", { d: `M${peakX - 4} ${top - 8}h8l-4 6z`, class: "peak" }),
      label(LEFT - 6, top + 4, unit(most), "end"), label(LEFT - 6, y(most / 2) + 4, unit(most / 2), "end"), label(LEFT - 6, bottom + 2, unit(0), "end"),
      label(LEFT, height - 3, `${this.series.of} 1`, "start"), label(width - RIGHT, height - 3, String(values.length), "end"),
      this.cursor));
    this.move(this.at);
  }
}

/** Pixels beside the drawing, for the labels of its axis. */
const LEFT = 66;
const RIGHT = 16;
