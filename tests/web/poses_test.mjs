// Photographs without poses, from a phone's camera roll to a live view: on the page in Chromium, by touch, with a real nerfd, worker
// and COLMAP. Exits 77, a visible skip, without COLMAP or NERF_TEST_DATA.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { devices } from "playwright-core";
import { Line, Nerfd, launchBrowser, sleep, step, waitFor } from "./harness.mjs";
import { checkAccessibility, colorsOf, look } from "./looking.mjs";

const photographs = join(process.env.NERF_TEST_DATA ?? "/nowhere", "fox_quarter/images");
const nPhotographs = 8;
const skip = (why) => {
  console.log(`SKIPPED: ${why}`);
  process.exit(77);
};
if (!existsSync(photographs)) skip(`no ${photographs}; NERF_TEST_DATA names the folder of test data`);
const hasColmap = (path) => path.split(delimiter).some((folder) => existsSync(join(folder, "colmap")));
if (!hasColmap(process.env.PATH)) skip("no COLMAP");

// Two folders of the same programs: with COLMAP, and without.
const nerfd = new Nerfd([], { ...process.env, PATH: "/nowhere" });
const line = new Line(0);
let browser;

const tile = (page, name) => page.getByRole("list", { name: "Photographs" }).getByRole("listitem").filter({ hasText: name });

// Drops files of this content anywhere on the page.
const drop = (page, contents) =>
  page.evaluate((files) => {
    const transfer = new DataTransfer();
    for (const [name, bytes] of files) transfer.items.add(new File([new Uint8Array(bytes)], name));
    window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }, Object.entries(contents).map(([name, content]) => [name, [...Buffer.from(content)]]));

// A phone's camera roll: the browser is not told of a folder.
async function pick(page, button, files) {
  const chooser = page.waitForEvent("filechooser");
  await page.getByRole("button", { name: button, exact: true }).tap();
  const chosen = await chooser;
  assert.ok(chosen.isMultiple());
  assert.match(await chosen.element().getAttribute("accept"), /image\/\*,video\/\*.*\.heic/);
  await chosen.setFiles(files);
}

async function assertNarrow(page, what) {
  const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(inner <= outer, `${what} is ${inner} wide in ${outer}`);
}

// Notes each change of the page's stages and counts, then of the training's, to find the longest time without one.
const watchStages = (page) =>
  page.evaluate(() => {
    window.stages = [];
    const note = () => {
      const text = document.querySelector("section.stages, .next, .progress")?.textContent.replace(/\s+/g, " ").trim() ?? "";
      if (text && text !== window.stages.at(-1)?.[1]) window.stages.push([Date.now(), text]);
    };
    new MutationObserver(note).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
    note();
  });

