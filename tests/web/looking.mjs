// What is shown: without findings of axe-core, in light and dark, and as screenshots in the folder that NERF_SCREENSHOTS names.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const screenshots = process.env.NERF_SCREENSHOTS;
if (screenshots) mkdirSync(screenshots, { recursive: true });

// 0 findings of axe-core in what is shown now.
export async function checkAccessibility(page, what) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  // Colors that are still on their way from light to dark would be judged.
  await page.evaluate(() =>
    Promise.allSettled(
      document
        .getAnimations()
        .filter((animation) => animation.effect.getComputedTiming().endTime !== Infinity)
        .map((animation) => animation.finished),
    ),
  );
  const { violations } = await page.evaluate(() => window.axe.run());
  assert.deepEqual(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`),
    [],
    `axe-core on ${what}`,
  );
}

export async function look(page, name) {
  await checkAccessibility(page, name);
  await page.emulateMedia({ colorScheme: "dark" });
  await checkAccessibility(page, `${name}, dark`);
  const shoot = (file) => screenshots && page.screenshot({ path: join(screenshots, `${file}.png`), fullPage: name.endsWith("narrow") });
  await shoot(`${name}-dark`);
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await shoot(name);
}

// How many different colors a canvas or picture shows; 1 is blank.
export function colorsOf(locator) {
  return locator.evaluate((element) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 64;
    const context = canvas.getContext("2d");
    context.drawImage(element, 0, 0, 64, 64);
    return new Set(new Uint32Array(context.getImageData(0, 0, 64, 64).data.buffer)).size;
  });
}
