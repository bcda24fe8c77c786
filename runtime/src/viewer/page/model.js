// The document as objects: stages, their lines and values, and the entries of which a pane's list is made.

const doc = JSON.parse(document.getElementById("document").textContent);
const text = (number) => (number < 0 ? "" : doc.strings[number]);
const ROLES = ["forward", "backward", "recompute", "accumulate"];

const UNITS = ["B", "kB", "MB", "GB", "TB"];
function bytesText(n) {
  let unit = 0;
  while (Math.abs(n) >= 999.5 && unit + 1 < UNITS.length) { n /= 1000; unit += 1; }
  return `${unit === 0 ? n : n.toPrecision(3)} ${UNITS[unit]}`;
}
function timeText(seconds) {
  if (seconds === 0) return "0 s";
  if (seconds >= 1) return `${seconds.toPrecision(3)} s`;
  return seconds >= 1e-3 ? `${(seconds * 1e3).toPrecision(3)} ms` : `${(seconds * 1e6).toPrecision(3)} µs`;
}
const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** A stage with a trace: lines, values, and who reads what. */
class TraceStage {
  constructor(number, data) {
    Object.assign(this, { number, data, name: data.name, lines: data.lines, count: data.count });
    const { name } = data.values;
    this.byName = new Map(name.map((n, value) => [n, value]));
    this.byId = new Map(data.lines.id.map((id, line) => [id, line]));
    this.readers = name.map(() => []);
    for (let line = 0; line < this.count; line += 1) {
      for (const piece of data.lines.args[line]) {
        const readers = piece >= 0 ? this.readers[piece] : null;
        if (readers && readers.at(-1) !== line) readers.push(line);
      }
    }
  }
  valueName(value) { return text(this.data.values.name[value]); }
  valueType(value) { return doc.types[this.data.values.ty[value]]; }
  outs(line) { return this.lines.outs[line].concat(this.lines.aux[line]); }
  op(line) { return text(this.lines.op[line]); }

  /** The pieces of a line: texts, and values as `{ value, made }`. */
  pieces(line) {
    const { lines } = this;
    const dead = lines.dead[line];
    const out = [];
    const made = (values, isAux) => values.forEach((value, i) => {
      if (i > 0) out.push({ text: ", " });
      if (!isAux && dead.includes(i)) { out.push({ text: "_", kind: "quiet" }); return; }
      out.push({ value, made: true }, { text: ": ", kind: "colon" }, { text: this.valueType(value)[0], kind: "type" });
      const tags = text(this.data.values.tags[value]);
      if (tags) out.push({ text: ` ${tags}`, kind: "tag" });
    });
    const [outs, aux] = [lines.outs[line], lines.aux[line]];
    const several = outs.length !== 1 || aux.length > 0;
    if (several) out.push({ text: "(" });
    made(outs, false);
    if (aux.length > 0) { out.push({ text: "; " }); made(aux, true); }
    out.push({ text: several ? ") = " : " = " }, { text: this.op(line), kind: "operator" }, { text: "(" });
    for (const piece of lines.args[line]) {
      out.push(piece >= 0 ? { value: piece, made: false } : { text: text(-1 - piece), kind: "literal" });
    }
    out.push({ text: ")" });
    if (lines.tags[line] >= 0) out.push({ text: ` ${text(lines.tags[line])}`, kind: "tag" });
    return out;
  }
  plain(line) {
    return this.pieces(line).map((p) => p.text ?? this.valueName(p.value)).join("");
  }
  /** The regions around a line, outermost first. */
  regionPath(line) {
    const path = [];
    for (let at = this.lines.region[line]; at >= 0; at = this.data.regions[at][0]) path.unshift(at);
    return path;
  }
  regionText(region) { return text(this.data.regions[region][1]); }

  /** From which line to which a value lives, in words. */
  lifetime(value) {
    const made = this.data.values.made[value];
    const last = this.data.values.last[value];
    const end = last >= this.count ? "the end" : last + 1;
    if (made < 0) return last < 0 ? "an input without a reader" : `lives from the call to ${last >= this.count ? end : `line ${end}`}`;
    return last === made ? `lives at line ${made + 1} only` : `lives from line ${made + 1} to ${end}`;
  }

