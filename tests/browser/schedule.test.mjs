// The page of schedules in a browser: it can be read in all widths and colours.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { FEW_LOOKS, command, fits, launch, missing, missingCommand, open, shot, violations } from "./page.mjs";

const skip = missing() || missingCommand();

let browser, file, folder;

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "fulgurite-schedule-"));
  file = join(folder, "schedules.html");
  execFileSync(command, ["schedule", "--ranks", "4", "--html", file, "--quiet"]);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

for (const look of FEW_LOOKS) {
  test(`schedules can be read at ${look.width} pixels, ${look.scheme}`, { skip }, async () => {
    const { page, context, faults } = await open(browser, file, look);
    assert.ok(await fits(page), "the page is wider than its window");
    assert.deepEqual(await violations(page), []);
    await shot(page, `schedule-${look.width}-${look.scheme}`);
    assert.ok((await page.locator("svg .work title").count()) > 100);
    await page.click("#theme");
    assert.deepEqual(await violations(page), [], "in the other colours");
    assert.deepEqual(faults, []);
    await context.close();
  });
}
