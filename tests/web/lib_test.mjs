// Parts of the page by themselves: which files of a folder a scene gets, names, and photographs beside renders in Chromium.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "vite";
import { launchBrowser, source, step } from "./harness.mjs";

// Beside node_modules, where the modules' own imports are looked for.
const folder = mkdtempSync(join(process.cwd(), "lib-"));
cpSync(join(source, "web/src/lib"), join(folder, "lib"), { recursive: true });
let browser;

// The modules as one script. Generated messages, which this needs none of, are left out.
async function bundle(names, formats) {
  const entry = join(folder, "entry.ts");
  writeFileSync(entry, names.map((name) => `export * from ${JSON.stringify(`./lib/${name}`)};`).join("\n"));
  const withoutMessages = {
    name: "without-messages",
    enforce: "pre",
    resolveId: (id) => (id.includes("/gen/") ? "\0messages" : undefined),
    load: (id) => (id === "\0messages" ? "export const TrainingConfig_Background = { WHITE: 1, BLACK: 2, RANDOM: 3 };" : undefined),
  };
  const output = await build({
    logLevel: "error",
    configFile: false,
    plugins: [withoutMessages],
    build: { write: false, minify: false, target: "es2022", lib: { entry, formats, name: "page" } },
  });
  return (Array.isArray(output) ? output[0] : output).output[0].code;
}

const filesOf = (contents) => Object.entries(contents).map(([path, text]) => ({ path, file: new File([text], path.split("/").at(-1)) }));
const transforms = (...frames) => JSON.stringify({ frames });

