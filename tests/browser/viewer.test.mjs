// The viewer's page in a browser: what it shows, how it is used, how fast it is, and whether everyone can read it.
//
// VIEWER names the page to test. Without it, the command writes the page of the demo's training step.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { LOOKS, command, fits, launch, missing, missingCommand, open, shot, violations } from "./page.mjs";

const skip = missing() || (!process.env.VIEWER && missingCommand());

let browser, file, folder;

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "fulgurite-viewer-"));
  file = process.env.VIEWER ?? join(folder, "step.html");
  if (!process.env.VIEWER) execFileSync(command, ["trace", "--html", file, "--profile", "--quiet"]);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

/** Opens the page, and holds afterwards that it was silent. */
async function visit(look, use, path = file) {
  const { page, context, faults } = await open(browser, path, look);
  await page.waitForFunction(() => globalThis.fulgurite?.app.view.length > 0);
  await use(page);
  assert.deepEqual(faults, []);
  await context.close();
}

/** Evaluates a function of the page's state. */
const state = (page, f, given) => page.evaluate(`(${f})(globalThis.fulgurite, ${JSON.stringify(given ?? null)})`);
const activeText = (page) => page.locator(".row.active").innerText();

for (const look of LOOKS) {
  const name = `${look.width}-${look.scheme}`;
  test(`it can be read at ${look.width} pixels, ${look.scheme}`, { skip }, () => visit(look, async (page) => {
    assert.ok(await fits(page), "the page is wider than its window");
    assert.deepEqual(await violations(page), []);
    await shot(page, `viewer-${name}`);
    // a line with its details, a lit value, and a filter
    await page.fill("#filter", "op:softmax");
    await page.waitForFunction(() => /line/.test(document.querySelector("#found").textContent));
    await page.locator(".row.line").first().click();
    await page.locator(".row.line .value").first().hover();
    assert.ok(await page.locator("#tip").isVisible());
    assert.ok(await fits(page), "the page with details is wider than its window");
    assert.deepEqual(await violations(page), []);
    await shot(page, `viewer-details-${name}`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    assert.deepEqual(await violations(page), []);
    await shot(page, `viewer-keys-${name}`);
  }));
}

test("stages stand side by side, with their changes marked", { skip }, () => visit({}, async (page) => {
  const [left, right] = await state(page, ({ app }) => [app.left.name, app.right.name]);
  assert.deepEqual([left, right], ["acquired", "simplified"]);
  await page.focus("#rows");
  await page.keyboard.press("n");
  const sign = await page.locator(".row.active .sign").allInnerTexts();
  assert.ok(sign.some((s) => /[+−~↕]/.test(s) && /added|removed|changed|moved/.test(s)), String(sign));
  await shot(page, "viewer-change");
  const first = await activeText(page);
  await page.keyboard.press("n");
  assert.notEqual(await activeText(page), first);
  await page.keyboard.press("p");
  assert.equal(await activeText(page), first);
  // the rows are a comparison: both lists are there, whole and in order
  const order = await state(page, ({ app }) => ["left", "right"].map((side) => {
    const at = app.rows.map((row) => row[side]).filter((i) => i >= 0);
    return at.length === app.list(side).items.length && at.every((n, i) => n === i);
  }));
  assert.deepEqual(order, [true, true]);
  await page.keyboard.press("c");
  const all = await state(page, ({ app }) => app.view.every((i) => app.rows[i].sign !== "same" || app.meant(app.rows[i]).kind === "head"));
  assert.ok(all, "a line without a change is shown");
}));

test("scopes fold", { skip }, () => visit({}, async (page) => {
  const before = await state(page, ({ app }) => app.view.length);
  const head = page.locator(".row.head", { hasText: "block[0]" }).first();
  await head.click();
  assert.equal(await head.getAttribute("aria-expanded"), "false");
  assert.ok((await state(page, ({ app }) => app.view.length)) < before);
  await page.keyboard.press("ArrowRight");
  assert.equal(await state(page, ({ app }) => app.view.length), before);
  await page.keyboard.press("z");
  assert.ok((await state(page, ({ app }) => app.view.length)) < before / 2);
}));

test("filters find operators, values, scopes, tags, files and roles", { skip }, () => visit({}, async (page) => {
  const found = async (filter) => {
    await page.fill("#filter", filter);
    await page.waitForTimeout(150);
    return state(page, ({ app }) => app.view.map((i) => app.meant(app.rows[i])).filter((e) => e.kind === "line").map((e) => ({ op: e.stage.op(e.line), role: e.stage.lines.role[e.line], text: e.stage.plain(e.line) })));
  };
  const softmax = await found("op:softmax");
  assert.ok(softmax.length > 0 && softmax.every((l) => l.op.includes("softmax")));
  const backward = await found("is:backward op:mul");
  assert.ok(backward.length > 0 && backward.every((l) => l.role === 1 && l.op.includes("mul")));
  const without = await found("op:mul -is:backward");
  assert.ok(without.length > 0 && without.every((l) => l.role !== 1));
  assert.ok((await found("in:block[1]")).length > 10);
  assert.ok((await found("file:gpt.rs tag:backward")).length > 10);
  assert.equal((await found("no such thing anywhere")).length, 0);
  await page.keyboard.press("Escape");
  assert.equal(await page.inputValue("#filter"), "");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "filter");
}));

