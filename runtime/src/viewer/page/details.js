// The panel of details: a stage, a line, a step or a value.

/** Further rows of a list are counted, not listed. */
const LISTED = 40;

const facts = (...pairs) => el("dl", {}, ...pairs.filter((pair) => pair && pair[1] !== "" && pair[1] !== null).flatMap(([name, value]) => [
  el("dt", {}, name), el("dd", {}, ...(Array.isArray(value) ? value : [value])),
]));

const link = (label, action) => el("button", { class: "link", type: "button", onclick: action }, label);

const number = (label) => el("td", { class: "number-cell" }, label);

function listed(items, make) {
  const out = items.slice(0, LISTED).map((item) => el("li", {}, make(item)));
  if (items.length > LISTED) out.push(el("li", {}, `and ${items.length - LISTED} more`));
  return el("ul", {}, ...out);
}

/** A button that goes to a line, with its text. */
function lineLink(stage, line) {
  const call = `${stage.outs(line).map((v) => stage.valueName(v)).join(", ")} = ${stage.op(line)}(…)`;
  return link(`${line + 1}  ${call}`, () => app.go(stage, line));
}

/** The body of a line, with the line's own arguments in the places of its parameters. */
function bodyText(stage, line) {
  const body = doc.bodies[stage.lines.body[line]];
  if (!body) return null;
  const given = [...new Set(stage.lines.args[line].filter((piece) => piece >= 0))].map((value) => stage.valueName(value));
  return body.map(([depth, pieces]) => "  ".repeat(depth) + pieces.map((p) => (p >= 0 ? given[p] : text(-1 - p))).join("")).join("\n");
}

/** The line from which another one came, in its stage or in an earlier one. */
function originOf(stage, line) {
  const origin = stage.lines.origin[line];
  if (origin < 0) return null;
  for (const of of [stage, ...stages.slice(0, stage.number).reverse()]) {
    const at = of instanceof TraceStage ? of.byId.get(origin) : undefined;
    if (at !== undefined && !(of === stage && at === line)) return { stage: of, line: at };
  }
  return null;
}

/** Values with type, size and lifetime. Two lines for each, because names and types may be long. */
function valueList(stage, values) {
  const item = (value) => {
    const [type, size] = stage.valueType(value);
    return el("li", {}, link(stage.valueName(value), () => app.openValue(stage, value)), " ", el("code", { class: "type" }, type),
      el("div", { class: "quiet" }, `${bytesText(size)}, ${stage.lifetime(value)}`));
  };
  return el("ul", { class: "plain" }, ...values.map(item));
}

function stepFacts(program, at) {
  const step = program.steps[at];
  const measured = program.measured(step);
  const floor = measured && program.data.bandwidth ? ` (${Math.round((100 * measured.speed) / program.data.bandwidth)} % of one thread's copying)` : "";
  return facts(
    ["executor", step.executor],
    ["time", measured ? `${timeText(measured.each)} a run, ${(100 * measured.share).toFixed(1)} % of all, mean of ${plural(step.runs, "run")}` : `${timeText(step.estimate * 1e-9)} estimated`],
    ["moves", `${bytesText(step.bytes)}${measured ? `, ${bytesText(measured.speed)}/s${floor}` : ""}`],
    step.flops > 0 && ["computes", `${step.flops.toExponential(2)} FLOP${measured ? `, ${(step.flops / measured.each / 1e9).toPrecision(3)} GFLOP/s` : ""}`],
  );
}

/** The details of a line. `before` is the text that it had in the stage with which it is compared. */
function lineDetails(stage, line, before) {
  const { lines } = stage;
  const program = programOf(stage);
  const steps = program ? program.stepOf.get(line) ?? [] : [];
  const origin = originOf(stage, line);
  const path = stage.regionPath(line).map((region) => stage.regionText(region));
  const read = [...new Set(lines.args[line].filter((piece) => piece >= 0))];
  const apart = program?.apart.get(line) ?? [];
  const body = bodyText(stage, line);
  const isForward = lines.role[line] === 0;
  return [
    el("h2", {}, el("span", { class: "operator" }, stage.op(line)), el("small", {}, ` line ${line + 1} of ${stage.name}`)),
    el("p", { class: "call" }, ...pieceElements(stage, stage.pieces(line))),
    before && el("p", { class: "call before" }, el("b", {}, "before: "), before),
    facts(
      ["source", text(lines.place[line]) || "no place: a transform made it"],
      ["role", ROLES[lines.role[line]]],
      ["scope", path.join(" › ")],
      ["tags", text(lines.tags[line])],
      ["rule", text(lines.rule[line])],
      origin && ["origin", [lineLink(origin.stage, origin.line), origin.stage === stage ? "" : ` of ${origin.stage.name}`]],
      isForward && ["gradient", text(lines.gradient[line])],
      isForward && ["recomputed", text(lines.again[line])],
    ),
    el("h3", {}, "Results"), valueList(stage, stage.outs(line)),
    read.length > 0 && el("h3", {}, "Reads"), read.length > 0 && valueList(stage, read),
    program && el("h3", {}, steps.length > 0 ? "Runs in" : "Runs in no step"),
    program && steps.length === 0 && el("p", {}, "It is a window of what it reads, made where it is read, or needed by nothing."),
    ...steps.flatMap((number) => {
      const others = program.steps[number].lines.filter((other) => other !== line);
      return [
        el("p", {}, link(`step ${number + 1}: ${program.steps[number].what}`, () => app.go(program, number))),
        stepFacts(program, number),
        others.length > 0 && el("details", { open: others.length <= 8 }, el("summary", {}, `with ${plural(others.length, "other line")}`), listed(others, (other) => lineLink(stage, other))),
      ];
    }),
    apart.length > 0 && el("h3", {}, "Not fused with"),
    apart.length > 0 && listed(apart, ({ other, why }) => el("span", {}, lineLink(stage, other), `: ${why}`)),
    body && el("h3", {}, /:$/.test(body.split("\n", 1)[0]) ? "Programs" : "Body"),
    body && el("pre", { tabindex: "0", "aria-label": "Body of the line" }, body),
  ];
}

