// The page in Chromium, by keyboard, against the built nerfd and worker: send examples/mic, train, look, promote.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Line, Nerfd, launchBrowser, sleep, source, step, waitFor } from "./harness.mjs";
import { checkAccessibility, colorsOf, look } from "./looking.mjs";

const nerfd = new Nerfd();
const line = new Line(0);
let browser;

// Presses Tab until an element of this role and name has the focus.
async function tabTo(page, role, name) {
  const wanted = page.getByRole(role, { name, exact: true });
  for (let i = 0; i < 80; ++i) {
    if ((await wanted.count()) > 0 && (await wanted.first().evaluate((element) => element === document.activeElement))) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`no ${role} "${name}" is reached by Tab`);
}

async function press(page, role, name) {
  await tabTo(page, role, name);
  await page.keyboard.press("Enter");
}

// For each new step that nerfd knows of: the milliseconds until the chart of the loss shows it, at most. nerfd learned it after
// the last answer without it was asked for, so the time counts from there.
async function chartDelays(page, name) {
  await page.evaluate(() => {
    const figure = [...document.querySelectorAll("figure")].find((each) => each.querySelector("h2").textContent === "Loss");
    const plot = figure.querySelector(".plot");
    window.drawn = [];
    new MutationObserver(() => window.drawn.push([Date.now(), Number(plot.dataset.last)])).observe(plot, { attributeFilter: ["data-last"] });
  });
  const known = []; // [time, step]
  let last;
  const end = Date.now() + 30_000;
  for (let before = Date.now(); known.length < 5 && Date.now() < end; await sleep(30)) {
    const asked = Date.now();
    const job = await nerfd.job(name);
    if (job.state !== "RUNNING") break;
    const reached = job.progress?.step ?? 0;
    if (last !== undefined && reached > last) known.push([before, reached]);
    last = reached;
    before = asked;
  }
  const isDrawn = async () => (await page.evaluate(() => window.drawn.at(-1)?.[1] ?? 0)) >= known.at(-1)[1];
  if (known.length > 0) await waitFor("the last point", isDrawn, 10_000);
  const drawn = await page.evaluate(() => window.drawn);
  return known.map(([time, reached]) => drawn.find(([, each]) => each >= reached)[0] - time);
}

// A scene whose camera file has no frames.
async function brokenScene() {
  const blob = await nerfd.put("{}");
  return (await nerfd.call("SceneService/CreateScene", { scene: { files: [{ path: "transforms.json", blob }] } })).name;
}

const viewerHelp =
  "View of the scene. Arrow keys turn, W A S D Q E fly, plus and minus zoom, R resets, 1 to 3 choose color, depth and opacity, F turns in place, C shows the cameras, brackets go from photograph to photograph.";
// Whether the viewer's last picture is of this step.
const shownStep = async (page, step) => (await page.locator(".viewer .bar .figures").textContent()).endsWith(`step ${step}`);
const pixelsOf = (locator) => locator.evaluate((canvas) => canvas.toDataURL());
// With the page at its top, where its head covers nothing.
const shotOf = async (page, locator) => {
  await page.evaluate(() => scrollTo(0, 0));
  return (await page.screenshot({ clip: await locator.boundingBox() })).toString("base64");
};

// How far two screenshots of a canvas' place are apart where the canvas is empty, two pixels around what it holds left out: the
// most of a channel, and the share of the pixels that was compared.
const apartBeside = (drawn, shots) =>
  drawn.evaluate(async (canvas, shots) => {
    const pixelsOf = (picture, width, height) => {
      const context = new OffscreenCanvas(width, height).getContext("2d");
      context.drawImage(picture, 0, 0, width, height);
      return context.getImageData(0, 0, width, height).data;
    };
    const pictures = await Promise.all(shots.map((shot) => createImageBitmap(new Blob([Uint8Array.from(atob(shot), (c) => c.charCodeAt(0))]))));
    const { width, height } = pictures[0];
    const [before, after] = pictures.map((picture) => pixelsOf(picture, width, height));
    const over = pixelsOf(canvas, width, height);
    const isBeside = (x, y) => {
      for (let v = Math.max(0, y - 2); v <= Math.min(height - 1, y + 2); ++v)
        for (let u = Math.max(0, x - 2); u <= Math.min(width - 1, x + 2); ++u) if (over[4 * (v * width + u) + 3] > 0) return false;
      return true;
    };
    let most = 0;
    let n = 0;
    for (let y = 0; y < height; ++y)
      for (let x = 0; x < width; ++x) {
        if (!isBeside(x, y)) continue;
        ++n;
        for (let i = 4 * (y * width + x); i % 4 < 3; ++i) most = Math.max(most, Math.abs(before[i] - after[i]));
      }
    return { most, share: n / (width * height) };
  }, shots);