test("a value is lit with its uses, by pointer and by keyboard", { skip }, () => visit({}, async (page) => {
  const value = page.locator(".row.line .value.made").nth(3);
  const name = await value.innerText();
  await value.hover();
  const lit = await page.evaluate(() => [...document.querySelectorAll("#rows .value")].filter((v) => getComputedStyle(v).outlineStyle === "solid").map((v) => v.textContent));
  assert.ok(lit.length >= 2 && lit.every((text) => text === name), `${name}: ${lit}`);
  const tip = await page.innerText("#tip");
  assert.match(tip, /f32|i64|bool/);
  assert.match(tip, /B · lives/);
  assert.match(tip, /read by \d+ line/);
  await page.mouse.move(5, 5);
  assert.ok(await page.locator("#tip").isHidden());
  await page.focus("#rows");
  for (const key of ["Home", "j", "j", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await page.innerText("#said"), /lives .*read by/);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("d");
  assert.match(await page.innerText("#details h2"), /line \d+ of/);
}));

test("a line has its source, scope, origin, body, step, time and bytes", { skip }, () => visit({}, async (page) => {
  const detailsOf = async (role, name) => {
    await state(page, ({ app, stages }, [of, column]) => {
      const stage = stages.find((s) => s.name === "simplified");
      const program = stages.find((s) => s.of === stage);
      app.go(stage, stage.lines.role.findIndex((r, i) => r === of && stage.lines[column][i] >= 0 && program.stepOf.has(i)));
    }, [role, name]);
    return page.innerText("#details");
  };
  for (const part of [/role\s+forward/, /scope\s+scope "block\[0\]"/, /Body/, /return/, /gradient\s+cotangents/, /recomputed/]) assert.match(await detailsOf(0, "body"), part);
  await shot(page, "viewer-body");
  const details = await detailsOf(1, "origin");
  for (const part of [/source\s+\S+\.rs:\d+/, /role\s+backward/, /origin\s+\d+/, /executor\s+cpu/, /time\s+[\d.]+ (µs|ms|s) a run/, /moves\s+[\d.]+ .?B, [\d.]+ .?B\/s/]) {
    assert.match(details, part);
  }
  await shot(page, "viewer-line");
  await page.locator("#details dd .link").first().click();
  assert.match(await page.innerText("#details"), /role\s+forward/);
}));

test("the compiled program shows its steps", { skip }, () => visit({}, async (page) => {
  await page.selectOption("#right", { label: "4 compiled" });
  assert.ok((await page.locator(".row.head", { hasText: "fusion" }).count()) > 0);
  await page.locator(".row.head .region").nth(3).click();
  assert.match(await page.innerText("#details"), /Step \d+/);
  assert.match(await page.innerText("#chart h2"), /time of a run/);
  await shot(page, "viewer-steps");
  assert.deepEqual(await violations(page), []);
}));

test("the chart leads to the line", { skip }, () => visit({}, async (page) => {
  const box = await page.locator(".chart-area").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  assert.match(await page.innerText(".chart-now"), /line \d+: [\d.]+ .?B/);
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  const line = await state(page, ({ app }) => app.meant(app.rows[app.view[app.active]]).line + 1);
  assert.match(await page.innerText("#details h2"), new RegExp(`line ${line} of`));
  await page.locator("#chart .link").click();
  const peak = await state(page, ({ app }) => app.right.data.peak + 1);
  assert.match(await page.innerText("#details h2"), new RegExp(`line ${peak} of`));
  await page.focus(".chart-area");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getAttribute(".chart-area", "aria-valuenow"), String(peak + 1));
}));