function stepDetails(program, number) {
  const step = program.steps[number];
  return [
    el("h2", {}, `Step ${number + 1}`, el("small", {}, ` of ${plural(program.count, "step")}`)),
    el("p", { class: "call" }, step.what),
    stepFacts(program, number),
    step.parts.length > 0 && el("h3", {}, "Parts"),
    step.parts.length > 0 && el("pre", { tabindex: "0", "aria-label": "Parts of the step" }, step.parts.join("\n")),
    el("h3", {}, plural(step.lines.length, "line")),
    listed(step.lines, (line) => lineLink(program.of, line)),
  ];
}

function valueDetails(stage, value, note) {
  const [type, size] = stage.valueType(value);
  const made = stage.data.values.made[value];
  const readers = stage.readers[value];
  return [
    el("h2", {}, el("span", { class: "value" }, stage.valueName(value)), el("small", {}, ` in ${stage.name}`)),
    facts(
      ["type", el("span", { class: "type" }, type)], ["size", bytesText(size)], ["lifetime", stage.lifetime(value)],
      ["tags", text(stage.data.values.tags[value])], ["argument", note ?? ""],
      ["made by", made < 0 ? "the caller: it is an input" : lineLink(stage, made)],
    ),
    el("h3", {}, `Read by ${plural(readers.length, "line")}`),
    listed(readers, (line) => lineLink(stage, line)),
  ];
}

/** What a reader sees first: the stages, and where time goes. */
function stageDetails(stage, rows) {
  const counts = {};
  for (const { sign } of rows) if (sign !== "same") counts[sign] = (counts[sign] ?? 0) + 1;
  const changes = Object.entries(counts).map(([sign, n]) => el("li", {}, el("span", { class: `sign ${sign}` }, SIGNS[sign]), ` ${n.toLocaleString("en")} ${SAID[sign]}`));
  const program = stage instanceof StepStage ? stage : programOf(stage);
  const slowest = program?.data.profiled ? program.steps.map((step, number) => ({ number, ...program.measured(step) })).filter((s) => s.each).sort((a, b) => b.each - a.each).slice(0, 12) : [];
  const row = (s) => {
    const choose = () => app.choose(s.number);
    const count = s instanceof StepStage ? plural(s.count, "step") : plural(s.count, "line");
    return el("tr", { "aria-current": s === stage ? "true" : null }, el("th", { scope: "row" }, link(s.name, choose)), number(count), number(`${s.data.ms.toFixed(1)} ms`));
  };
  return [
    el("h2", {}, "Stages"),
    el("table", { class: "values" }, el("thead", {}, el("tr", {}, ...["stage", "size", "took"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, ...stages.map(row))),
    stage.data.remark && el("p", {}, stage.data.remark),
    changes.length > 0 && el("h3", {}, "Changes"), changes.length > 0 && el("ul", { class: "plain" }, ...changes),
    program && facts(["arena", `${bytesText(program.data.arena)}, in use at most ${bytesText(program.data.peak)}`], ["results", bytesText(program.data.results)]),
    program && !program.data.same && el("p", { class: "caution" }, "The function runs another division of these lines into steps than the one shown here: it was compiled as a whole for this page."),
    slowest.length > 0 && el("h3", {}, "Slowest steps"),
    slowest.length > 0 && el("table", { class: "values" },
      el("thead", {}, el("tr", {}, ...["step", "time", "share", "speed"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...slowest.map((s) => el("tr", {}, el("th", { scope: "row" }, link(`${s.number + 1}: ${program.steps[s.number].what}`, () => app.go(program, s.number))), number(timeText(s.each)), number(`${(100 * s.share).toFixed(1)} %`), number(`${bytesText(s.speed)}/s`))))),
    el("p", { class: "quiet" }, "Choose a line for its details. ", el("kbd", {}, "?"), " lists the keys."),
  ];
}