async function run() {
  const module = join(folder, "lib.mjs");
  writeFileSync(module, await bundle(["folder.ts", "format.ts", "turbo.ts", "curve.ts"], ["es"]));
  const { readCapture, displayNameOf, urlNameOf, colorize, joined } = await import(pathToFileURL(module));
  const pathsOf = async (contents) => (await readCapture("scene", filesOf(contents))).files.map(({ path }) => path).sort();
  const refused = async (contents, words) => {
    await assert.rejects(readCapture("scene", filesOf(contents)), (error) => {
      assert.match(error.message, words);
      assert.ok(error.advice.length > 10, `no advice: ${error.message}`);
      return true;
    });
  };

  await step("what JPEG leaves beside the edges of depths is not colored", async () => {
    // A block at an object's edge, with ringing of 9 around it, and a block all of depths, whose nearest is 40.
    const width = 16;
    const gray = Array.from({ length: width * 8 }, (_, i) => (i % width < 4 ? [0, 9, 3, 9][i % 4] : i % width < 8 ? 150 : 40 + i / 2));
    const pixels = new Uint8ClampedArray(gray.flatMap((value) => [value, value, value, 255]));
    colorize(pixels, width);
    const at = (x, y) => [...pixels.slice(4 * (y * width + x), 4 * (y * width + x) + 3)];
    for (const x of [0, 1, 2, 3]) assert.deepEqual(at(x, 5), [0, 0, 0], `ringing at ${x}`);
    assert.notDeepEqual(at(5, 5), [0, 0, 0]);
    assert.ok(at(8, 0)[0] > 2 * at(8, 0)[2], `the nearest is red: ${at(8, 0)}`);
    assert.ok(Math.max(...at(4, 0)) < 60, `the farthest is dark: ${at(4, 0)}`);
  });

  await step("lines of parts share one axis", async () => {
    const lines = [{ x: [1, 4, 9], values: [0.5, null, 0.25] }, { x: [4, 4, 6], values: [1, 2, 3] }, { x: [], values: [] }];
    assert.deepEqual(joined(lines), { x: [1, 4, 6, 9], values: [[0.5, null, null, 0.25], [null, 2, 3, null], [null, null, null, null]] });
    assert.deepEqual(joined([]), { x: [], values: [] });
  });

  await step("a COLMAP model is sent with its points and masks, and nothing else", async () => {
    const contents = {
      "sparse/0/cameras.bin": "c", "sparse/0/images.bin": "i", "sparse/0/points3D.bin": "p", "sparse/0/cameras.txt": "", "sparse/0/project.ini": "",
      "images/a.png": "a", "images/deep/b.JPG": "b", "masks/a.png.png": "m", "masks/deep/b.png": "m", "masks/other.png": "m",
      "notes.txt": "private", "database.db": "d", ".hidden/images/c.png": "c",
    };
    const sent = ["images/a.png", "images/deep/b.JPG", "masks/a.png.png", "masks/deep/b.png", "sparse/0/cameras.bin", "sparse/0/images.bin", "sparse/0/points3D.bin"];
    assert.deepEqual(await pathsOf(contents), sent);
    const capture = await readCapture("scene", filesOf(contents));
    assert.equal(capture.nPictures, 2);
    assert.equal(capture.source, "COLMAP (sparse/0)");
    assert.equal(capture.note, "");
    assert.deepEqual(await pathsOf({ "sparse/cameras.txt": "", "sparse/images.txt": "", "sparse/images.bin": "", "images/a.png": "" }), ["images/a.png", "sparse/cameras.txt", "sparse/images.txt"]);
    await refused({ "sparse/0/cameras.bin": "", "images/a.png": "" }, /sparse\/0\/images\.bin is missing/);
    await refused({ "sparse/0/cameras.bin": "", "sparse/0/images.bin": "", "pictures/a.png": "" }, /no pictures in images\//);
  });

  await step("camera files name pictures and masks, also with comments, backslashes and without endings", async () => {
    const text = `{ // of a tool\n "url": "http://x/*no*/", /* two\nlines */ "frames": [
      {"file_path": ".\\\\images\\\\a.jpg", "mask_path": "masks/a.png"}, {"file_path": "./images/../images/b"}, {"file_path": "images/c.png"}, {}, null, 3]}`;
    const contents = { "transforms.json": text, "images/a.jpg": "", "images/b.JPG": "", "masks/a.png": "", "masks/b.png": "", "masks/c.png": "", "images/unlisted.png": "" };
    assert.deepEqual(await pathsOf(contents), ["images/a.jpg", "images/b.JPG", "masks/a.png", "masks/b.png", "transforms.json"]);
    assert.equal((await readCapture("scene", filesOf(contents))).note, "1 of 3 listed pictures is not in the folder and left out, such as images/c.png.");
  });

  await step("camera files name depth files by either program's key", async () => {
    const frames = [{ file_path: "a", depth_file_path: "depth/a.png" }, { file_path: "b", depth_path: "depth/b.png" }, { file_path: "c", depth_file_path: 3 }];
    const contents = { "transforms.json": JSON.stringify({ frames }), "a.png": "", "b.png": "", "c.png": "", "depth/a.png": "", "depth/b.png": "", "depth/c.png": "" };
    assert.deepEqual(await pathsOf(contents), ["a.png", "b.png", "c.png", "depth/a.png", "depth/b.png", "transforms.json"]);
  });

  await step("the list of the test views is that of the readers", async () => {
    const list = (name) => transforms({ file_path: name });
    const contents = { "transforms_train.json": list("a"), "transforms_val.json": list("b"), "a.png": "", "b.png": "", "c.png": "" };
    assert.deepEqual(await pathsOf(contents), ["a.png", "b.png", "transforms_train.json", "transforms_val.json"]);
    assert.deepEqual(await pathsOf({ ...contents, "transforms_test.json": list("c"), "transforms.json": list("d") }), ["a.png", "c.png", "transforms_test.json", "transforms_train.json"]);
    await refused({ "transforms_test.json": list("a"), "a.png": "" }, /transforms_train\.json is missing/);
  });

  await step("LLFF's poses go with the pictures of one folder", async () => {
    assert.deepEqual(await pathsOf({ "poses_bounds.npy": "", "images_4/a.png": "", "images_4/deep/b.png": "", "images_8/a.png": "", "c.png": "" }), ["images_4/a.png", "poses_bounds.npy"]);
    await refused({ "poses_bounds.npy": "", "c.png": "" }, /no pictures in images\//);
  });

  await step("folders that cannot be trained on are refused with what to do", async () => {
    await refused({}, /empty/);
    await refused({ ".a.png": "" }, /empty/);
    await refused({ "notes.txt": "" }, /No pictures and no camera file/);
    await refused({ "a.png": "" }, /A picture, but nothing says where it was taken/);
    await refused({ "a.png": "", "b/c.jpeg": "" }, /2 pictures, but nothing says where each/);
    for (const text of ["", "[", "[]", "null", '{"frames": 3}', '{"frames": [}', "\u0000"]) await refused({ "transforms.json": text, "a.png": "" }, /is not a camera file/);
    await refused({ "transforms.json": transforms({ file_path: "../a.png" }, { file_path: "b/../../a.png" }), "a.png": "" }, /None of the 2 pictures/);
    const nothing = await readCapture("scene", filesOf({ "transforms.json": transforms(), "a.png": "" }));
    assert.equal(nothing.nPictures, 0);
  });

  await step("names fit what the server takes", async () => {
    assert.equal(displayNameOf("  fox \n two  "), "fox   two");
    const long = displayNameOf("写真".repeat(60));
    assert.equal(new TextEncoder().encode(long).length, 126);
    assert.equal(displayNameOf("😀".repeat(40)), "😀".repeat(32));
    assert.equal(displayNameOf("a\u202eb\ud800"), "a b");
    assert.equal(urlNameOf("IMG 1 (ü).jpg"), "IMG_1____.jpg");
    assert.equal(urlNameOf(".x/..%2f"), "_x_.._2f");
    assert.equal(urlNameOf("a".repeat(200) + ".png").length, 128);
  });

  await step("photographs are shown as they are stored, which is how they are trained on", async () => {
    browser = await launchBrowser();
    const page = await browser.newPage();
    await page.addScriptTag({ content: await bundle(["compare.ts"], ["iife"]) });
    const reds = await page.evaluate(async () => {
      // Left half red, right half black, and a tag that says: turn it by a quarter.
      const canvas = new OffscreenCanvas(64, 64);
      const context = canvas.getContext("2d");
      context.fillRect(0, 0, 64, 64);
      context.fillStyle = "#f00";
      context.fillRect(0, 0, 32, 64);
      const jpeg = new Uint8Array(await (await canvas.convertToBlob({ type: "image/jpeg" })).arrayBuffer());
      const tiff = [0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0];
      const exif = [0xff, 0xe1, 0, 2 + 6 + tiff.length, 0x45, 0x78, 0x69, 0x66, 0, 0, ...tiff];
      const turned = new Blob([jpeg.slice(0, 2), new Uint8Array(exif), jpeg.slice(2)]);
      const shown = await createImageBitmap(turned);
      const probe = new OffscreenCanvas(64, 64).getContext("2d");
      probe.drawImage(shown, 0, 0);
      const red = (data, x, y) => data[4 * (64 * y + x)] > 128;
      const asShown = probe.getImageData(0, 0, 64, 64).data;
      const { data } = await window.page.pixelsOf(turned, 64, 64, 1);
      return { turnedByTheBrowser: !red(asShown, 8, 56) || red(asShown, 56, 8), left: red(data, 8, 56), right: red(data, 56, 8) };
    });
    assert.deepEqual(reds, { turnedByTheBrowser: true, left: true, right: false });
  });
}

try {
  await run();
} finally {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
}
