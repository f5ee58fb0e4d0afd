// Photographs dropped on the page in Chromium, until their training shows a live view. tests/bench/photographs_to_view.py starts
// it, by run_page.sh, for a nerfd that runs: NERF_PAGE is its page's address, NERF_TOKEN a token, NERF_PHOTOGRAPHS their folder.
// Prints every change of what the page says of progress as a line, and LIVE once a frame is drawn. NERF_SCREENSHOTS: a folder.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { launchBrowser, sleep, waitFor } from "./harness.mjs";

const { NERF_PAGE: address, NERF_TOKEN: token, NERF_PHOTOGRAPHS: folder, NERF_SCREENSHOTS: screenshots } = process.env;
const shootEveryMs = 15_000;
const patienceMs = 1_800_000;

const browser = await launchBrowser();
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.setDefaultTimeout(patienceMs);
  await page.exposeFunction("say", (text) => console.log(text));
  // A page cannot read this machine's files: it fetches them from here, then drops them.
  await page.route("**/bench/*", (route) => route.fulfill({ body: readFileSync(join(folder, decodeURIComponent(route.request().url().split("/").at(-1)))) }));
  await page.goto(`${address}#token=${token}`);
  await page.goto(`${address}#/new`);
  await page.getByRole("heading", { name: "Drop photographs" }).waitFor();
  await page.evaluate(() => {
    let last = "";
    const note = () => {
      const text = document.querySelector(".progress, section.stages, .next, dl.facts")?.textContent.replace(/\s+/g, " ").trim() ?? "";
      if (text && text !== last) window.say((last = text));
    };
    new MutationObserver(note).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
  });
  await page.evaluate(async (names) => {
    const transfer = new DataTransfer();
    for (const name of names) transfer.items.add(new File([await (await fetch(`bench/${encodeURIComponent(name)}`)).blob()], name));
    window.say("DROPPED");
    window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }, readdirSync(folder).sort());
  await page.getByRole("button", { name: "Start training" }).click();
  const viewer = page.locator(".viewer");
  const isLive = async () => (await viewer.count()) === 1 && Number(await viewer.getAttribute("data-frames")) > 0;
  let shots = 0;
  const timer = setInterval(() => {
    if (screenshots) page.screenshot({ path: join(screenshots, `photographs-${String(++shots).padStart(2, "0")}.png`) }).catch(() => {});
  }, shootEveryMs);
  await waitFor("a live frame", isLive, patienceMs);
  console.log("LIVE");
  clearInterval(timer);
  await sleep(500);
  if (screenshots) await page.screenshot({ path: join(screenshots, "photographs-live.png") });
} finally {
  await browser.close();
}
