// The site of the databases in a browser: the search answers questions, filters narrow, and pages can be read in all
// widths and colours.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { FEW_LOOKS, command, fits, launch, missing, missingCommand, open, shot, violations } from "./page.mjs";

const skip = missing() || missingCommand();
const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

let browser, folder;
const file = (name) => join(folder, name);

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "fulgurite-site-"));
  execFileSync(command, ["site", "--file", "ops.yaml", "--with", "compat/pytorch,compat/onnx", "--title", "fulgurite", "--out", folder, "--quiet"], { cwd: root });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

/** Questions that people ask, each with an answer that must be among the first three. */
const QUESTIONS = [
  ["relu", "relu"], ["softmx", "softmax"], ["torch.addmm", "aten.addmm"], ["onnx.Conv", "onnx.Conv"],
  ["layer norm", "layer_norm"], ["cumulative sum", "cumsum"], ["E401", "E401"], ["matrix product", "matmul"],
  ["MaskedTensor", "MaskedTensor"], ["sdpa", "sdpa"], ["is:random dropout", "dropout"], ["nll_loss", "nll_loss"],
];

test("questions are answered by the search", { skip }, async () => {
  const { page, context, faults } = await open(browser, file("index.html"));
  for (const [question, answer] of QUESTIONS) {
    await page.keyboard.press("Escape");
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("/");
    await page.fill("#query", question);
    const found = await page.locator("#found a strong").allTextContents();
    assert.ok(found.slice(0, 3).includes(answer), `${question}: ${found.slice(0, 5)}`);
  }
  assert.deepEqual(await violations(page), [], "with results");
  assert.deepEqual(faults, []);
  await context.close();
});

test("words of the book are found", { skip }, async () => {
  const { page, context, faults } = await open(browser, file("index.html"));
  await page.focus("#query");
  await page.waitForFunction(() => window.TEXTS);
  await page.fill("#query", "atomic sums");
  const links = await page.locator("#found a").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
  assert.ok(links.some((link) => link.includes("book/cuda.html")), `${links.slice(0, 5)}`);
  const without = await page.evaluate(({ links, words }) => links.filter((link) => {
    const i = window.INDEX.findIndex(({ u }) => link.endsWith(u));
    const { n, d } = window.INDEX[i];
    const all = `${n} ${d} ${window.TEXTS[i]}`.toLowerCase();
    return !words.every((word) => all.includes(word));
  }), { links, words: ["atomic", "sums"] });
  assert.deepEqual(without, [], "sections without one of the words");
  assert.deepEqual(faults, []);
  await context.close();
});

test("the keyboard alone leads from a question to a page", { skip }, async () => {
  const { page, context, faults } = await open(browser, file("errors/E401.html"));
  await page.keyboard.press("/");
  await page.keyboard.type("gelu");
  assert.equal(await page.getAttribute("#found a >> nth=0", "aria-selected"), "true");
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.getAttribute("#found a >> nth=1", "aria-selected"), "true");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/operators/gelu.html");
  assert.equal(await page.textContent("h1"), "gelu");
  await page.keyboard.press("/");
  await page.keyboard.type("nosuchthing");
  assert.equal(await page.locator("#found a").count(), 0);
  await page.keyboard.press("Escape");
  assert.ok(await page.isHidden("#found"));
  assert.deepEqual(faults, []);
  await context.close();
});

test("the list of operators is narrowed by properties and names", { skip }, async () => {
  const { page, context, faults } = await open(browser, file("operators.html"));
  const shown = () => page.locator("#list tbody tr:not([hidden])").count();
  const all = await shown();
  await page.click('button[data-filter="is:view"]');
  const views = await shown();
  assert.ok(views > 5 && views < all / 4, `${views} of ${all}`);
  assert.equal(await page.getAttribute('button[data-filter="is:view"]', "aria-pressed"), "true");
  await page.fill("#narrow", "is:view torch");
  assert.ok(await shown() < views);
  await page.click('button[data-filter="is:view"]');
  assert.equal(await page.inputValue("#narrow"), "torch");
  assert.deepEqual(faults, []);
  await context.close();
  // a property on an operator's page leads to the list
  const other = await open(browser, file("operators/relu.html"));
  await other.page.click(".chips a >> nth=0");
  await other.page.waitForURL("**/operators.html?q=is:pointwise");
  assert.ok(await other.page.locator("#list tbody tr:not([hidden])").count() > 50);
  await other.context.close();
});

const PAGES = ["index.html", "operators.html", "errors.html", "operators/gelu.html", "operators/pow.html",
  "operators/cross_entropy.html", "operators/onnx.Conv.html", "subclasses/MaskedTensor.html", "book/tour.html",
  "families/activations.html", "errors/E401.html"];

for (const look of FEW_LOOKS) {
  test(`pages can be read at ${look.width} pixels, ${look.scheme}`, { skip }, async () => {
    for (const name of PAGES) {
      const { page, context, faults } = await open(browser, file(name), look);
      assert.ok(await fits(page), `${name} is wider than its window`);
      assert.deepEqual(await violations(page), [], name);
      await shot(page, `site-${name.replace("/", "-")}-${look.width}-${look.scheme}`);
      assert.deepEqual(faults, [], name);
      await context.close();
    }
  });
}

test("the other colours and the menu of narrow pages are one click away", { skip }, async () => {
  const { page, context, faults } = await open(browser, file("operators/gelu.html"), FEW_LOOKS[0]);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await ground();
  await page.click("#theme");
  assert.notEqual(await ground(), before);
  assert.deepEqual(await violations(page), [], "in the other colours");
  assert.ok(await page.isHidden("#nav"));
  await page.click("#menu");
  assert.ok(await page.isVisible("#nav"));
  assert.equal(await page.getAttribute("#menu", "aria-expanded"), "true");
  assert.deepEqual(await violations(page), [], "with the menu");
  assert.deepEqual(faults, []);
  await context.close();
});
