// How fast the page's viewer follows the mouse in Chromium. tests/bench/live_views.py starts it, by run_page.sh, for a nerfd that
// runs: NERF_PAGE is its page's address, NERF_TOKEN a token, NERF_MODEL a model's id, NERF_SIDE how large the viewer is and
// NERF_SECONDS how long it turns. Prints one line of JSON: for each frame that was drawn, its width and the milliseconds since
// its camera was set.
import { launchBrowser, sleep, waitFor } from "./harness.mjs";

const side = Number(process.env.NERF_SIDE);
const seconds = Number(process.env.NERF_SECONDS);
const movesPerSecond = 60;

const browser = await launchBrowser();
try {
  // The viewer is as high as three quarters of the window, but 320 pixels at least, and as wide.
  const page = await browser.newPage({ viewport: { width: Math.max(1000, side + 400), height: Math.floor(side / 0.75) } });
  await page.goto(`${process.env.NERF_PAGE}#token=${process.env.NERF_TOKEN}`);
  await page.goto(`${process.env.NERF_PAGE}#/models/${process.env.NERF_MODEL}`);
  const viewer = page.locator(".viewer");
  const box = viewer.locator(".box");
  await waitFor("the whole frame", async () => (await viewer.count()) === 1 && (await viewer.locator(".figures").textContent()).startsWith(`${side} `));
  if ((await viewer.getAttribute("data-mode")) !== "live") throw new Error("the viewer shows stills");
  await box.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await box.boundingBox();
  if (Math.round(width) !== side) throw new Error(`the viewer is ${width} pixels wide`);
  let at = x + width / 2;
  let way = 1;
  await page.mouse.move(at, y + height / 2);
  await page.mouse.down();
  async function turnFor(turnSeconds) {
    const begun = performance.now();
    for (let n = 1; performance.now() - begun < 1_000 * turnSeconds; ++n) {
      if (at + way < x + 4 || at + way > x + width - 4) way = -way;
      at += way;
      await page.mouse.move(at, y + height / 2);
      await sleep(Math.max(0, (n * 1_000) / movesPerSecond - (performance.now() - begun)));
    }
  }
  await turnFor(2); // until the size of the frames is settled
  await page.evaluate(() => {
    const readout = document.querySelector(".viewer .figures");
    window.frames_ = [];
    const note = () => {
      const [, width, milliseconds] = /^(\d+) × \d+, (\d+) ms/.exec(readout.textContent);
      window.frames_.push([Number(width), Number(milliseconds)]);
    };
    new MutationObserver(note).observe(document.querySelector(".viewer"), { attributeFilter: ["data-frames"] });
  });
  await turnFor(seconds);
  console.log(JSON.stringify(await page.evaluate(() => window.frames_)));
} finally {
  await browser.close();
}