  entries() {
    this.list ??= new EntryList().ofTrace(this);
    return this.list;
  }
  /** What the chart draws: live bytes at each line. */
  series() {
    return { values: this.data.live, unit: bytesText, title: "live memory", of: "line", peak: this.data.peak };
  }
}

/** A stage with the steps of a program; its lines are those of another stage. */
class StepStage {
  constructor(number, data) {
    Object.assign(this, { number, data, name: data.name, steps: data.steps, of: stages[data.of] });
    this.count = data.steps.length;
    this.stepOf = new Map();
    data.steps.forEach((step, i) => step.lines.forEach((line) => {
      this.stepOf.set(line, [...(this.stepOf.get(line) ?? []), i]);
    }));
    this.seconds = data.steps.reduce((sum, step) => sum + (step.seconds ?? 0), 0);
    this.apart = new Map();
    for (const [line, other, why] of data.apart) {
      this.apart.set(line, [...(this.apart.get(line) ?? []), { other, why }]);
    }
  }
  /** The time of one run of a step, the bytes that it moves in a second, and its share of all time. */
  measured(step) {
    if (!(step.runs > 0)) return null;
    const each = step.seconds / step.runs;
    return { each, speed: step.bytes / Math.max(each, 1e-12), share: step.seconds / Math.max(this.seconds, 1e-12) };
  }
  entries() {
    this.list ??= new EntryList().ofSteps(this);
    return this.list;
  }
  series() {
    const timed = this.data.profiled;
    const values = this.steps.map((s) => (timed ? this.measured(s)?.each ?? 0 : s.bytes));
    const peak = values.reduce((best, v, i) => (v > values[best] ? i : best), 0);
    return { values, unit: timed ? timeText : bytesText, title: timed ? "time of a run" : "bytes moved", of: "step", peak, bars: true };
  }
}

/** A stage that is known as text only. */
class TextStage {
  constructor(number, data) {
    Object.assign(this, { number, data, name: data.name, count: data.text.length });
  }
  entries() {
    this.list ??= new EntryList().ofText(this);
    return this.list;
  }
  series() { return null; }
}

/** The rows of one pane, before folding and filters. A head has entries below it until the next of its depth. */
class EntryList {
  constructor() { this.items = []; }

  push(entry) {
    entry.at = this.items.length;
    this.items.push(entry);
    for (let head = entry.parent; head >= 0; head = this.items[head].parent) {
      if (entry.kind === "line") this.items[head].lines += 1;
    }
    return entry.at;
  }
  head(key, parent, pieces, more = {}) {
    const depth = parent < 0 ? 0 : this.items[parent].depth + 1;
    return this.push({ kind: "head", key, parent, depth, pieces, lines: 0, ...more });
  }
  line(stage, line, parent, more = {}) {
    const depth = parent < 0 ? 0 : this.items[parent].depth + 1;
    const id = stage.lines.id[line];
    return this.push({ kind: "line", key: id < 0 ? `n${stage.outs(line).map((v) => stage.valueName(v))}` : `l${id}`, parent, depth, stage, line, ...more });
  }
  value(stage, key, value, parent, note) {
    return this.push({ kind: "value", key, parent, depth: 1, stage, value, note });
  }

