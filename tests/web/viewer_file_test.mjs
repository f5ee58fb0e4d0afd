// A viewer file in Chromium with software GL, opened from disk: its pictures against those of nerf-engine, and no request.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { binaries, source, step } from "./harness.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const engine = join(binaries, "nerf-engine");
const folder = mkdtempSync(join(tmpdir(), "nerf-viewer-"));
const screenshots = process.env.NERF_SCREENSHOTS;
if (screenshots) mkdirSync(screenshots, { recursive: true });
const side = 200;
const smallSide = 64; // of scenes whose rays pass through much haze
const leastPsnr = 40;
const mostBytes = 13e6;
const leastBakedPsnr = 30;
const mostBothBytes = 25e6;
// Another data set, such as lego's, whose figures are asked for.
const moreScene = process.env.NERF_VIEWER_SCENE;

let browser;
let requests = []; // of all pages, but for the file that is opened

function run(...flags) {
  return execFileSync(engine, flags, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

function train(dataset, out, ...flags) {
  run("train", dataset, "--no-eval", "--out", out, ...flags);
  return join(out, "model.safetensors");
}

function exported(model, name, ...flags) {
  const file = join(folder, name);
  run("export", model, "--format", "viewer", "--out", file, ...flags);
  return file;
}

async function open(file, fragment = "", options = {}) {
  const context = await browser.newContext({ viewport: { width: side, height: side }, offline: true, ...options });
  const page = await context.newPage();
  const url = String(pathToFileURL(file));
  page.on("request", (request) => {
    if (request.url() !== url) requests.push(request.url());
  });
  page.on("pageerror", (error) => assert.fail(error));
  await page.goto(url + fragment);
  return page;
}

const isWhole = (page) => page.waitForFunction(() => document.getElementById("view").dataset.whole === "true", null, { timeout: 300_000 });

// The picture without the controls over it, as PNG.
async function pictureOf(page) {
  await isWhole(page);
  const style = await page.addStyleTag({ content: "main > :not(canvas) { display: none !important }" });
  const png = await page.screenshot();
  await style.evaluate((element) => element.remove());
  return png;
}

// Of two PNGs of one size, decoded by the browser.
async function psnrOf(first, second) {
  const page = await browser.newPage();
  const mse = await page.evaluate(
    async (urls) => {
      const [a, b] = await Promise.all(
        urls.map(async (url) => {
          const image = new Image();
          image.src = url;
          await image.decode();
          const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
          context.drawImage(image, 0, 0);
          return context.getImageData(0, 0, image.width, image.height);
        }),
      );
      if (a.width !== b.width || a.height !== b.height) throw new Error(`${a.width} x ${a.height} and ${b.width} x ${b.height}`);
      let sum = 0;
      for (let i = 0; i < a.data.length; ++i) if (i % 4 < 3) sum += (a.data[i] - b.data[i]) ** 2;
      return sum / (a.width * a.height * 3) / 255 ** 2;
    },
    [first, second].map((png) => `data:image/png;base64,${png.toString("base64")}`),
  );
  await page.close();
  return mse === 0 ? Infinity : -10 * Math.log10(mse);
}

// The turn of a camera as x, y, z, w: the eigenvector of its matrix, by steps of the power method.
function quaternionOf(m) {
  const k = [
    [m[0][0] - m[1][1] - m[2][2], m[1][0] + m[0][1], m[2][0] + m[0][2], m[2][1] - m[1][2]],
    [m[1][0] + m[0][1], m[1][1] - m[0][0] - m[2][2], m[2][1] + m[1][2], m[0][2] - m[2][0]],
    [m[2][0] + m[0][2], m[2][1] + m[1][2], m[2][2] - m[0][0] - m[1][1], m[1][0] - m[0][1]],
    [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1], m[0][0] + m[1][1] + m[2][2]],
  ];
  let q = [0.5, 0.4, 0.6, 0.5];
  for (let i = 0; i < 500; ++i) {
    const next = k.map((row, j) => row.reduce((sum, value, l) => sum + value * q[l], 3 * q[j]));
    const length = Math.hypot(...next);
    q = next.map((value) => value / length);
  }
  return q;
}

// A camera of a data set's own frame, as nerf-engine and as the viewer take it.
function cameraFile(name, matrix, fieldOfView, side) {
  const focal = side / 2 / Math.tan(fieldOfView / 2);
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify({ w: side, h: side, fl_x: focal, fl_y: focal, cx: side / 2, cy: side / 2, frames: [{ file_path: name, transform_matrix: matrix }] }));
  const position = matrix.slice(0, 3).map((row) => row[3]);
  return { file, side, fragment: `#p=${position}&q=${quaternionOf(matrix)}&f=${(fieldOfView * 180) / Math.PI}` };
}