/** The page with each stage repeated until it has `lines` lines; numbers of lines and names of values stay different. */
function repeated(html, lines) {
  const [head, rest] = html.split('<script type="application/json" id="document">');
  const end = rest.indexOf("</script>");
  const doc = JSON.parse(rest.slice(0, end));
  doc.stages = doc.stages.filter((s) => s.lines && ["acquired", "simplified"].includes(s.name)).map((stage) => {
    const times = Math.ceil(lines / stage.count);
    const n = stage.values.name.length;
    const out = structuredClone(stage);
    for (let k = 1; k < times; k += 1) {
      const moved = (v) => (v >= 0 ? v + k * n : v);
      for (const [name, column] of Object.entries(stage.lines)) {
        const copy = name === "id" || name === "origin" ? column.map((id) => (id < 0 ? id : id + k * 100_000))
          : ["outs", "aux", "args"].includes(name) ? column.map((list) => list.map(moved)) : column;
        out.lines[name].push(...copy);
      }
      for (const name of ["ty", "tags"]) out.values[name].push(...stage.values[name]);
      out.values.name.push(...stage.values.name.map((s) => { doc.strings.push(`${doc.strings[s]}.r${k}`); return doc.strings.length - 1; }));
      for (const name of ["made", "last"]) out.values[name].push(...stage.values[name].map((i) => (i < 0 ? i : i + k * stage.count)));
      out.live.push(...stage.live);
    }
    out.count = stage.count * times;
    return out;
  });
  return `${head}<script type="application/json" id="document">${JSON.stringify(doc).replaceAll("<", "\\u003c")}${rest.slice(end)}`;
}

/**
 * The most milliseconds of script and layout for what a reader does with rows, and for what looks at all lines. A frame of
 * a screen has 16; the machines of tests have few cores, which others use, and no GPU.
 */
const ROWS = 50;
const ALL = 250;
const LONG = 20_000;

test(`it stays fluent at ${LONG} lines`, { skip }, async (t) => {
  const long = join(folder, "long.html");
  writeFileSync(long, repeated(readFileSync(file, "utf8"), LONG));
  await visit({}, async (page) => {
    assert.ok((await state(page, ({ app }) => app.right.count)) >= LONG);
    const rows = await page.locator(".row").count();
    assert.ok(rows < 120, `${rows} rows are elements`);
    const times = await page.evaluate(async () => {
      const { app } = globalThis.fulgurite;
      const box = document.querySelector("#rows");
      const frame = () => new Promise((done) => requestAnimationFrame(done));
      const work = {};
      const measure = async (name, count, act) => {
        const [worked, framed] = [[], []];
        for (let i = 0; i < count; i += 1) {
          await frame();
          const start = performance.now();
          act(i);
          app.box.draw();
          // reading a size makes the browser lay the page out
          void box.scrollHeight;
          worked.push(performance.now() - start);
          await frame();
          framed.push(performance.now() - start);
        }
        const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
        work[name] = { median: median(worked), most: Math.max(...worked), frame: median(framed) };
      };
      await measure("scroll by 300 pixels", 60, () => { box.scrollTop += 300; });
      await measure("jump", 30, (i) => { box.scrollTop = ((i * 7919) % 20000) * 20; });
      await measure("next line", 40, () => app.activate(app.active + 1));
      await measure("light a value", 20, (i) => app.light(i * 37));
      const filter = document.querySelector("#filter");
      const filters = ["op:s", "op:so", "op:softmax", "mul is:backward", "in:block[2] gelu", ""];
      app.filter = null;
      await measure("filter", filters.length, (i) => {
        filter.value = filters[i];
        globalThis.fulgurite.applyFilter();
      });
      await measure("fold all", 4, () => app.foldAll());
      await measure("next change", 10, () => app.change(1));
      await measure("compare stages", 2, () => app.show(app.left, app.right));
      return work;
    });
    for (const [name, { median, most, frame }] of Object.entries(times)) {
      t.diagnostic(`${name}: median ${median.toFixed(1)} ms, most ${most.toFixed(1)} ms, to the next frame ${frame.toFixed(1)} ms`);
      const looksAtAll = ["filter", "fold all", "compare stages"].includes(name);
      assert.ok(median < (looksAtAll ? ALL : ROWS), `${name} takes ${median} ms`);
    }
    await shot(page, "viewer-long");
  }, long);
});

test("a page with hostile names shows them as text", { skip }, () => {
  const hostile = join(folder, "hostile.html");
  const name = '</script><script>globalThis.broken = true</script><img src=x onerror="globalThis.broken = true">';
  const html = readFileSync(file, "utf8");
  const at = html.indexOf('id="document">') + 'id="document">'.length;
  const end = html.indexOf("</script>", at);
  const doc = JSON.parse(html.slice(at, end));
  doc.title = name;
  doc.strings = doc.strings.map((s) => (/^[a-z]+\.?\d*$/.test(s) ? `${s}${name}` : s));
  writeFileSync(hostile, html.slice(0, at) + JSON.stringify(doc).replaceAll("<", "\\u003c") + html.slice(end));
  return visit({}, async (page) => {
    await page.focus("#rows");
    for (const key of ["j", "j", "j", "Enter", "ArrowRight"]) await page.keyboard.press(key);
    assert.equal(await page.evaluate(() => globalThis.broken), undefined);
    assert.equal(await page.innerText("#title"), name);
  }, hostile);
});