  ofTrace(stage) {
    const { data } = stage;
    const total = data.inputs.reduce((sum, value) => sum + stage.valueType(value)[1], 0);
    const inputs = this.head("inputs", -1, [{ text: `${data.function}: ` }, { text: plural(data.inputs.length, "input") }, { text: `  ${bytesText(total)}`, kind: "quiet" }], { folded: true });
    data.inputs.forEach((value, i) => {
      const path = text(data.paths[i]);
      this.value(stage, `in ${stage.valueName(value)}`, value, inputs, path === stage.valueName(value) ? "" : path);
    });
    const seen = new Map();
    let open = [];
    for (let line = 0; line < stage.count; line += 1) {
      const path = stage.regionPath(line);
      let common = 0;
      while (common < open.length && common < path.length && open[common].region === path[common]) common += 1;
      open.length = common;
      for (const region of path.slice(common)) {
        const name = stage.regionText(region);
        const within = (open.length > 0 ? this.items[open.at(-1).at].path : "") + "/" + name;
        seen.set(within, (seen.get(within) ?? 0) + 1);
        const at = this.head(`${within}#${seen.get(within)}`, open.length > 0 ? open.at(-1).at : -1, [{ text: name, kind: "region" }], { path: within });
        open.push({ region, at });
      }
      this.line(stage, line, open.length > 0 ? open.at(-1).at : -1);
    }
    const results = data.outputs.length - data.saved;
    const saved = data.saved > 0 ? `, ${plural(data.saved, "value")} kept for the backward` : "";
    const writes = data.writes.length > 0 ? `, ${plural(data.writes.length, "write")}` : "";
    const end = this.head("results", -1, [{ text: "return " }, { text: plural(results, "result") + saved + writes }], { folded: true });
    data.outputs.forEach((value, i) => this.value(stage, `out ${i}`, value, end, i < results ? "result" : "kept for the backward"));
    data.writes.forEach(([input, value], i) => this.value(stage, `write ${i}`, value, end, `written to ${stage.valueName(input)}`));
    return this;
  }

  ofSteps(stage) {
    stage.steps.forEach((step, i) => {
      const pieces = [{ text: `${step.executor} `, kind: "quiet" }, { text: step.what, kind: "region" }];
      const at = this.head(`step ${i}`, -1, pieces, { step: i, stage });
      step.lines.forEach((line) => this.line(stage.of, line, at, { within: i }));
    });
    return this;
  }

  ofText(stage) {
    stage.data.text.forEach((line) => this.push({ kind: "text", key: `t ${line}`, parent: -1, depth: 0, pieces: [{ text: line }] }));
    return this;
  }

  /** The text of an entry, which decides whether it changed. */
  plain(entry) {
    entry.plain ??= entry.kind === "line" ? entry.stage.plain(entry.line)
      : entry.kind === "value" ? `${entry.stage.valueName(entry.value)}: ${entry.stage.valueType(entry.value)[0]} ${entry.note}`
      : entry.pieces.map((p) => p.text).join("");
    return entry.plain;
  }

  /** The lower-case texts among which a filter looks. */
  searched(entry) {
    if (entry.searched) return entry.searched;
    const all = this.plain(entry).toLowerCase();
    const found = { all, op: "", value: "", type: "", in: "", file: "", tag: "", is: "" };
    for (let head = entry.parent; head >= 0; head = this.items[head].parent) found.in += `${this.plain(this.items[head])} `;
    found.in = found.in.toLowerCase();
    if (entry.kind === "line") {
      const { stage, line } = entry;
      const pieces = stage.pieces(line);
      found.op = stage.op(line).toLowerCase();
      found.value = pieces.filter((p) => p.value !== undefined).map((p) => stage.valueName(p.value)).join(" ").toLowerCase();
      found.type = pieces.filter((p) => p.kind === "type").map((p) => p.text).join(" ").toLowerCase();
      found.tag = pieces.filter((p) => p.kind === "tag").map((p) => p.text).join(" ").toLowerCase();
      found.file = text(stage.lines.place[line]).toLowerCase();
      found.is = ROLES[stage.lines.role[line]];
      found.all += ` ${found.file} ${found.in}`;
    }
    entry.searched = found;
    return found;
  }
}

const stages = [];
for (const [number, data] of doc.stages.entries()) {
  stages.push(data.steps ? new StepStage(number, data) : data.text ? new TextStage(number, data) : new TraceStage(number, data));
}
/** The program that a stage's lines run in, if one was compiled from it. */
const programOf = (stage) => stages.find((s) => s instanceof StepStage && s.of === stage);
