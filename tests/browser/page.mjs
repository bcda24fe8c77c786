// What tests of pages share: a browser, a page that must stay silent, the accessibility checker, and screenshots.
//
// A test that needs a browser passes `skip: missing()` to node's `test`, so that machines without one say so and go on.

import { createRequire } from "node:module";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);

/** Where a Chromium may be; the environment names another one. */
const BROWSERS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Nothing but the page may be loaded: the browser's own traffic is turned off. */
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

function browserPath() {
  return BROWSERS.find((path) => path && existsSync(path));
}

function packagePath(name) {
  try { return require.resolve(name); } catch { return null; }
}

/** The reason why pages can't be tested here, or `false`. */
export function missing() {
  if (!browserPath()) return "no Chromium: set CHROMIUM to the path of one";
  if (!packagePath("playwright-core") || !packagePath("axe-core")) return "no packages: run `npm ci` in tests/browser";
  return false;
}

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/** The command that writes pages: FULGURITE names it, or it is the one of a build without options. */
export const command = process.env.FULGURITE ?? join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "debug/fulgurite");

/** The reason why there is no command, or `false`. */
export function missingCommand() {
  return !existsSync(command) && `no ${command}: build it, or name one by FULGURITE`;
}

/** Starts a browser. Its profile is a new folder, which goes when it closes. */
export async function launch() {
  const { chromium } = require("playwright-core");
  return chromium.launch({ executablePath: browserPath(), headless: true, args: FLAGS });
}

/**
 * Opens a file as a page. `faults` collects what a page must not do: errors on the console, uncaught errors, and
 * requests to a network.
 */
export async function open(browser, file, { width = 1600, height = 1000, scheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) faults.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => faults.push(`uncaught: ${error.message}`));
  page.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) faults.push(`request: ${request.url()}`); });
  await page.goto(file.includes("://") ? file : pathToFileURL(resolve(file)).href);
  return { page, context, faults };
}

/** The violations of accessibility rules (WCAG 2.2 AA and best practices) as lines of text. */
export async function violations(page) {
  await page.addScriptTag({ path: packagePath("axe-core") });
  const found = await page.evaluate(async () => {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const result = await globalThis.axe.run(document, { runOnly: tags, preload: false });
    return result.violations.map(({ id, impact, help, nodes }) => ({ id, impact, help, at: nodes.slice(0, 4).map((n) => `${n.target.join(" ")}: ${n.any[0]?.message ?? n.all[0]?.message ?? n.none[0]?.message ?? ""}`) }));
  });
  return found.map((v) => `${v.impact} ${v.id}: ${v.help}\n    ${v.at.join("\n    ")}`);
}

/** Each width and each colour once, for tests of many pages. */
export const FEW_LOOKS = [{ width: 400, scheme: "light", height: 800 }, { width: 1600, scheme: "dark", height: 1000 }];

/** The widths and colours in which a page is looked at. */
export const LOOKS = [400, 1600].flatMap((width) => ["light", "dark"].map((scheme) => ({ width, scheme, height: width < 700 ? 800 : 1000 })));

/** Saves a picture of the page if SHOTS names a folder. */
export async function shot(page, name) {
  if (!process.env.SHOTS) return;
  mkdirSync(process.env.SHOTS, { recursive: true });
  await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`) });
}

/** Whether nothing of the page lies beyond its right edge. */
export async function fits(page) {
  return page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
}
