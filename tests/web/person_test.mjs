// What somebody who knows no radiance fields meets on the page, in Chromium: the preview beside its photograph, a film, a link and a
// file of a finished job, minutes in place of samples, stillness, and what a viewer is not offered.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Nerfd, launchBrowser, sleep, source, step, waitFor } from "./harness.mjs";
import { colorsOf, look } from "./looking.mjs";

const nerfd = new Nerfd();
let browser;
const jargon = /PSNR|\b[Ss]tep\b|rays|Attempt|Loss|Seed|Promote|samples|Tensors/;
const visibleText = (page) => page.locator("main").innerText();

async function run() {
  await nerfd.start();
  browser = await launchBrowser();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  const idOfPage = () => page.url().split("/").at(-1);
  const jobOfPage = () => nerfd.job(idOfPage());

  await step("without a worker a new job says so before anything is sent, until one is there", async () => {
    const list = "**/nerf.v1.AdminService/ListWorkers";
    await page.route(list, (route) => route.fulfill({ status: 200, contentType: "application/proto", body: "" }));
    await page.goto(`${nerfd.url}?#token=${nerfd.token}`);
    await page.getByRole("link", { name: "New job" }).click();
    await page.getByRole("alert").filter({ hasText: "No worker is connected." }).waitFor();
    await page.unroute(list);
    await page.getByRole("alert").waitFor({ state: "detached" });
  });

  await step("how long to train is asked in a person's words, without a pace that nobody knows", async () => {
    await page.goto(`${nerfd.url}#token=${nerfd.token}`);
    await page.getByRole("link", { name: "New job" }).click();
    const chooser = page.waitForEvent("filechooser");
    await page.getByRole("button", { name: "Choose a folder" }).click();
    await (await chooser).setFiles(join(source, "examples/mic"));
    await page.getByRole("heading", { name: "mic", exact: true }).waitFor();
    const text = await visibleText(page);
    assert.doesNotMatch(text, jargon);
    assert.doesNotMatch(text, /about \d+ minute/);
    await page.getByText("is known once something trained on it for some seconds").waitFor();
    await page.getByLabel("Custom").check();
    await page.getByRole("spinbutton", { name: "Minutes" }).fill("0.25");
    await page.getByRole("button", { name: "Start training" }).click();
  });

  await step("nothing moves on the page of a running job while nothing changes", async () => {
    await page.locator(".page-head .badge.busy").waitFor({ timeout: 120_000 });
    const moving = await page.evaluate(() => document.getAnimations().filter(({ effect }) => effect.getComputedTiming().endTime === Infinity).map(({ effect }) => effect.target.outerHTML));
    assert.deepEqual(moving, []);
  });

  await step("its time left is shown as soon as it says how far it is", async () => {
    const line = page.locator(".progress");
    await line.waitFor({ timeout: 120_000 });
    assert.match(await line.innerText(), /left/, "with the first report");
    await waitFor("five seconds of training", async () => ((await nerfd.jobs("kind = training"))[0].progress?.seconds ?? 0) >= 5);
    const other = await page.context().newPage();
    await other.goto(`${nerfd.url}#/new`);
    await other.getByText("As fast as mic trained.").waitFor();
    await other.close();
  });

  let nFrames = 0;
  await step("a training shows its newest preview beside the photograph, and asks for no live view", async () => {
    await page.route("**/nerf.v1.ViewService/StreamViews", (route) => (++nFrames, route.continue()));
    await page.getByRole("heading", { name: "mic", exact: true }).waitFor({ timeout: 120_000 });
    const preview = page.locator("img.preview");
    await waitFor("the pair", async () => (await preview.count()) === 2, 120_000);
    await waitFor("the photograph", () => preview.nth(1).evaluate((image) => image.naturalWidth > 0));
    assert.ok((await colorsOf(preview.first())) > 20, "the preview is blank");
    assert.doesNotMatch(await visibleText(page), jargon);
    assert.equal(nFrames, 0);
    await look(page, "person-training");
  });

  await step("a finished job has its picture first and large, and film, link and file without a promotion", async () => {
    await page.locator(".page-head").getByText("succeeded", { exact: true }).waitFor({ timeout: 300_000 });
    const canvas = page.locator(".box canvas.picture.shown");
    await canvas.waitFor({ timeout: 120_000 });
    const { width, height, y } = await canvas.boundingBox();
    assert.ok(width >= 500 && height >= 500 && y < 400, `${width} x ${height} at ${y}`);
    assert.doesNotMatch(await visibleText(page), jargon);
    for (const name of ["Film", "Export", "Share"]) await page.getByRole("heading", { name, exact: true }).waitFor();
    assert.equal(((await nerfd.call("ModelService/ListModels")).models ?? []).length, 0);
    await look(page, "person-finished");
  });

  await step("a film says its path in words and shows some of its frames first, and takes the path that suits the photographs", async () => {
    const film = page.getByRole("region", { name: "Film" });
    await film.getByText("It flies once around the scene").waitFor({ timeout: 120_000 });
    await waitFor("the strip", async () => (await film.locator(".strip img").count()) === 6, 120_000);
    assert.ok((await colorsOf(film.locator(".strip img").nth(3))) > 10, "the strip is blank");
    await look(page, "person-film");
    await film.getByLabel("Seconds").fill("0.3");
    await film.getByLabel("Height").selectOption("320");
    await film.getByRole("button", { name: /^Make the film/ }).click();
    const films = await waitFor("the film's job", async () => {
      const found = await nerfd.jobs("kind = render");
      return found.length === 1 && found;
    });
    const { path } = await nerfd.job(films[0].name);
    assert.equal(path.scene.path, "PATH_AUTO");
    if (spawnSync("ffmpeg", ["-version"]).error) return console.log("SKIPPED the film itself: no ffmpeg");
    await film.getByRole("link", { name: "Download" }).waitFor({ timeout: 120_000 });
    assert.equal(await film.getByRole("link", { name: "Download" }).getAttribute("download"), "mic.mp4");
  });

  await step("a link says that it works on this computer alone, and the viewer file is offered, named after the scene", async () => {
    const share = page.getByRole("region", { name: "Shares" });
    await share.getByText(/works on this computer alone.*send them the viewer file/).waitFor();
    await share.getByRole("button", { name: "Make a link" }).click();
    assert.match(await share.getByLabel("The link").inputValue(), /#share=/);
    const { models } = await nerfd.call("ModelService/ListModels");
    assert.deepEqual(models.map(({ displayName }) => displayName), ["mic"], "the job is kept as a model");
    const downloading = page.waitForEvent("download", { timeout: 120_000 });
    await share.getByRole("button", { name: "Save the viewer file" }).click();
    assert.equal((await downloading).suggestedFilename(), "mic-viewer.html");
    await page.getByRole("button", { name: "Keep", exact: true }).click();
    await page.waitForURL(/#\/models\//);
    assert.equal((await nerfd.call("ModelService/ListModels")).models.length, 1, "it is kept once");
    await page.goBack();
  });

  await step("an export says what it waits for as long as it would, then its time left, in one bar", async () => {
    const [{ name, displayName }] = await nerfd.jobs("kind = training");
    const checkpoint = `${name}/checkpoints/-`;
    const film = await nerfd.createJob("render", { checkpoint, path: { scene: { path: "PATH_AUTO", frames: 900 } }, width: 640, height: 640, movie: true }, { displayName });
    await waitFor("the film to be rendered", async () => (await nerfd.job(film.name)).state === "RUNNING");
    await page.reload();
    const exporting = page.getByRole("region", { name: "Export" });
    await exporting.getByText(/It would wait: the only worker is busy/).waitFor();
    const films = page.getByRole("region", { name: "Film" });
    await films.getByText(/\d+ of 900 frames, about .* left/).waitFor();
    await films.getByRole("img", { name: "The newest frame", exact: true }).waitFor();
    await look(page, "person-film-going");
    await nerfd.call("JobService/CancelJob", { name: film.name });
    await exporting.getByText("It would wait").waitFor({ state: "detached" });
    await exporting.getByLabel("As", { exact: true }).selectOption({ label: "Views with depths (zip)" });
    await exporting.getByRole("button", { name: "Export" }).click();
    await exporting.getByText(/looking from all sides \d+%.*, about .* left/).waitFor();
    assert.equal(await exporting.getByRole("progressbar").count(), 1);
    await look(page, "person-export-going");
    await exporting.getByRole("button", { name: "Stop" }).click();
    await exporting.getByText("cancelled").waitFor();
  });

  await step("figures are under Details, which stay open", async () => {
    await page.getByText("Details", { exact: true }).click();
    await page.getByRole("figure").filter({ hasText: "PSNR" }).waitFor();
    await page.reload();
    await page.getByRole("figure").filter({ hasText: "Loss" }).waitFor();
    await page.getByText("Details", { exact: true }).click();
    assert.equal(await page.getByRole("figure").filter({ hasText: "Loss" }).count(), 0);
    await sleep(200);
  });

  await step("lists and models have no figures either, before somebody asks for Details", async () => {
    for (const list of ["jobs", "models"]) {
      await page.goto(`${nerfd.url}#/${list}`);
      await page.getByRole("link", { name: "mic" }).last().waitFor();
      assert.doesNotMatch(await visibleText(page), jargon);
      await page.getByLabel("Details").check();
      for (const name of ["Step", "PSNR"]) await page.getByRole("columnheader", { name }).waitFor();
      await look(page, `person-${list}-details`);
      await page.getByLabel("Details").uncheck();
      await look(page, `person-${list}`);
    }
    await page.getByRole("link", { name: "mic" }).click(); // the model, of the list of models
    await page.getByRole("heading", { name: "Film" }).waitFor();
    assert.doesNotMatch(await visibleText(page), jargon);
  });

  await step("an idle page costs next to nothing", async () => {
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    const busy = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
    await page.goto(`${nerfd.url}#/jobs`);
    await page.getByRole("link", { name: "mic" }).last().waitFor();
    await sleep(2_000);
    const before = await busy();
    await sleep(5_000);
    const share = ((await busy()) - before) / 5;
    console.log(`    ${(100 * share).toFixed(1)}% of a core`);
    assert.ok(share < 0.05, `${share} of a core`);
  });

  await step("once a training has told the pace, the next one is asked for in minutes", async () => {
    const [{ progress }] = await nerfd.jobs("kind = training");
    await page.getByRole("link", { name: "New job" }).click();
    await page.getByText("As fast as mic trained.").waitFor();
    const text = await visibleText(page);
    const minutes = Math.round((160e6 * progress.seconds) / progress.samples / 60);
    assert.match(text, new RegExp(`Thorough, (about ${minutes} minute|less than a minute)`));
    assert.match(text, /Quick look, (about \d+ minute|less than a minute)/);
    await look(page, "person-new");
  });

  await step("a viewer is not offered what needs an editor", async () => {
    const { secret } = await nerfd.call("AdminService/CreateToken", { token: { role: "VIEWER", project: "projects/default" } });
    const visitor = await browser.newContext({ viewport: { width: 390, height: 844 } });
    try {
      const theirs = await visitor.newPage();
      await theirs.goto(`${nerfd.url}#token=${secret}`);
      await theirs.getByText("viewer of default").waitFor();
      await theirs.getByRole("link", { name: "mic" }).last().click();
      await theirs.locator(".box canvas.picture.shown").waitFor({ timeout: 120_000 });
      assert.equal(await theirs.getByRole("link", { name: "New job" }).count(), 0);
      for (const name of ["Delete", "Keep", "Train on", "Make a link"]) assert.equal(await theirs.getByRole("button", { name, exact: true }).count(), 0, name);
      await look(theirs, "person-viewer-narrow");
      await theirs.goto(`${nerfd.url}#/models`);
      await theirs.getByRole("link", { name: "mic" }).first().click();
      await theirs.getByRole("link", { name: "Download" }).waitFor();
      for (const name of ["Train from it", "Delete", "Make the film", "Export"]) assert.equal(await theirs.getByText(name, { exact: true }).count(), 0, name);
    } finally {
      await visitor.close();
    }
  });

  await step("it fits a phone", async () => {
    const [{ name }] = await nerfd.jobs("kind = training");
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(`${nerfd.url}#/jobs/${name.split("/").at(-1)}`);
    await page.getByRole("region", { name: "Film" }).waitFor();
    await look(page, "person-job-narrow");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "too wide");
  });

  await step("names with markup, or too long for a phone, stay names", async () => {
    const displayName = `<img src=x onerror="throw 1">${"W".repeat(99)}`;
    const fits = async (what) => assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && !document.querySelector('img[src="x"]')), what);
    const [{ name }] = await nerfd.jobs("kind = training");
    await nerfd.call("JobService/UpdateJob", { job: { name, displayName }, updateMask: "displayName" });
    await nerfd.createJob("export", { checkpoint: `${name}/checkpoints/-`, format: "CAMERAS" }, { displayName });
    for (const to of ["jobs", `jobs/${name.split("/").at(-1)}`, "new"]) {
      await page.goto(`${nerfd.url}#/${to}`);
      await page.reload();
      await page.getByText(displayName).first().waitFor({ state: "attached" });
      await fits(to);
    }
    await page.evaluate((stem) => {
      const transfer = new DataTransfer();
      for (const i of [1, 2, 3]) transfer.items.add(new File([new Uint8Array([255, 216, i])], `${stem}${i}.jpg`));
      transfer.items.add(new File(["x"], `${stem}.txt`));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }, `<img src=x onerror="throw 1">${"W".repeat(190)}`);
    await page.getByText("neither photograph nor film").waitFor();
    await fits("the choice");
    await look(page, "person-hostile-narrow");
  });

  await step("two trainings are laid over each other, from the list and from one of them, on a desk and a phone", async () => {
    const [first] = (await nerfd.jobs("kind = training")).slice(-1);
    const second = await nerfd.createJob("training", { scene: first.scene, config: { seed: 2, seconds: 6 } }, { displayName: "mic 2" });
    await waitFor("the second training", async () => (await nerfd.job(second.name)).state === "SUCCEEDED", 300_000);
    const idOf = ({ name }) => name.split("/").at(-1);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(`${nerfd.url}#/jobs`);
    await page.reload();
    const compare = page.getByRole("button", { name: "Compare", exact: true });
    const status = page.getByText("Tick two trainings", { exact: true });
    await compare.focus();
    await page.keyboard.press("Enter");
    await status.waitFor();
    assert.equal(await compare.getAttribute("aria-disabled"), "true");
    assert.ok(await compare.evaluate((button) => button === document.activeElement), "the button keeps the focus");
    await page.keyboard.press("Enter"); // does nothing yet
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await status.waitFor({ state: "detached" });
    await compare.click();
    for (const job of [first, second]) await page.getByRole("checkbox", { name: idOf(job) }).check();
    await waitFor("two to be chosen", async () => (await compare.getAttribute("aria-disabled")) === "false");
    const filter = page.getByRole("searchbox", { name: "Filter jobs" });
    if ((await filter.count()) > 0) {
      await filter.fill(idOf(second)); // what is filtered away is not chosen
      await status.waitFor();
      assert.equal(await compare.getAttribute("aria-disabled"), "true");
      await filter.fill("");
    }
    await status.waitFor({ state: "detached" });
    await look(page, "person-compare-ticked");
    await compare.click();
    await page.waitForURL(/#\/compare\//);
    for (const title of ["PSNR of the preview", "PSNR, training rays", "Loss", "Speed, rays"]) {
      const chart = page.getByRole("figure").filter({ has: page.getByRole("heading", { name: title, exact: true }) });
      await chart.locator("canvas").waitFor();
      const drawn = await chart.getByRole("img").getAttribute("aria-label");
      assert.match(drawn, /: mic 2 \d.*W \d/, "a line of each, the newest first as in the list");
    }
    await page.getByRole("row").filter({ hasText: /^seed\s*2\s*1$/ }).waitFor();
    await waitFor("both pictures", async () => (await page.locator(".two img").count()) === 2);
    await look(page, "person-compare");
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole("button", { name: "Step" }).click();
    await waitFor("the chart to fit", async () => (await page.locator(".charts canvas").first().boundingBox()).width < 390);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "too wide");
    await look(page, "person-compare-narrow");
    await page.goto(`${nerfd.url}#/jobs/${idOf(first)}`);
    await page.getByText("Details", { exact: true }).click();
    await page.getByLabel("Compare with").selectOption(idOf(second));
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    await page.waitForURL(`**/#/compare/${idOf(first)}/${idOf(second)}`);
    await page.goto(`${nerfd.url}#/jobs`);
    await page.getByRole("button", { name: "Compare" }).click();
    await look(page, "person-compare-list-narrow");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the list is too wide");
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
  await nerfd.end();
}