async function run() {
  await nerfd.start();
  line.port = nerfd.port;
  await line.start();
  browser = await launchBrowser();
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // What the browser itself says of requests that a killed server left unanswered is no fault of the page.
    if (message.type() === "error" && !/Failed to load resource|net::ERR/.test(message.text())) errors.push(message.text());
  });
  let nLoads = 0;
  page.on("load", () => ++nLoads);

  await step("without a token, or with a wrong one, the page asks for it", async () => {
    const visitor = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    try {
      const theirs = await visitor.newPage();
      await theirs.goto(line.url);
      await theirs.getByRole("heading", { name: "This server asks for a token" }).waitFor({ timeout: 20_000 });
      assert.equal(await theirs.getByRole("alert").count(), 0);
      await theirs.getByText(`nerfctl --server ${nerfd.ports.grpc} open`, { exact: true }).waitFor();
      await theirs.getByLabel("Token").fill("abc");
      await theirs.getByRole("button", { name: "Open" }).click();
      await theirs.getByRole("alert").filter({ hasText: "The token is unknown or was revoked." }).waitFor({ timeout: 20_000 });
      await look(theirs, "token");
      await theirs.getByLabel("Token").fill(nerfd.token);
      await theirs.getByRole("button", { name: "Open" }).click();
      await theirs.getByRole("heading", { name: "No jobs yet" }).waitFor({ timeout: 20_000 });
    } finally {
      await visitor.close();
    }
  });

  await step("a browser that had the link is remembered, by a token of an editor for it alone, until it is forgotten", async () => {
    const visitor = await browser.newContext();
    const made = async () => ((await nerfd.call("AdminService/ListTokens")).tokens ?? []).filter(({ displayName }) => displayName === "a browser on this computer");
    const keptBy = (tab) => tab.evaluate(() => localStorage.getItem("nerfd-remembered"));
    const opens = async (to) => {
      const tab = await visitor.newPage();
      await tab.goto(to);
      return tab;
    };
    try {
      let own = null;
      for (const i of [1, 2]) {
        const tab = await opens(`${line.url}#token=${nerfd.token}`);
        const before = own;
        await waitFor(`a token by link ${i}`, async () => (own = await keptBy(tab)) !== before);
        const names = [before, own].map((kept) => JSON.parse(kept)?.name);
        await waitFor(`link ${i} leaves one token`, async () => (await made()).filter(({ name }) => names.includes(name)).length === 1);
        await tab.close();
      }
      const token = (await made()).find(({ name }) => name === JSON.parse(own).name);
      assert.equal(token.role, "EDITOR");
      const days = (Date.parse(token.expireTime) - Date.now()) / 86_400_000;
      assert.ok(days > 29 && days <= 30, `${days} days`);
      assert.deepEqual(await visitor.cookies(), [], "nothing is sent to other ports");
      const later = await opens(line.url);
      await later.getByRole("heading", { name: "No jobs yet" }).waitFor({ timeout: 20_000 });
      assert.ok(!(await later.evaluate(() => Object.values({ ...localStorage, ...sessionStorage }).join())).includes(nerfd.token), "the link's token stays with its tab");
      // The same page of another port is another origin.
      const other = await opens(nerfd.url);
      await other.getByRole("heading", { name: "This server asks for a token" }).waitFor({ timeout: 20_000 });
      await later.goto(`${line.url}#/workers`);
      await later.getByText(`nerfctl token rm ${token.name.split("/").at(-1)}`, { exact: true }).waitFor();
      await later.getByRole("button", { name: "Forget this browser" }).click();
      await later.getByRole("heading", { name: "This server asks for a token" }).waitFor({ timeout: 20_000 });
      const again = await opens(`${line.url}#token=${nerfd.token}`);
      await waitFor("another token", () => keptBy(again));
      const kept = await keptBy(again);
      // A viewer's link does not take its place; a link that is refused leaves it, and the page goes on with it.
      const { secret } = await nerfd.call("AdminService/CreateToken", { token: { role: "VIEWER", project: "projects/default" } });
      const lesser = await opens(`${line.url}#token=${secret}`);
      await lesser.getByText("viewer of default").waitFor({ timeout: 20_000 });
      await waitFor("the link to be taken", () => lesser.evaluate(() => sessionStorage.getItem("nerfd-token-is-new") === null));
      await lesser.evaluate(() => void setTimeout(() => (location.hash = "#token=refused"), 0)); // a link that is pasted into the open tab
      await lesser.getByRole("link", { name: "New job" }).waitFor({ timeout: 20_000 });
      assert.equal(await lesser.evaluate(() => sessionStorage.getItem("nerfd-token")), null);
      assert.equal(await keptBy(lesser), kept);
      await lesser.close();
      await again.close();
      await nerfd.call("AdminService/DeleteToken", { name: JSON.parse(kept).name });
      const revoked = await opens(line.url);
      await revoked.getByText("The token is unknown or was revoked.").waitFor({ timeout: 20_000 });
      assert.equal(await revoked.evaluate(() => localStorage.getItem("nerfd-remembered")), null);
    } finally {
      await visitor.close();
    }
  });

  await step("the page says that there are no jobs", async () => {
    await page.goto(`${line.url}#token=${nerfd.token}`);
    await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
    await look(page, "empty");
  });

  await step("files that are no photographs are refused with what to do", async () => {
    await page.evaluate(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(["x"], "a.jpg", { type: "image/jpeg" }));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    });
    const alert = page.getByRole("alert");
    await alert.waitFor();
    assert.match(await alert.textContent(), /None of these can be used.*a\.jpg is no photograph/);
    await look(page, "refused");
    await page.goto(`${line.url}#/jobs`);
  });

  await step("a folder is chosen, named and sent by keyboard, over a line that is cut once", async () => {
    await press(page, "link", "New job");
    await page.getByRole("heading", { name: "Drop photographs, a film or a folder here" }).waitFor();
    const chooser = page.waitForEvent("filechooser");
    await press(page, "button", "Choose a folder");
    await (await chooser).setFiles(join(source, "examples/mic"));
    await page.getByRole("heading", { name: "mic", exact: true }).waitFor();
    await tabTo(page, "textbox", "Name");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("microphone");
    await tabTo(page, "radio", "Standard sharp enough to look around in and share");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await tabTo(page, "spinbutton", "Minutes");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("1.5");
    await look(page, "new");
    const folder = join(source, "examples/mic");
    const sizeOf = (dir) => readdirSync(dir, { withFileTypes: true }).reduce((sum, entry) => sum + (entry.isDirectory() ? sizeOf(join(dir, entry.name)) : readFileSync(join(dir, entry.name)).length), 0);
    const before = line.nSent;
    line.cutAfter(1_200_000);
    await press(page, "button", "Start training");
    await page.getByRole("heading", { name: "microphone" }).waitFor({ timeout: 180_000 });
    assert.equal(line.nCuts, 1);
    const nAgain = line.nSent - before - sizeOf(folder);
    console.log(`    sent beyond the files' own bytes: ${(nAgain / 1024).toFixed(0)} KiB`);
    assert.ok(nAgain <= 1 << 20);
  });

  const reading = async (chart, label) => {
    const text = await page.getByRole("figure").filter({ hasText: chart }).locator(".reading").filter({ hasText: label }).textContent();
    return Number(/[\d.]+/.exec(text.replace(label, ""))?.[0] ?? NaN);
  };

  await step("the chart moves while it trains, at most 2 s behind", async () => {
    await page.getByText("Details", { exact: true }).press("Enter"); // from now on they are open on all jobs' pages
    await waitFor("the first loss", async () => (await reading("Loss", "loss")) > 0, 120_000);
    const plot = page.getByRole("figure").filter({ hasText: "PSNR" }).locator("canvas");
    const first = await pixelsOf(plot);
    await waitFor("the chart to move", async () => (await pixelsOf(plot)) !== first);
    const name = `projects/default/jobs/${page.url().split("/").at(-1)}`;
    const delays = await chartDelays(page, name);
    console.log(`    ${delays.length} points, drawn ${Math.min(...delays)} to ${Math.max(...delays)} ms after nerfd had them, at most`);
    assert.ok(delays.length >= 3 && Math.max(...delays) <= 2_000, `milliseconds: ${delays}`);
  });

  await step("a preview is shown", async () => {
    const preview = page.locator("img.preview").first();
    await preview.waitFor({ timeout: 120_000 });
    assert.ok((await colorsOf(preview)) > 20, "the preview is blank");
    await look(page, "training");
  });

  await step("a hidden tab holds no stream, and goes on when it is seen again", async () => {
    const show = (state) =>
      page.evaluate((value) => {
        Object.defineProperty(document, "visibilityState", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, state);
    const nWatchers = async () => Number(/^nerfd_watchers(?:{[^}]*})? (\d+)/m.exec(await (await fetch(`http://${nerfd.ports.metrics}/metrics`)).text())?.[1]);
    await waitFor("a watcher", async () => (await nWatchers()) > 0);
    await show("hidden");
    await waitFor("no watcher", async () => (await nWatchers()) === 0);
    await show("visible");
    await waitFor("a watcher again", async () => (await nWatchers()) > 0);
  });

  await step("nerfd is killed and comes back: a banner meanwhile, no reload, the stream goes on", async () => {
    const loads = nLoads;
    await nerfd.kill("SIGKILL");
    await page.getByText("nerfd does not answer.").waitFor();
    await checkAccessibility(page, "banner");
    await nerfd.start();
    await page.getByText("nerfd does not answer.").waitFor({ state: "detached", timeout: 90_000 });
    assert.equal(nLoads, loads);
  });

  await step("looked around in, the job shows its final model at the end", async () => {
    await waitFor("more than fog", async () => !(await page.getByRole("button", { name: "Look around" }).isDisabled()));
    await press(page, "button", "Look around");
    const viewer = page.locator(".viewer");
    await viewer.locator("img.poster").waitFor();
    assert.equal(await viewer.getAttribute("data-frames"), "0", "the preview is shown until somebody moves the camera");
    await tabTo(page, "application", viewerHelp);
    await page.keyboard.press("ArrowRight");
    await waitFor("a live frame", async () => Number(await viewer.getAttribute("data-frames")) > 0, 300_000);
    await page.locator(".page-head").getByText("succeeded", { exact: true }).waitFor({ timeout: 600_000 });
    const { progress } = await nerfd.job(page.url().split("/").at(-1));
    await waitFor(`step ${progress.step}`, () => shownStep(page, progress.step), 60_000);
    assert.equal(await viewer.getAttribute("data-mode"), "live");
    assert.equal(await page.locator(".failure").count(), 0);
  });

  await step("the job succeeds", async () => {
    assert.ok((await reading("PSNR", "preview")) > 15);
    // Another browser profile sees the whole curve and all previews, too: nerfd keeps them.
    const id = page.url().split("/").at(-1);
    const kept = await nerfd.call("JobService/ListJobMetrics", { name: `projects/default/jobs/${id}` });
    const seconds = kept.points.map((point) => point.seconds);
    const gap = Math.max(...seconds.slice(1).map((second, i) => second - seconds[i]));
    console.log(`    ${kept.points.length} points, ${kept.previews.length} previews, the longest gap ${gap.toFixed(1)} s of training`);
    assert.ok(kept.points.length > 3 && gap < 4, "points are missing");
    await page.reload();
    await waitFor("the chart after a reload", async () => (await reading("Loss", "loss")) > 0);
    await waitFor("all previews after a reload", async () => kept.previews.length < 2 || Number(await page.getByLabel("Preview by step").getAttribute("max")) >= kept.previews.length - 1);
    await press(page, "button", "Time");
    await page.getByLabel("Logarithmic loss").check();
    await look(page, "succeeded");
  });

  await step("test views are listed, the worst first, and compared by keyboard", async () => {
    const region = page.getByRole("region", { name: "Test views" });
    await region.waitFor({ timeout: 180_000 });
    const buttons = region.locator("ol button");
    const decibels = (await buttons.allTextContents()).map((text) => Number(/(-?[\d.]+) dB/.exec(text)?.[1]));
    assert.ok(decibels.length > 0 && decibels.every((each) => Number.isFinite(each)), `scores: ${decibels}`);
    assert.deepEqual(decibels, [...decibels].sort((a, b) => a - b));
    await press(page, "button", (await buttons.first().textContent()).replace(/\s+/g, " ").trim());
    const canvas = region.locator("canvas.shown");
    await canvas.waitFor({ timeout: 180_000 });
    assert.ok((await colorsOf(canvas)) > 20, "the comparison is blank");
    await look(page, "test-views");
    await tabTo(page, "slider", "Photograph or render");
    await page.keyboard.press("End");
    const photograph = await pixelsOf(canvas);
    await page.keyboard.press("Home");
    const render = await pixelsOf(canvas);
    assert.notEqual(photograph, render);
    await press(page, "button", "Difference");
    await waitFor("the difference", async () => ![photograph, render].includes(await pixelsOf(canvas)));
    await look(page, "difference");
  });

  const trainedPage = page.url();
  await step("the training goes on to a larger budget, as a new job", async () => {
    await press(page, "button", "Train on");
    const field = page.getByLabel("Train on, to");
    assert.ok(Number(await field.inputValue()) >= 1);
    await look(page, "train-on");
    await field.fill("0.1");
    await press(page, "button", "Go on");
    await page.getByRole("alert").getByText("must be above the").waitFor();
    await field.fill("1000");
    await press(page, "button", "Go on");
    await page.getByText("It goes on from the end of").waitFor();
    const next = await nerfd.job(page.url().split("/").at(-1));
    assert.equal(next.effectiveConfig.samples, 1000e6);
    assert.ok(next.checkpoints.length > 0);
    await look(page, "extension");
    await nerfd.call("JobService/CancelJob", { name: next.name });
    await waitFor("its end", async () => (await nerfd.job(next.name)).state === "CANCELLED");
    await nerfd.call("JobService/DeleteJob", { name: next.name });
    await page.goto(trainedPage);
  });
  await step("the list of jobs shows it", async () => {
    await page.goto(`${line.url}#/jobs`);
    await page.getByRole("link", { name: "microphone" }).waitFor();
    await waitFor("the thumbnail", () => page.locator("td.thumb img").count());
    await look(page, "jobs");
    await page.goto(trainedPage);
  });

  await step("promoted by keyboard, the model is looked at and turned", async () => {
    await press(page, "button", "Keep");
    const canvas = page.locator(".box canvas.shown");
    await canvas.waitFor({ timeout: 180_000 });
    const readout = page.locator(".viewer .bar .figures");
    await waitFor("the finest view", async () => Number((await readout.textContent()).split(" ")[0]) > 300, 120_000);
    assert.ok((await colorsOf(canvas)) > 20, "the view is blank");
    await look(page, "model");
    const before = await pixelsOf(canvas);
    await tabTo(page, "application", viewerHelp);
    for (let i = 0; i < 5; ++i) await page.keyboard.press("ArrowRight");
    await waitFor("another view", async () => (await pixelsOf(canvas)) !== before);
    await page.keyboard.press("2");
    await waitFor("a depth view", async () => (await page.getByRole("button", { name: "Depth" }).getAttribute("aria-pressed")) === "true");
    await sleep(500);
    assert.equal(await page.locator(".failure").count(), 0);
    await look(page, "depth");
  });

  await step("it is a live view: the camera flies, and goes from photograph to photograph", async () => {
    const viewer = page.locator(".viewer");
    const framesOf = async () => Number(await viewer.getAttribute("data-frames"));
    const canvas = page.locator(".box canvas.shown");
    const readout = page.locator(".viewer .bar .figures");
    assert.equal(await viewer.getAttribute("data-mode"), "live");
    await page.keyboard.press("1");
    // A turn that goes on: frames come in between.
    const before = await framesOf();
    const begun = Date.now();
    let rate = "";
    while (Date.now() - begun < 3_000 || (await framesOf()) < before + 5) {
      await page.keyboard.press("ArrowRight");
      const shown = await readout.textContent();
      if (shown.includes("fps")) rate = shown;
      await sleep(20);
      assert.ok(Date.now() - begun < 120_000, "no frames come while the camera moves");
    }
    const perSecond = ((await framesOf()) - before) / ((Date.now() - begun) / 1_000);
    console.log(`    ${perSecond.toFixed(1)} frames/s while turning: ${rate}`);
    for (const key of ["w", "]", "f", "ArrowLeft", "r", "-", "c"]) {
      // From far away the cameras around the scene are in sight.
      if (key === "c") for (let i = 0; i < 11; ++i) await page.keyboard.press("-");
      const picture = await pixelsOf(key === "c" ? page.locator("canvas.frusta") : canvas);
      await page.keyboard.down(key);
      await sleep(100);
      await page.keyboard.up(key);
      if (key === "f") continue; // it changes what the next key does
      await waitFor(`a change by ${key}`, async () => (await pixelsOf(key === "c" ? page.locator("canvas.frusta") : canvas)) !== picture);
    }
    assert.equal(await page.getByRole("button", { name: "Fly" }).getAttribute("aria-pressed"), "true");
    await waitFor("the finest view", async () => !(await readout.textContent()).includes("fps"));
    await look(page, "live");
    for (const key of ["c", "f", "r"]) await page.keyboard.press(key);
  });

  await step("two fingers zoom", async () => {
    const box = page.locator(".viewer .box");
    const canvas = page.locator(".box canvas.shown");
    await box.scrollIntoViewIfNeeded();
    const { x, y, width, height } = await box.boundingBox();
    const [middleX, middleY] = [x + width / 2, y + height / 2];
    const share = (locator) =>
      locator.evaluate((canvas) => {
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let dark = 0;
        for (let i = 0; i < pixels.length; i += 4) if (pixels[i] < 128) ++dark;
        return (4 * dark) / pixels.length;
      });
    const far = await share(canvas);
    const before = await pixelsOf(canvas);
    const touch = await page.context().newCDPSession(page);
    const fingers = (apart) => [1, -1].map((side, id) => ({ x: middleX + side * apart, y: middleY, id }));
    await touch.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: fingers(30) });
    for (let apart = 40; apart <= 120; apart += 10) await touch.send("Input.dispatchTouchEvent", { type: "touchMove", touchPoints: fingers(apart) });
    await touch.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
    await waitFor("a closer view", async () => (await pixelsOf(canvas)) !== before && (await share(canvas)) > 1.5 * far);
    await tabTo(page, "application", viewerHelp);
    await page.keyboard.press("r");
    await touch.detach();
  });

  await step("a box is drawn by mouse, finger and numbers, kept with the model, cuts its views and goes again", async () => {
    const name = `projects/default/models/${page.url().split("/").at(-1)}`;
    const cropOf = async () => (await nerfd.call("ModelService/GetModel", { name })).crop;
    const viewer = page.locator(".viewer");
    const canvas = page.locator(".box canvas.shown");
    const form = page.getByRole("form", { name: "Crop" });
    const read = async (field) => Promise.all(["x", "y", "z"].map(async (axis) => Number(await form.getByLabel(`${field} ${axis}`).inputValue())));
    const isFinest = async () => parseInt(await page.locator(".viewer .bar .figures").textContent()) >= Math.floor((await page.locator(".viewer .box").boundingBox()).width);
    const framesOf = async () => Number(await viewer.getAttribute("data-frames"));
    // Waits for the finest picture, of those that are right, after which no other comes.
    const finest = async (what, isRight = () => true) => {
      let picture;
      await waitFor(what, async () => {
        const n = await framesOf();
        picture = await pixelsOf(canvas);
        if (!(await isFinest()) || !isRight(picture)) return false;
        await sleep(300);
        return n === (await framesOf());
      }, 30_000);
      return picture;
    };
    const box = page.locator(".viewer .box");
    const drawn = box.locator("canvas.frusta");
    await tabTo(page, "button", "Crop"); // away from the view, whose outline would be seen
    await finest("the finest view");
    const undrawn = await shotOf(page, box);
    const nFrames = await framesOf();
    await press(page, "button", "Crop");
    await waitFor("a new frame", async () => (await framesOf()) > nFrames);
    const whole = await finest("the finest view of all");
    const whileDrawn = await apartBeside(drawn, [undrawn, await shotOf(page, box)]);
    assert.ok(whileDrawn.most <= 2 && whileDrawn.share > 0.7 && whileDrawn.share < 0.99, `beside the box: ${JSON.stringify(whileDrawn)}`);
    const start = await read("Center");
    await look(page, "crop");
    // The green point is in the middle of the view at first; a drag of it moves the box, not the camera.
    const drag = async (move) => {
      await page.locator(".viewer .box").scrollIntoViewIfNeeded();
      const { x, y, width, height } = await page.locator(".viewer .box").boundingBox();
      await move([x + width / 2, y + height / 2]);
    };
    await drag(async ([x, y]) => {
      await page.mouse.move(x, y);
      await page.mouse.down();
      await page.mouse.move(x + 60, y, { steps: 3 });
      await page.mouse.move(x + 30, y - 30);
      await page.mouse.up();
    });
    const byMouse = await read("Center");
    assert.ok(Math.hypot(...byMouse.map((number, i) => number - start[i])) > 0.05, `${start} to ${byMouse}`);
    await finest("the same view: the camera does not move, too", (picture) => picture === whole);
    for (const [i, axis] of ["x", "y", "z"].entries()) {
      await form.getByLabel(`Center ${axis}`).fill(String(start[i]));
      await form.getByLabel(`Center ${axis}`).press("Tab");
    }
    await page.setViewportSize({ width: 400, height: 800 });
    const touch = await page.context().newCDPSession(page);
    await drag(async ([x, y]) => {
      await touch.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [{ x: x + 12, y, id: 0 }] });
      for (let i = 1; i <= 3; ++i) await touch.send("Input.dispatchTouchEvent", { type: "touchMove", touchPoints: [{ x: x + 12 - 10 * i, y, id: 0 }] });
      await touch.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
    });
    await touch.detach();
    assert.notDeepEqual(await read("Center"), start, "by touch");
    await look(page, "crop-narrow");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "too wide");
    await page.setViewportSize({ width: 1280, height: 900 });
    for (const [label, value] of [["Center x", "0.1"], ["Center y", "0"], ["Center z", "0.25"], ["Size x", "0.9"], ["Size y", "0"], ["Size y", "0.7"], ["Size z", "0.6"], ["Turn z", "30"]]) {
      await form.getByLabel(label).fill(value);
      await form.getByLabel(label).press("Tab"); // Size y of 0 is left out
    }
    await press(page, "button", "Inside");
    const inside = await finest("what is in the box", (picture) => picture !== whole);
    const whileCut = await apartBeside(drawn, [undrawn, await shotOf(page, box)]);
    assert.ok(whileCut.most > 40, `what is outside of the box is still shown: ${JSON.stringify(whileCut)}`);
    await look(page, "crop-inside");
    const before = await framesOf();
    await press(page, "button", "Keep this crop");
    await form.waitFor({ state: "detached" });
    await waitFor("a new frame", async () => (await framesOf()) > before);
    await finest("what is in the box that is kept", (picture) => picture !== whole);
    const kept = await cropOf();
    assert.deepEqual([kept.center, kept.size.slice(0, 3)], [[0.1, 0, 0.25], [0.9, 0.7, 0.6]]);
    assert.ok(Math.abs(kept.turn[2] - Math.sin(Math.PI / 12)) < 1e-6 && Math.abs(kept.turn[3] - Math.cos(Math.PI / 12)) < 1e-6, `turn: ${kept.turn}`);
    const checked = await nerfd.call("JobService/CreateJob", { validateOnly: true, job: { export: { model: name, format: "VIEWER" } } });
    assert.deepEqual(checked.export.box, kept);
    await press(page, "button", "Crop");
    await press(page, "button", "Remove the crop");
    await form.waitFor({ state: "detached" });
    await finest("all of it again", (picture) => picture !== inside);
    assert.equal(await cropOf(), undefined);
  });

  const modelUrl = page.url();
  await step("stills of a job show its final model at the end, too", async () => {
    const { scene } = await nerfd.job(trainedPage.split("/").at(-1));
    const { name } = await nerfd.createJob("training", { scene, config: { seconds: 60 } }, { displayName: "stills" });
    const refuse = (route) => route.fulfill({ status: 404 });
    await page.route("**/nerf.v1.ViewService/*", refuse);
    await page.goto(`${line.url}#/jobs/${name.split("/").at(-1)}`);
    await waitFor("more than fog", async () => !(await page.getByRole("button", { name: "Look around" }).isDisabled()));
    await press(page, "button", "Look around");
    await tabTo(page, "application", viewerHelp);
    await page.keyboard.press("ArrowRight");
    const shown = page.locator(".viewer .bar .figures");
    await waitFor("a still", async () => /step \d/.test(await shown.textContent()), 300_000);
    const before = Number(/step (\d+)/.exec(await shown.textContent())[1]);
    await page.locator(".page-head").getByText("succeeded", { exact: true }).waitFor({ timeout: 300_000 });
    const { progress } = await nerfd.job(name);
    // A busy machine gives up the stills of a training, so the first one may be of its end.
    console.log(`    the first still: step ${before} of ${progress.step}`);
    await waitFor(`step ${progress.step} in place of ${before}`, () => shownStep(page, progress.step), 60_000);
    await page.unroute("**/nerf.v1.ViewService/*", refuse);
    await nerfd.call("JobService/DeleteJob", { name });
    await page.goto(modelUrl);
  });

  await step("stills stand in where no worker offers live views", async () => {
    const refuse = (route) => route.fulfill({ status: 404 });
    await page.route("**/nerf.v1.ViewService/*", refuse);
    await page.reload();
    const viewer = page.locator(".viewer");
    await waitFor("stills", async () => (await viewer.count()) === 1 && (await viewer.getAttribute("data-mode")) === "stills");
    await page.locator(".box canvas.shown").waitFor({ timeout: 120_000 });
    assert.equal(await page.locator(".failure").count(), 0);
    await page.unroute("**/nerf.v1.ViewService/*", refuse);
    await page.reload();
    await waitFor("live frames", async () => (await viewer.count()) === 1 && Number(await viewer.getAttribute("data-frames")) > 0, 120_000);
  });

  await step("a link shows this model alone, to another profile, until it is revoked or expires", async () => {
    await tabTo(page, "checkbox", "With the viewer file, which holds the model, to download");
    await page.keyboard.press("Space");
    await press(page, "button", "Make a link");
    const link = await page.getByLabel("The link").inputValue({ timeout: 90_000 });
    assert.match(link, /#share=[0-9a-f]{64}$/);
    await look(page, "share");
    const name = `projects/default/models/${page.url().split("/").at(-1)}`;
    const stranger = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    try {
      stranger.setDefaultTimeout(120_000);
      const shared = await stranger.newPage();
      shared.on("pageerror", (error) => errors.push(String(error)));
      await shared.goto(link);
      await shared.getByRole("heading", { name: "microphone" }).waitFor({ timeout: 180_000 });
      const canvas = shared.locator(".box canvas.picture.shown");
      await canvas.waitFor({ timeout: 180_000 });
      assert.ok((await colorsOf(canvas)) > 20, "the shared view is blank");
      const before = await pixelsOf(canvas);
      await tabTo(shared, "application", viewerHelp);
      await shared.keyboard.press("ArrowRight");
      await waitFor("another view", async () => (await pixelsOf(canvas)) !== before);
      await look(shared, "shared");
      const downloading = shared.waitForEvent("download");
      await shared.getByRole("button", { name: /^Download viewer\.html \(/ }).press("Enter");
      const file = await downloading;
      assert.match(file.suggestedFilename(), /-viewer\.html$/);
      assert.match(readFileSync(await file.path()).subarray(0, 15).toString(), /^<!doctype html>$/i);
      // The token opens nothing else.
      const statusOf = (method, request) =>
        shared.evaluate(
          async ([path, body, token]) => {
            const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
            return (await fetch(path, { method: "POST", headers, body })).status;
          },
          [`./nerf.v1.${method}`, JSON.stringify(request), link.split("=").at(-1)],
        );
      assert.equal(await statusOf("ModelService/GetModel", { name }), 200);
      assert.equal(await statusOf("ModelService/ListModels", {}), 403);
      assert.equal(await statusOf("JobService/ListJobs", {}), 403);
      assert.equal(await statusOf("ModelService/GetModel", { name: `${name}2` }), 403);
      assert.equal(await statusOf("ModelService/ListShares", { parent: name }), 403);
      await tabTo(page, "button", await page.getByRole("button", { name: /^Revoke the share/ }).getAttribute("aria-label"));
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: /^Revoke the share/ }).waitFor({ state: "detached" });
      await shared.reload();
      await shared.getByRole("heading", { name: "This link is not valid" }).waitFor();
      await look(shared, "share-refused");
      const expireTime = new Date(Date.now() + 1_000).toISOString();
      const { secret } = await nerfd.call("ModelService/CreateShare", { parent: name, share: { expireTime } });
      await sleep(1_100);
      await shared.goto(link.replace(/=.*/, `=${secret}`));
      await shared.getByRole("heading", { name: "This link has expired" }).waitFor();
    } finally {
      await stranger.close();
    }
  });

  // scripts/setup.sh --test installs it.
  await step("a mesh is made by a worker and downloaded, by keyboard", async () => {
    await page.getByLabel("Also for phones").check();
    await page.getByText(/At most [0-9.]+ MB/).waitFor();
    await page.getByLabel("As", { exact: true }).selectOption({ label: "Mesh (GLB)" });
    await page.getByLabel("Axes", { exact: true }).selectOption({ label: "Blender" });
    const downloading = page.waitForEvent("download", { timeout: 240_000 });
    await press(page, "button", "Export");
    const download = await downloading.catch(async (error) => {
      const [newest] = await nerfd.jobs("kind = export");
      throw new Error(`${error.message}\n${newest?.name} is ${newest?.state}; the page says: ${await page.getByRole("region", { name: "Export" }).innerText()}`);
    });
    assert.match(download.suggestedFilename(), /-mesh\.glb$/);
    assert.equal(readFileSync(await download.path()).subarray(0, 4).toString(), "glTF");
    await page.getByRole("status").getByText("mesh.glb, ").waitFor();
    const exports = page.getByRole("list", { name: "Exports" });
    const picture = exports.getByRole("img");
    await picture.waitFor();
    assert.ok((await colorsOf(picture)) > 20, "the picture of the mesh is blank");
    assert.deepEqual(await exports.locator("b").allTextContents(), ["mesh.glb", "viewer.html"]);
    await exports.getByRole("button", { name: /^Show / }).click(); // the viewer: a view of its model
    const view = exports.getByRole("img", { name: /^View of viewer.html/ });
    await view.waitFor();
    assert.ok((await colorsOf(view)) > 20, "the picture of the viewer is blank");
    const made = await nerfd.jobs("kind = export");
    await page.reload(); // a file is not fetched for its picture unless that is asked for
    await press(page, "button", `Show ${made[0].name.split("/").at(-1)}`);
    await picture.waitFor();
    await press(page, "button", `Delete ${made[1].name.split("/").at(-1)}`);
    await waitFor("one row", async () => (await exports.locator("b").allTextContents()).join() === "mesh.glb");
    await look(page, "export");
  });

  if (spawnSync("ffmpeg", ["-version"]).error) console.log("SKIPPED the movie: no ffmpeg");
  else await step("a movie through two keyframes is made and plays", async () => {
    await press(page, "button", "Add this view");
    await tabTo(page, "application", viewerHelp);
    for (let i = 0; i < 5; ++i) await page.keyboard.press("ArrowLeft");
    await press(page, "button", "Add this view");
    const canvas = page.locator(".box canvas.shown");
    const second = await pixelsOf(canvas);
    await page.getByLabel("As", { exact: true }).selectOption({ label: "Path for nerfstudio (JSON)" });
    await page.getByText("Along the 2 keyframes of the movie, 120 frames. About ").waitFor();
    const downloading = page.waitForEvent("download", { timeout: 60_000 });
    await press(page, "button", "Export");
    const { camera_path } = JSON.parse(readFileSync(await (await downloading).path()));
    assert.equal(camera_path.length, 120);
    await look(page, "export-path");
    await press(page, "button", "Look from keyframe 1");
    await waitFor("the view of the first keyframe", async () => (await pixelsOf(canvas)) !== second);
    await tabTo(page, "spinbutton", "Seconds");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("1.6");
    await tabTo(page, "combobox", "Height");
    await page.keyboard.press("Home");
    await press(page, "button", "Make the film (48 frames)");
    const video = page.locator("video");
    await video.waitFor({ timeout: 120_000 });
    await waitFor("the movie to load", () => video.evaluate((element) => element.readyState >= 1 && element.duration > 0));
    const { seconds, height } = await video.evaluate((element) => ({ seconds: element.duration, height: element.videoHeight }));
    assert.equal(height, 320);
    assert.ok(Math.abs(seconds - 1.6) < 0.05, `${seconds} s`);
    await video.evaluate((element) => element.play());
    await waitFor("the movie to play", () => video.evaluate((element) => element.currentTime > 1));
    await video.evaluate((element) => element.pause());
    await look(page, "movie");
    const [{ movieBlob }] = await nerfd.jobs("kind = render");
    const { sha256, sizeBytes } = movieBlob;
    const content = Buffer.from(await (await fetch(`${nerfd.url}blobs/${sha256}/${sizeBytes}`, { headers: nerfd.bearer })).arrayBuffer());
    assert.ok(content.indexOf("moov") < content.indexOf("mdat"), "the index is not in front");
    const file = join(nerfd.folder, "movie.mp4");
    writeFileSync(file, content);
    const entries = "stream=codec_name,width,height,pix_fmt,r_frame_rate,nb_read_frames";
    const probe = spawnSync("ffprobe", ["-v", "error", "-count_frames", "-show_entries", entries, "-of", "csv=p=0", file], { encoding: "utf8" });
    assert.equal(probe.stdout.trim(), "h264,320,320,yuv420p,30/1,48", probe.stderr);
    await page.getByRole("region", { name: "Film" }).getByText("More", { exact: true }).press("Enter");
    await page.getByLabel("Made as").selectOption({ label: "EXR frames (zip)" });
    await page.getByLabel("Seconds").fill("0.1");
    await press(page, "button", "Render (3 frames)");
    await page.getByRole("button", { name: /^Download frames of / }).waitFor({ timeout: 60_000 });
    const saving = page.waitForEvent("download", { timeout: 30_000 });
    await press(page, "button", await page.getByRole("button", { name: /^Download frames of / }).getAttribute("aria-label"));
    const listing = spawnSync("python3", ["-m", "zipfile", "-l", await (await saving).path()]).stdout.toString();
    assert.deepEqual(listing.match(/\S+\.exr/g), ["rgb_0000.exr", "rgb_0001.exr", "rgb_0002.exr"]);
  });

  const modelPage = page.url();
  await step("films and exports are jobs in the list, too, with pages of their own", async () => {
    const made = (await nerfd.jobs("kind != training")).map(({ name }) => name.split("/").at(-1));
    assert.ok(made.length > 0);
    for (const [i, id] of made.entries()) {
      await page.goto(`${line.url}#/jobs`);
      await page.locator(`a[href="#/jobs/${id}"]`).click();
      await page.getByRole("heading", { name: "microphone" }).waitFor();
      await page.getByText("Download", { exact: true }).waitFor();
      await look(page, `made-${i}`);
    }
  });

  let jobPage;
  await step("a job that failed says why, once, in the list and on its page", async () => {
    const scene = await brokenScene();
    const job = await nerfd.createJob("training", { scene, config: { steps: 10 } }, { displayName: "broken" });
    await page.goto(`${line.url}#/jobs`);
    const row = page.getByRole("row").filter({ hasText: "broken" });
    await row.getByRole("cell", { name: "failed", exact: true }).waitFor();
    const reason = await row.textContent();
    assert.match(reason, /transforms\.json.*frames/);
    assert.ok(!reason.includes(nerfd.folder), `it names a folder of the worker: ${reason}`);
    await look(page, "jobs-failed");
    await page.goto(`${line.url}#/jobs/${job.name.split("/").at(-1)}`);
    const alert = page.getByRole("alert");
    await alert.waitFor();
    const text = await alert.textContent();
    assert.equal(text.match(/frames/g).length, 1, text);
    assert.equal(await page.getByRole("figure").count(), 0, "it has empty charts");
    await look(page, "failed");
    jobPage = page.url();
  });

  await step("a job and a model that are not there say so", async () => {
    for (const kind of ["jobs", "models"]) {
      await page.goto(`${line.url}#/${kind}/nothing`);
      await page.getByRole("alert").filter({ hasText: `There is no ${kind.slice(0, -1)}` }).waitFor();
      await look(page, `no-${kind}`);
    }
    let nAsked = 0;
    const onRequest = (request) => (nAsked += /GetJob$/.test(request.url()) ? 1 : 0);
    page.on("request", onRequest);
    await page.goto(`${line.url}#/compare/nothing/none`);
    await page.getByRole("alert").filter({ hasText: /There is no job no/ }).waitFor();
    await sleep(4_000);
    page.off("request", onRequest);
    assert.equal(nAsked, 2, "it asks again for what is gone");
  });

  let wholePage;
  await step("a shared training shows its parts, and a part its whole", async () => {
    const { scene } = await nerfd.job(trainedPage.split("/").at(-1));
    const config = { method: "ngp-tiles", settings: { tiles: "2" }, steps: 600 };
    const { name } = await nerfd.createJob("training", { scene, config, workers: { min: 2, max: 2 } }, { displayName: "two tiles" });
    const { parts } = await nerfd.job(name);
    assert.equal(parts.length, 2);
    const ids = parts.map((part) => part.split("/").at(-1));
    wholePage = `${line.url}#/jobs/${name.split("/").at(-1)}`;
    await page.goto(wholePage);
    const region = page.getByRole("region", { name: "Parts" });
    await region.waitFor();
    assert.deepEqual(await region.getByRole("link").allTextContents(), ids);
    await region.getByText("succeeded", { exact: true }).first().waitFor({ timeout: 180_000 });
    for (const chart of ["PSNR", "Loss", "Speed"]) await waitFor(`${chart} of a part`, async () => (await reading(chart, "part 0")) > 0);
    await look(page, "parts");
    await press(page, "link", ids[1]);
    await page.getByText("A part of").waitFor();
    for (const button of ["Pause", "Cancel", "Retry", "Train on", "Delete"]) assert.equal(await page.getByRole("button", { name: button }).count(), 0, button);
    await look(page, "part");
    await press(page, "link", name.split("/").at(-1));
    await region.waitFor();
    await page.locator(".page-head").getByText("succeeded", { exact: true }).waitFor({ timeout: 300_000 });
    await waitFor("both parts to have succeeded", async () => (await region.getByText("succeeded", { exact: true }).count()) === 2);
    const bars = region.getByRole("progressbar");
    assert.deepEqual(await bars.evaluateAll((all) => all.map((bar) => bar.getAttribute("aria-valuenow"))), ["100", "100"]);
    // Another browser profile sees the lines of both from their beginning: nerfd keeps them.
    await page.reload();
    for (const [i, part] of parts.entries()) {
      const kept = await nerfd.call("JobService/ListJobMetrics", { name: part });
      for (const chart of ["PSNR", "Loss", "Speed"]) {
        await waitFor(`${chart} of part ${i}`, async () => (await reading(chart, `part ${i}`)) > 0);
      }
      // Beside the title is the last value, to two digits where nothing is smoothed.
      await page.getByLabel("Smoothing").fill("0");
      assert.equal(await reading("Loss", `part ${i}`), Number(kept.points.at(-1).loss.toPrecision(2)));
    }
    await look(page, "parts-succeeded");
  });

  await step("the filter finds jobs beyond the first page", async () => {
    const scene = await brokenScene();
    const later = [];
    for (let i = 0; i < 52; ++i) {
      later.push((await nerfd.createJob("training", { scene, config: { steps: 10 } }, { displayName: `later ${i}` })).name);
    }
    await page.goto(`${line.url}#/jobs`);
    await page.getByRole("link", { name: "later 51" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "microphone" }).count(), 0);
    const filter = page.getByRole("searchbox", { name: "Filter jobs" });
    await tabTo(page, "searchbox", "Filter jobs");
    await page.keyboard.type("microphone");
    await page.getByRole("link", { name: "microphone" }).first().waitFor();
    await look(page, "jobs-filtered");
    await filter.fill("nothing like it");
    await page.getByText("No job matches “nothing like it”.", { exact: true }).waitFor();
    // The worker has failed some of them already.
    await Promise.allSettled(later.map((name) => nerfd.call("JobService/CancelJob", { name })));
  });

  await step("models, workers", async () => {
    await page.goto(`${line.url}#/models`);
    await page.getByRole("link", { name: "microphone" }).waitFor();
    await look(page, "models");
    await page.goto(`${line.url}#/workers`);
    await page.getByText("idle").waitFor({ timeout: 90_000 });
    await look(page, "workers");
    const { workers } = await nerfd.call("AdminService/ListWorkers");
    await nerfd.call("AdminService/DrainWorker", { name: workers[0].name });
    await page.getByText("drained", { exact: true }).waitFor({ timeout: 90_000 });
    await nerfd.call("AdminService/UndrainWorker", { name: workers[0].name });
    await page.getByText("idle", { exact: true }).waitFor({ timeout: 90_000 });
  });

  await step("a token for another project opens that one; an admin chooses among them", async () => {
    const { secret } = await nerfd.call("AdminService/CreateToken", { token: { role: "EDITOR", project: "projects/lab" } });
    const member = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    try {
      member.setDefaultTimeout(120_000);
      const theirs = await member.newPage();
      theirs.on("pageerror", (error) => errors.push(String(error)));
      await theirs.goto(`${line.url}#token=${secret}`);
      await theirs.waitForURL(/\?project=lab#/);
      await theirs.getByRole("heading", { name: "No jobs yet" }).waitFor();
      await press(theirs, "link", "New job");
      const chooser = theirs.waitForEvent("filechooser");
      await press(theirs, "button", "Choose a folder");
      await (await chooser).setFiles(join(source, "examples/mic"));
      await theirs.getByText("125 pictures").waitFor();
      await theirs.getByLabel("Custom").check();
      await theirs.getByRole("spinbutton", { name: "Minutes" }).fill("0.1"); // fewer leave fog, whose evaluation takes longer
      await press(theirs, "button", "Start training");
      await theirs.getByText("succeeded", { exact: true }).waitFor({ timeout: 300_000 });
      await theirs.locator(".box canvas.picture.shown").waitFor();
      await look(theirs, "project");
    } finally {
      await member.close();
    }
    assert.equal((await nerfd.jobs("", "projects/lab")).length, 1);
    await page.goto(`${line.url}#/jobs`);
    await page.reload();
    await page.getByLabel("Project").selectOption("lab");
    await page.waitForURL(/\?project=lab#\/jobs/);
    await page.getByRole("link", { name: "mic", exact: true }).waitFor();
    assert.equal(await page.getByRole("link", { name: "later 51" }).count(), 0);
    await page.getByLabel("Project").selectOption("default");
    await page.waitForURL((url) => url.search === "");
    await page.getByRole("link", { name: "later 51" }).waitFor();
  });

  await step("everything fits a screen of 400 pixels", async () => {
    await page.setViewportSize({ width: 400, height: 800 });
    const views = { jobs: "#/jobs", new: "#/new", models: "#/models", workers: "#/workers", job: trainedPage, failed: jobPage, whole: wholePage, model: modelPage };
    for (const [name, to] of Object.entries(views)) {
      await page.goto(to.startsWith("#") ? line.url + to : to);
      await page.locator("h1").waitFor();
      if (name === "job") await page.getByRole("region", { name: "Test views" }).waitFor();
      if (name === "model") await page.locator("video").waitFor();
      if (["jobs", "models"].includes(name)) await page.getByRole("row").nth(1).waitFor();
      await look(page, `${name}-narrow`);
      const wide = await page.evaluate(() =>
        [document.documentElement, ...document.querySelectorAll("main *")]
          .filter((each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0 && !["hidden", "clip"].includes(getComputedStyle(each).overflowX))
          .filter((each) => each === document.documentElement || getComputedStyle(each).display !== "inline")
          .map((each) => `${each.tagName}.${each.className} ${each.scrollWidth} in ${each.clientWidth}`),
      );
      assert.deepEqual(wide, [], `${name} is too wide`);
    }
  });

  assert.deepEqual(errors, [], "the page threw");
}

try {
  await run();
} catch (error) {
  console.error(error);
  console.error(readFileSync(nerfd.log, "utf8").split("\n").slice(-40).join("\n"));
  process.exitCode = 1;
} finally {
  await browser?.close();
  line.end();
  await nerfd.end();
}