function rendered(model, camera, name, ...flags) {
  const out = join(folder, `${name}-views`);
  run("render", model, "--camera", camera, "--out", out, ...flags);
  return readFileSync(join(out, "rgb_0000.png"));
}

async function compare(title, model, viewer, name, camera, ...flags) {
  await step(title, async () => {
    const wanted = rendered(model, camera.file, name, ...flags);
    const page = await open(viewer, camera.fragment, { viewport: { width: camera.side, height: camera.side } });
    const begun = Date.now();
    const shown = await pictureOf(page);
    const psnr = await psnrOf(wanted, shown);
    console.log(`      ${name}: ${psnr.toFixed(2)} dB, whole after ${Date.now() - begun} ms`);
    if (screenshots) {
      writeFileSync(join(screenshots, `${name}-engine.png`), wanted);
      writeFileSync(join(screenshots, `${name}-viewer.png`), shown);
    }
    assert.ok(psnr >= leastPsnr, `${name}: ${psnr} dB`);
    await page.context().close();
  });
}

// "200 × 200, 31 ms, baked"
const readoutOf = (page) => page.locator("#readout").textContent();
const hasDrawn = (page, kind) => page.waitForFunction((word) => document.getElementById("readout").textContent.endsWith(`, ${word}`), kind, { timeout: 300_000 });

// A file with both models: this machine has no GPU, so the page goes over to the baked one.
async function compareBaked(name, model, viewer, camera) {
  await step(`${name} baked: dB, MB and milliseconds beside the exact model's`, async () => {
    const wanted = rendered(model, camera.file, `${name}-both`);
    const page = await open(viewer, camera.fragment, { viewport: { width: camera.side, height: camera.side } });
    const figures = {};
    for (const kind of ["baked", "exact"]) {
      if (kind === "exact") await page.keyboard.press("b");
      await hasDrawn(page, kind);
      const shown = await pictureOf(page);
      const [width, height, ms] = (await readoutOf(page)).match(/\d+/g).map(Number);
      assert.deepEqual([width, height], [camera.side, camera.side]);
      figures[kind] = { psnr: await psnrOf(wanted, shown), ms };
      if (screenshots) writeFileSync(join(screenshots, `${name}-${kind}.png`), shown);
    }
    if (screenshots) writeFileSync(join(screenshots, `${name}-both-engine.png`), wanted);
    const text = readFileSync(viewer, "utf8");
    for (const [kind, id] of [["baked", "baked"], ["exact", "model"]]) {
      const begin = text.indexOf(`id="${id}">`);
      figures[kind].bytes = text.indexOf("</script>", begin) - begin;
      const { psnr, ms, bytes } = figures[kind];
      console.log(`      ${name}, ${kind}: ${psnr.toFixed(2)} dB, ${(bytes / 1e6).toFixed(1)} MB, ${ms} ms`);
    }
    const { baked, exact } = figures;
    assert.ok(baked.psnr >= leastBakedPsnr && exact.psnr >= leastPsnr, JSON.stringify(figures));
    await page.context().close();
  });
}