async function run() {
  await nerfd.start();
  line.port = nerfd.port;
  await line.start();
  browser = await launchBrowser();
  // Of a Pixel 7, but with the height of a common phone.
  const phone = await browser.newContext({ ...devices["Pixel 7"], viewport: { width: 390, height: 780 } });
  phone.setDefaultTimeout(60_000);
  const page = await phone.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));

  await step("what cannot become a scene is refused with what to do", async () => {
    await page.goto(`${line.url}#token=${nerfd.token}`);
    await page.getByRole("link", { name: "choose them" }).tap();
    const alert = page.getByRole("alert");
    const jpeg = readFileSync(join(photographs, readdirSync(photographs)[0]));
    for (const [contents, words] of [
      [{ "a.jpg": jpeg }, /1 photograph: at least 3 are needed.*several sides/],
      [{ "a.jpg": "not a picture", "b.txt": "text" }, /None of these can be used.*a\.jpg is no photograph/],
      [{ "a.txt": "text" }, /No photographs and no film/],
    ]) {
      await drop(page, contents);
      await alert.filter({ hasText: words }).waitFor();
      assert.ok(await page.getByRole("button", { name: "Start training" }).isDisabled());
    }
    await look(page, "photographs-refused-narrow");
  });

  const all = readdirSync(photographs).sort();
  const [names, more] = [all.slice(0, nPhotographs), [all[nPhotographs]]];
  const roll = names.map((name) => join(photographs, name));
  await step("photographs of a camera roll are shown, what is none is left out", async () => {
    const folder = join(nerfd.folder, "roll");
    mkdirSync(folder);
    // A HEIC photograph that is cut after its head, a text, and the first photograph once more.
    writeFileSync(join(folder, "cut.heic"), Buffer.from("\0\0\0\x18ftypheic\0\0\0\0mif1heic"));
    writeFileSync(join(folder, "notes.jpg"), "not a picture");
    writeFileSync(join(folder, "twin.jpg"), readFileSync(roll[0]));
    await pick(page, "Choose photographs", roll.slice(0, 5));
    await page.getByRole("heading", { name: names[0].replace(".jpg", ""), exact: true }).waitFor();
    await pick(page, "Add photographs", [...roll, ...["cut.heic", "notes.jpg", "twin.jpg"].map((name) => join(folder, name))]);
    await page.getByText(`${nPhotographs + 2} photographs, `).waitFor();
    await page.getByText("notes.jpg is no photograph").waitFor();
    await waitFor("thumbnails", async () => (await page.locator(".thumbnail img").count()) === nPhotographs + 1);
    const cut = await page.locator(".thumbnail img").evaluateAll((all) => all.filter((image) => image.clientHeight > image.parentElement.clientHeight || getComputedStyle(image).objectFit !== "contain").length);
    assert.equal(cut, 0, "photographs are cut");
    assert.ok((await colorsOf(tile(page, names[1]).locator("img"))) > 20, "a thumbnail is blank");
    assert.equal(await tile(page, "cut.heic").locator(".thumbnail").textContent(), "HEIC");
    await page.getByRole("alert").filter({ hasText: "No worker that is connected has COLMAP" }).waitFor();
    await page.getByLabel("Name").fill("fox");
    await page.getByLabel("Custom").check();
    await page.getByRole("spinbutton", { name: "Minutes" }).fill("0.1");
    await look(page, "photographs-narrow");
    await assertNarrow(page, "the choice");
  });

  await step("the line is cut and nerfd killed while they are sent: the page says so and goes on", async () => {
    line.staysDown = true;
    line.cutAfter(250_000);
    await page.getByRole("button", { name: "Start training" }).tap();
    await page.getByText("nerfd does not answer.").waitFor();
    const bars = page.getByRole("list", { name: "Photographs" }).getByRole("progressbar");
    assert.equal(await bars.count(), nPhotographs + 2);
    const sent = (await bars.evaluateAll((all) => all.map((bar) => Number(bar.getAttribute("aria-valuenow"))))).filter((value) => value === 100).length;
    console.log(`    ${sent} of ${nPhotographs + 2} files were there`);
    assert.ok(sent > 0 && sent < nPhotographs + 2);
    await checkAccessibility(page, "sending");
    await look(page, "photographs-sending-narrow");
    await nerfd.kill("SIGKILL");
    await nerfd.start();
    line.isDown = line.staysDown = false;
    await page.waitForURL(/#\/jobs\//);
  });

  const posePage = page.url();
  await step("while no worker has COLMAP the page says so, and what to do", async () => {
    const note = page.locator(".notice").filter({ hasText: "no connected worker has COLMAP" });
    await note.filter({ hasText: "apt-get install colmap" }).waitFor();
    await look(page, "pose-waits-narrow");
    await page.goto(`${line.url}#/jobs`);
    const row = page.getByRole("row").filter({ hasText: /Photographs, \d+ files/ });
    await row.getByText("no connected worker has COLMAP").waitFor();
    await look(page, "jobs-photographs-narrow");
    // The training is queued beside it, so the server goes on without this page.
    const trainings = await nerfd.jobs("kind = training");
    assert.deepEqual(trainings.map(({ state, wait, poseJob }) => [state, wait.reason, poseJob]), [["QUEUED", "POSES", `projects/default/jobs/${posePage.split("/").at(-1)}`]]);
    assert.equal(trainings[0].config.seconds, 6);
    await page.goto(`${line.url}#/jobs/${trainings[0].name.split("/").at(-1)}`);
    await page.getByRole("link", { name: "Its photographs" }).tap();
    await page.getByText("This page may be closed.").waitFor();
    await page.goto(`${line.url}#/jobs`);
    await row.getByRole("link", { name: "fox" }).tap();
    await note.waitFor();
    await nerfd.kill("SIGTERM");
    nerfd.env = process.env;
    await nerfd.start();
  });

  await step("the stages come with counts, then the training by itself, and its live view", async () => {
    await watchStages(page);
    const stages = page.getByRole("region", { name: "Stages" });
    await stages.getByText(/Finding where the photographs were taken: /).waitFor();
    await stages.getByText(/about .* left ·/).waitFor();
    const bar = stages.getByRole("progressbar");
    assert.equal(await bar.count(), 1, "one bar over all stages");
    await page.evaluate(() => {
      const bar = document.querySelector(".stages [role=progressbar]");
      window.shares = [];
      new MutationObserver(() => window.shares.push(Number(bar.getAttribute("aria-valuenow")))).observe(bar, { attributes: true });
    });
    const sent = page.getByRole("region", { name: "Photographs that were sent" });
    assert.equal(await sent.locator(".thumbnail img").count(), nPhotographs + 1);
    const ended = page.getByRole("list", { name: "Finished stages" });
    await ended.getByText(/looking closely at each photograph: (\d+) of \1$/).waitFor();
    for (const line of await ended.getByRole("listitem").filter({ hasNotText: "placing" }).allTextContents()) assert.match(line.trim(), /^✓ [^:]+(: (\d+) of \2)?$/, "a stage that is over has done all");
    await look(page, "pose-stages-narrow");
    await page.waitForURL((url) => url.href !== posePage, { timeout: 180_000 });
    const shares = await page.evaluate(() => window.shares);
    assert.ok(shares.every((share, i) => i === 0 || share >= shares[i - 1]), `the bar goes back: ${shares}`);
    const picture = page.locator("img.preview, .box canvas.picture.shown").first();
    await picture.waitFor({ timeout: 120_000 });
    assert.ok((await colorsOf(picture)) > 5, "the view is blank");
    const noted = await page.evaluate(() => window.stages);
    const gapOf = (lines) => Math.max(...lines.slice(1).map(([time], i) => time - lines[i][0])) / 1000;
    const posing = noted.filter(([, text]) => text.startsWith("Finding"));
    const gap = gapOf(posing);
    const seen = new Set(posing.map(([, text]) => /taken: (.*?)(about| \d)/.exec(text)?.[1]).filter(Boolean));
    console.log(`    stages ${[...seen].join(", ")}; ${noted.length} lines, the longest gap ${gap.toFixed(1)} s, with the training's begin ${gapOf(noted).toFixed(1)} s`);
    // The first stages of eight photographs may pass between two reports.
    assert.ok(posing.every(([, text]) => !/feature|pair/.test(text)), `jargon: ${[...seen]}`);
    assert.ok(seen.size >= 2 && gap < 20, `stages ${[...seen]}, gap ${gap}`);
    await look(page, "posed-live-narrow");
  });

  await step("the report shows its picture, and says why photographs have no pose", async () => {
    const job = await nerfd.job(posePage.split("/").at(-1));
    assert.equal(job.state, "SUCCEEDED");
    assert.equal(job.files.length, nPhotographs + 2);
    await page.getByRole("link", { name: `${job.report.posed} of ${nPhotographs + 2} photographs placed` }).tap();
    const left = page.getByRole("region", { name: "Photographs that are not placed" });
    await left.getByText("cut.heic").waitFor();
    const reasons = await left.getByRole("listitem").allTextContents();
    assert.ok(reasons.every((text) => /\S+\s+\S+/.test(text.trim())), `without a reason: ${reasons}`);
    assert.ok(reasons.some((text) => /cut\.heic.*(HEIC|read)/.test(text)), `${reasons}`);
    assert.ok(reasons.some((text) => /twin\.jpg/.test(text)) || reasons.some((text) => text.includes(names[0])), `the twin is not named: ${reasons}`);
    assert.equal(await left.locator("img").count(), reasons.length - 1, "photographs of this tab are shown");
    const picture = page.getByRole("img", { name: "Points and cameras from above" });
    await waitFor("the picture", async () => (await picture.evaluate((element) => element.tagName)) === "IMG");
    assert.ok((await colorsOf(picture)) > 2, "the picture is blank");
    await page.getByText("Every photograph", { exact: true }).tap();
    assert.equal(await page.getByRole("row").count(), nPhotographs + 3);
    await page.getByText("The report in words", { exact: true }).last().tap();
    await page.locator("pre").filter({ hasText: "photographs" }).waitFor();
    await look(page, "pose-report-narrow");
    await assertNarrow(page, "the report");
    const trainings = await nerfd.jobs("kind = training");
    assert.equal(trainings.length, 1, "one training");
    assert.equal(trainings[0].scene, job.scene);
    const desk = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    try {
      // Another browser finds the training that is there, and starts none.
      const theirs = await desk.newPage();
      await theirs.goto(`${line.url}#token=${nerfd.token}`);
      await theirs.getByRole("link", { name: "fox" }).first().waitFor();
      await theirs.goto(posePage);
      await theirs.getByRole("link", { name: "Go to the training" }).waitFor();
      await waitFor("the picture", () => theirs.locator("figure img").count());
      await look(theirs, "pose-report");
      await theirs.goto(`${line.url}#/new`);
      await theirs.getByRole("heading", { name: "Drop photographs" }).waitFor();
      await look(theirs, "new-photographs");
    } finally {
      await desk.close();
    }
    assert.equal((await nerfd.jobs("kind = training")).length, 1);
  });

  await step("one more photograph joins the scene, with the lens that is named; another try keeps both", async () => {
    const newest = async () => (await nerfd.jobs("kind = pose"))[0];
    const { scene } = await newest();
    await page.goto(`${line.url}#/new`);
    await pick(page, "Choose photographs", more.map((name) => join(photographs, name)));
    const shortage = page.getByRole("alert").filter({ hasText: /at least 3 are needed.*Fewer can be added to an existing scene/ });
    const begin = page.getByRole("button", { name: "Start training" });
    await shortage.waitFor();
    assert.ok(await begin.isDisabled());
    await page.getByLabel("Add to an existing scene").selectOption(scene);
    await shortage.waitFor({ state: "detached" });
    assert.ok(await begin.isEnabled());
    await page.getByText("The one that is there stays as it is.").waitFor();
    await page.getByText("More", { exact: true }).tap();
    const lens = page.getByLabel("Photographs were taken with");
    assert.equal(await page.getByLabel("Mask below the horizon").count(), 0);
    assert.ok(await lens.locator("option").filter({ hasText: "panorama" }).evaluate((option) => option.disabled));
    await lens.selectOption({ label: "a common lens" });
    await page.getByLabel("Start from a model").locator("option").filter({ hasText: "that of the scene" }).waitFor({ state: "attached" });
    await checkAccessibility(page, "an addition");
    await look(page, "photographs-added-narrow");
    await assertNarrow(page, "an addition");
    await page.getByRole("button", { name: "Start training" }).tap();
    for (const button of ["Try the same again", null]) {
      await page.waitForURL(/#\/jobs\//);
      const { name, into, camera, fileCount } = await newest();
      assert.deepEqual([into, camera, fileCount], [scene, "PERSPECTIVE", more.length]);
      assert.equal((await nerfd.jobs("kind = training"))[0].poseJob, name);
      await page.getByRole("button", { name: "Cancel" }).tap();
      await page.locator(".page-head").getByText("cancelled").waitFor();
      const last = page.url();
      if (button === null) break;
      await page.getByRole("button", { name: button }).tap();
      await waitFor("the next pose job", () => page.url() !== last);
    }
  });

  await step("panoramas are sent with the part that is masked", async () => {
    await page.goto(`${line.url}#/new`);
    await page.getByRole("heading", { name: "Drop photographs" }).waitFor();
    await pick(page, "Choose photographs", roll.slice(0, 3));
    await page.getByText("More", { exact: true }).tap();
    await page.getByLabel("Photographs were taken with").selectOption({ label: "a panorama camera (360°, twice as wide as high)" });
    await page.getByLabel("Mask below the horizon").fill("60");
    await checkAccessibility(page, "panoramas");
    await look(page, "photographs-panoramas-narrow");
    await assertNarrow(page, "panoramas");
    const call = "**/nerf.v1.JobService/CreateJob";
    const refuse = (route) => route.fulfill({ status: 400, contentType: "application/json", body: '{"code": "invalid_argument", "message": "not today"}' });
    await page.route(call, refuse);
    const request = page.waitForRequest(call);
    await page.getByRole("button", { name: "Start training" }).tap();
    // camera = 6 is EQUIRECTANGULAR, mask_below_degrees = 7 the double 60.
    assert.ok((await request).postDataBuffer().includes(Buffer.from("3002390000000000004e40", "hex")));
    await page.getByRole("alert").filter({ hasText: "not today" }).waitFor();
    await page.unroute(call, refuse);
    await page.goto(`${line.url}#/jobs`); // the next choice begins anew
  });

  await step("photographs of nothing in common fail with reasons, and can be tried again with more", async () => {
    await page.goto(`${line.url}#/new`);
    const flat = await page.evaluate(() =>
      Promise.all(
        ["#264", "#862", "#468"].map(async (color, i) => {
          const canvas = new OffscreenCanvas(320, 240);
          const context = canvas.getContext("2d");
          context.fillStyle = color;
          context.fillRect(0, 0, 320, 240);
          context.fillStyle = "#fff";
          context.fillRect(40 + 60 * i, 50, 30, 90);
          return [...new Uint8Array(await (await canvas.convertToBlob({ type: "image/png" })).arrayBuffer())];
        }),
      ),
    );
    await drop(page, Object.fromEntries(flat.map((bytes, i) => [`wall ${i + 1}.png`, Buffer.from(bytes)])));
    await page.getByText("3 photographs, ").waitFor();
    await page.getByRole("button", { name: "Start training" }).tap();
    const alert = page.getByRole("alert").filter({ hasText: "No scene was made of these photographs" });
    await alert.waitFor({ timeout: 400_000 });
    console.log(`    ${await alert.textContent()}`);
    await look(page, "pose-failed-narrow");
    const failed = await waitFor("the training's end", async () => {
      const trainings = await nerfd.jobs("kind = training");
      return trainings[0].state === "FAILED" && trainings[0];
    });
    assert.match(failed.error.message, /no photograph could be posed/);
    await page.getByRole("link", { name: "Add photographs and try again" }).tap();
    await page.getByText("3 photographs, ").waitFor();
    await pick(page, "Add photographs", roll.slice(0, 2));
    await page.getByText("5 photographs, ").waitFor();
    await page.goBack();
    const last = page.url();
    await page.getByRole("button", { name: "Try the same again" }).tap();
    await waitFor("the next pose job", () => page.url() !== last);
    await page.getByRole("button", { name: "Cancel" }).tap();
    await page.locator(".page-head").getByText(/cancelled|failed/).waitFor();
    await sleep(200);
    assert.equal((await nerfd.jobs("kind = pose")).length, 5);
    const trainings = await nerfd.jobs("kind = training");
    assert.equal(trainings.length, 5);
    assert.deepEqual(trainings[0].config, trainings[1].config, "the same training");
    assert.ok(["CANCELLED", "FAILED"].includes(trainings[0].state));
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