// What nerf-engine writes of a model whose both forms are too large for one file.
async function openBakedAlone(both, camera) {
  await step("a file with the baked model alone shows it", async () => {
    const text = readFileSync(both, "utf8");
    const file = join(folder, "alone.html");
    writeFileSync(file, text.replace(/"version":1,"bytes":\d+/, '"version":1,"bytes":0').replace(/id="model">[^<]*</, 'id="model"><'));
    const page = await open(file, camera.fragment, { viewport: { width: smallSide, height: smallSide } });
    await isWhole(page);
    assert.match(await readoutOf(page), /^64 × 64, \d+ ms, baked$/);
    assert.ok(await page.locator("#baked-kind").isHidden());
    await page.context().close();
  });
}

const poseAt = (page) => page.evaluate(() => location.hash);
const moved = async (page, before) => {
  await page.waitForFunction((hash) => location.hash !== hash, before, { timeout: 60_000 });
  return poseAt(page);
};

async function useControls(viewer) {
  await step("keys, mouse, touch and buttons move the camera, and the address follows", async () => {
    const page = await open(viewer, "", { viewport: { width: 96, height: 160 }, hasTouch: true, isMobile: true });
    await isWhole(page);
    let hash = await poseAt(page);
    for (const key of ["ArrowLeft", "ArrowUp", "w", "e", "+", "]", "[", "r"]) {
      await page.keyboard.press(key);
      hash = await moved(page, hash);
    }
    assert.match(hash, /^#p=[-\d.e,]+&q=[-\d.e,]+&f=[\d.]+&c=[-\d.e,]+$/);
    const home = hash;
    await page.mouse.move(30, 40);
    await page.mouse.down();
    await page.mouse.move(60, 50);
    await page.mouse.up();
    hash = await moved(page, hash);
    await page.mouse.wheel(0, 200);
    hash = await moved(page, hash);
    const touch = await page.context().newCDPSession(page);
    const fingers = (type, ...points) => touch.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
    await fingers("touchStart", [40, 40], [50, 60]);
    await fingers("touchMove", [35, 30], [60, 80]);
    await fingers("touchEnd");
    hash = await moved(page, hash);
    await page.keyboard.press("r");
    assert.equal(await moved(page, hash), home);
    await page.getByRole("button", { name: "Play" }).click();
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    await page.keyboard.press("p"); // the address names a camera that rests
    await moved(page, home);
    await page.getByRole("button", { name: "Next photograph" }).click();
    assert.match(await page.locator("#photograph").textContent(), /^1 of \d+$/);
    const color = await pictureOf(page);
    await page.keyboard.press("2");
    const depth = await pictureOf(page);
    assert.ok((await psnrOf(color, depth)) < 20, "depth looks as color does");
    await page.getByRole("button", { name: "Depth" }).click();
    assert.ok((await psnrOf(color, await pictureOf(page))) > 50, "color does not come back");
    await page.context().close();
  });
  await step("a camera in the address is shown, a wrong one is not", async () => {
    const fragment = "#p=1,2,3&q=0,0,0,1&f=40&c=0,0,0";
    const page = await open(viewer, fragment);
    assert.equal(await poseAt(page), fragment);
    const home = "#p=nan,2,3&q=0,0,0,0&f=400";
    await page.evaluate((hash) => (location.hash = hash), home);
    await page.keyboard.press("r");
    assert.match(await moved(page, home), /^#p=.*&q=.*&f=.*&c=/);
    await page.context().close();
  });
}

async function holdToAxe(viewer) {
  await step("a moving picture is coarse; axe-core finds nothing wrong, on a desk and on a phone", async () => {
    for (const viewport of [{ width: 1280, height: 720 }, { width: 360, height: 640 }]) {
      const page = await open(viewer, "", { viewport });
      await page.keyboard.press("ArrowLeft");
      await page.waitForFunction(() => document.getElementById("readout").textContent !== "", null, { timeout: 60_000 });
      const [width, height] = (await page.locator("#readout").textContent()).match(/\d+/g).map(Number);
      assert.ok(width * height < (viewport.width * viewport.height) / 4, `${width} x ${height} at once, by software`);
      await page.getByRole("button", { name: "Fly" }).click();
      await page.keyboard.press("h");
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run());
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`), []);
      if (screenshots) await page.screenshot({ path: join(screenshots, `page-${viewport.width}.png`) });
      await page.context().close();
    }
  });
}

async function refuseBroken(viewer, both) {
  const text = readFileSync(viewer, "utf8");
  const packed = readFileSync(both, "utf8");
  const baked = packed.indexOf('id="baked">') + 11;
  const model = text.indexOf('id="model">');
  const broken = {
    "cut within the model": text.slice(0, Math.floor(text.length / 2)),
    "cut before the model": text.slice(0, model),
    "without base64": `${text.slice(0, model + 11)}*${text.slice(model + 12)}`,
    "with a scene of another version": text.replace('"version":1', '"version":2'),
    "with a broken scene": text.replace('{"format":"nerfd-viewer"', '{"format'),
    "cut within the baked model": packed.slice(0, baked + 1000),
    "with a broken baked model": `${packed.slice(0, baked)}AAAA${packed.slice(baked + 4)}`,
    "with a baked model of other sizes": packed.replace(/"nodesPerCell":\d/, '"nodesPerCell":4'),
    "with a scene of other sizes": text.replace('"count":1', '"count":2'),
  };
  for (const [what, content] of Object.entries(broken)) {
    await step(`a file ${what} says so`, async () => {
      assert.notEqual(content, text);
      const file = join(folder, "broken.html");
      writeFileSync(file, content);
      const page = await open(file);
      assert.match(await page.getByRole("alert").textContent(), /This file is not whole/);
      await page.context().close();
    });
  }
}

// nerf-engine refuses what the viewer cannot draw, and writes nothing.
function refuseModels(model) {
  const bytes = readFileSync(model);
  const cut = join(folder, "cut.safetensors");
  writeFileSync(cut, bytes.subarray(0, bytes.length / 2));
  const mic = join(source, "examples/mic");
  const quick = ["--steps", "2"];
  const cases = [
    [cut, /cut\.safetensors/],
    [train(mic, join(folder, "voxels"), ...quick, "--method", "voxels"), /method voxels; the viewer draws ngp/],
    [train(mic, join(folder, "pairs"), ...quick, "--set", "n_features_per_level=2"), /n_features_per_level is 2; the viewer draws tables of 4/],
    [train(mic, join(folder, "proposals"), ...quick, "--set", "sampler=proposals"), /sampler is proposals/],
    [join(folder, "missing.safetensors"), /missing\.safetensors/],
    [model, /nothing to bake/, "--baked", "--crop=50,50,50,1,1,1"],
  ];
  const out = join(folder, "refused.html");
  for (const [file, words, ...flags] of cases) {
    const { status, stderr } = spawnSync(engine, ["export", file, "--out", out, ...flags], { encoding: "utf8" });
    assert.notEqual(status, 0, file);
    assert.match(stderr, words);
    assert.throws(() => statSync(out), /ENOENT/);
  }
}

// The photographs of a Blender scene that look about the way that `matrix` does, as LLFF has them.
function facingOneWay(dataset, matrix) {
  const scene = join(folder, "facing");
  mkdirSync(join(scene, "images"), { recursive: true });
  const { camera_angle_x: angle, frames } = JSON.parse(readFileSync(join(dataset, "transforms_train.json"), "utf8"));
  const likeIt = frames.filter(({ transform_matrix: m }) => m[0][2] * matrix[0][2] + m[1][2] * matrix[1][2] + m[2][2] * matrix[2][2] > 0.85);
  assert.ok(likeIt.length >= 4);
  const rows = likeIt.map(({ file_path: path, transform_matrix: m }, i) => {
    const picture = readFileSync(join(dataset, `${path}.png`));
    writeFileSync(join(scene, "images", `${String(i).padStart(3, "0")}.png`), picture);
    const size = picture.readUInt32BE(16);
    const intrinsics = [size, size, size / 2 / Math.tan(angle / 2)];
    return [...m.slice(0, 3).flatMap((row, axis) => [-row[1], row[0], row[2], row[3], intrinsics[axis]]), 2.5, 6];
  });
  const header = `{'descr': '<f8', 'fortran_order': False, 'shape': (${rows.length}, 17), }`.padEnd(117) + "\n";
  const start = Buffer.from(`\x93NUMPY\x01\x00v\x00${header}`, "latin1");
  writeFileSync(join(scene, "poses_bounds.npy"), Buffer.concat([start, Buffer.from(Float64Array.from(rows.flat()).buffer)]));
  return scene;
}

async function compareScene(dataset) {
  const model = train(dataset, join(folder, "scene"), "--samples", "32M", "--set", "rays_per_pixel=1");
  const { camera_angle_x: angle, frames } = JSON.parse(readFileSync(join(dataset, "transforms_test.json"), "utf8"));
  await compareBaked("scene", model, exported(model, "scene.html", "--baked"), cameraFile("scene", frames[1].transform_matrix, angle, side));
}

async function test() {
  const mic = join(source, "examples/mic");
  const model = train(mic, join(folder, "mic"), "--samples", "4M");
  const viewer = exported(model, "mic.html");
  const size = statSync(viewer).size;
  console.log(`      ${(size / 1e6).toFixed(1)} MB`);
  assert.ok(size <= mostBytes);
  browser = await chromium.launch({
    executablePath: process.env.NERF_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"],
  });
  const { camera_angle_x: angle, frames } = JSON.parse(readFileSync(join(mic, "transforms_test.json"), "utf8"));
  const matrix = frames[1].transform_matrix;
  const both = exported(model, "both.html", "--baked");
  assert.ok(statSync(both).size <= mostBothBytes);
  await compareBaked("mic", model, both, cameraFile("mic", matrix, angle, side));
  await openBakedAlone(both, cameraFile("mic", matrix, angle, smallSide));
  if (moreScene) await compareScene(moreScene);
  const near = matrix.map((row, i) => (i < 3 ? [...row.slice(0, 3), row[3] * 0.45] : row));
  await compare("a near view of mic is nerf-engine's", model, viewer, "near", cameraFile("near", near, 0.5, side));
  const crop = "--crop=0,0,0.2,0.8,0.6,1,0,0,0.6,0.8";
  // The middle of the view, with pixels less than twice as wide as the photographs': nerf-engine, too, shows one ray of each.
  const middle = 2 * Math.atan(((1.8 * smallSide) / side) * Math.tan(angle / 2));
  await compare("a turned box of it, too", model, exported(model, "box.html", crop), "box", cameraFile("box", matrix, middle, smallSide), crop);
  const scenes = { boxes: ["boxes=3"], l2: ["boxes=2", "contraction=l2"] };
  for (const [name, settings] of Object.entries(scenes)) {
    const flags = settings.flatMap((setting) => ["--set", setting]);
    const other = train(mic, join(folder, name), "--samples", "1M", ...flags);
    await compare(`a scene with ${settings.join(" and ")}`, other, exported(other, `${name}.html`), name, cameraFile(name, matrix, middle, smallSide));
  }
  const facing = train(facingOneWay(mic, matrix), join(folder, "perspective"), "--samples", "1M", "--set", "contraction=perspective");
  await compare("a scene in perspective", facing, exported(facing, "perspective.html"), "perspective", cameraFile("perspective", matrix, middle, smallSide));
  await useControls(viewer);
  await holdToAxe(viewer);
  await refuseBroken(viewer, both);
  await step("models that the viewer cannot draw are refused", () => refuseModels(model));
  assert.deepEqual(requests, []);
}

try {
  await test();
} finally {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
}
