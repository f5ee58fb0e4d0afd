// Parts of the page by themselves: which files of a folder a scene gets, names, and photographs beside renders in Chromium.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "vite";
import { binaries, launchBrowser, source, step } from "./harness.mjs";
import { posedFolders } from "./posed_folders.mjs";

// Beside node_modules, where the modules' own imports are looked for.
const folder = mkdtempSync(join(process.cwd(), "lib-"));
cpSync(join(source, "web/src/lib"), join(folder, "lib"), { recursive: true });
const { folderNames } = await import(pathToFileURL(join(source, "web/scripts/folder_names.mjs")));
let browser;

// The modules as one script. Of what is generated this needs the names of folders, no messages.
async function bundle(names, formats) {
  const entry = join(folder, "entry.ts");
  writeFileSync(entry, names.map((name) => `export * from ${JSON.stringify(`./lib/${name}`)};`).join("\n"));
  const withoutMessages = {
    name: "without-messages",
    enforce: "pre",
    resolveId: (id) => (id.endsWith("/gen/folder_names") ? "\0names" : id.includes("/gen/") ? "\0messages" : undefined),
    load: (id) => (id === "\0names" ? folderNames(source) : id === "\0messages" ? "export const TrainingConfig_Background = { WHITE: 1, BLACK: 2, RANDOM: 3 };" : undefined),
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
  writeFileSync(module, await bundle(["folder.ts", "photographs.ts", "lists.ts", "pose_report.ts", "remaining.ts", "format.ts", "turbo.ts", "curve.ts", "crop.ts", "cloud.ts", "orbit.ts", "zip.ts"], ["es"]));
  const { readCapture, chosenFiles, flatNames, isPictureOrFilm, joinedPhotographs, shortageOf, namesOfBinary, namesOfText, photosOf, countWords, sketchPaths, SearchShare, stageWords, Remaining, displayNameOf, fileStem, plain, isLoopback, urlNameOf, colorize, Curve, joined, anglesOf, axesOf, dragged, handlesOf, handleAt, turnOf, cloudOf, drawCloud, homeOf, basisOf, cameraOf, zipOf } = await import(pathToFileURL(module));
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

  await step("exported points are drawn upright, the nearer ones in front", async () => {
    const fields = ["x", "y", "z"].map((name) => `property float ${name}\n`).join("") + ["red", "green", "blue"].map((name) => `property uchar ${name}\n`).join("");
    const head = (n) => `ply\nformat binary_little_endian 1.0\nelement vertex ${n}\n${fields}end_header\n`;
    const ply = (points) => {
      const body = Buffer.concat(points.map(([place, color]) => Buffer.concat([Buffer.from(Float32Array.from(place).buffer), Buffer.from(color)])));
      const file = Buffer.concat([Buffer.from(head(points.length)), body]);
      return file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
    };
    const red = [255, 0, 0], green = [0, 255, 0];
    const cloud = cloudOf(ply([[[0, 0, 1], red], [[0, 0, -1], green]]));
    assert.deepEqual([cloud.n, ...cloud.colors], [2, ...red, ...green]);
    const rowOf = (pixels, channel) => Array.from({ length: 20 }, (_, i) => i).find((row) => Array.from({ length: 20 }, (_, i) => pixels[4 * (20 * row + i) + channel]).some((value) => value === 255));
    const upright = drawCloud(cloud, 20, 20, { up: [0, 0, 1] });
    assert.ok(rowOf(upright, 0) < rowOf(upright, 1), "red is above");
    const turned = drawCloud(cloud, 20, 20, { up: [0, 0, -1] });
    assert.ok(rowOf(turned, 0) > rowOf(turned, 1), "red is below");
    const pile = cloudOf(ply([[[0, -1, 0], red], [[0, 1, 0], green]]));
    const middle = (look) => drawCloud(pile, 20, 20, look).slice(4 * (20 * 10 + 10), 4 * (20 * 10 + 10) + 3);
    assert.deepEqual([...middle({ up: [0, 0, 1], toViewer: [0, -1, 0] })], red);
    assert.deepEqual([...middle({ up: [0, 0, 1], toViewer: [0, 1, 0] })], green);
    assert.equal(cloudOf(new TextEncoder().encode("<!doctype html>").buffer), null);
    assert.equal(cloudOf(new TextEncoder().encode(head(1000)).buffer), null, "a cut file");
    assert.equal(cloudOf(new ArrayBuffer(2)), null);
  });

  await step("a picture of a box has all of it, from where it is looked at", async () => {
    const box = { center: [1, 2, 3], size: [2, 1, 0.5], turn: turnOf([0, 0, 30]) };
    const { transformMatrix: m, flX, width, height } = cameraOf(box, { up: [0, 0, 1], toViewer: [0, -1, 0.5] }, 240, 160);
    for (const signs of [0, 1, 2, 3, 4, 5, 6, 7]) {
      const corner = axesOf(box).reduce((sum, axis, i) => sum.map((value, k) => value + (signs & (1 << i) ? 0.5 : -0.5) * box.size[i] * axis[k]), box.center);
      const [x, y, z] = [0, 1, 2].map((column) => [0, 1, 2].reduce((sum, row) => sum + m[4 * row + column] * (corner[row] - m[4 * row + 3]), 0));
      assert.ok(z < 0, "in front");
      assert.ok(Math.abs((flX * x) / z) < width / 2 && Math.abs((flX * y) / z) < height / 2, `corner ${signs}`);
    }
    assert.ok(m[6] < 0 && m[9] > 0, "upright, from the side of the viewer");
  });

  await step("frames in a .zip are read by others", async () => {
    const zip = join(folder, "frames.zip");
    const entries = [["rgb_0000.exr", "first"], ["rgb_0001.exr", ""], ["ü.exr", "x".repeat(70_000)]];
    writeFileSync(zip, Buffer.from(await (await zipOf(entries.map(([name, text]) => ({ name, size: Buffer.byteLength(text), content: async () => new Blob([text]) })))).arrayBuffer()));
    const read = "import sys, zipfile, json; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print(json.dumps([[i.filename, z.read(i).decode()] for i in z.infolist()]))";
    assert.deepEqual(JSON.parse(execFileSync("python3", ["-c", read, zip])), entries);
    const content = () => assert.fail("it asked for a frame");
    await assert.rejects(zipOf([1, 3e9, 2e9].map((size) => ({ name: "a", size, content }))), /4 GB at most, these frames have 5\.00 GB/);
    const fits = 0xffffffff - 30 - 46 - 22 - 2;
    await assert.rejects(zipOf([{ name: "a", size: fits + 1, content }]), /4 GB at most/);
    await assert.rejects(zipOf([{ name: "a", size: fits, content }]), /it asked/);
    await assert.rejects(zipOf([{ name: "a", size: 3, content: async () => new Blob(["four"]) }]), /has 4 bytes, not the 3/);
  });

  await step("a box is moved, sized and turned by its handles", async () => {
    const near = (a, b, why) => assert.ok(a.every((number, i) => Math.abs(number - b[i]) < 1e-4), `${why}: ${a}, not ${b}`);
    for (const angles of [[0, 0, 0], [10, 20, 30], [-170, 80, 100], [0, 0, 135]]) near(anglesOf({ turn: turnOf(angles) }), angles, "angles");
    near(axesOf({ turn: turnOf([0, 0, 90]) })[0], [0, 1, 0], "x turned to y");
    near(axesOf({ turn: turnOf([0, 90, 0]) })[0], [0, 0, -1], "x turned to -z");
    // Seen from above, x to the right: 4 units away 100 pixels are one unit.
    const view = { center: [0, 0, 0], up: [0, 1, 0], distance: 4, elevation: 0, aspect: 1, focal: 1, cameras: [] };
    const pose = { azimuth: Math.PI, elevation: 0, zoom: 1, center: [0, 0, 0] };
    const width = 400;
    const box = { center: [0, 0, 0], size: [1, 1, 1], turn: [0, 0, 0, 1] };
    const handles = handlesOf(view, box);
    assert.deepEqual(handles.map(({ kind }) => kind).sort(), ["center", "face", "face", "face", "face", "face", "face", "turn"]);
    assert.equal(handleAt(view, pose, width, box, [203, 199], 14).kind, "center");
    assert.equal(handleAt(view, pose, width, box, [203, 99], 14), null);
    const drag = (handle, from, to) => dragged(view, pose, width, box, handle, from, to);
    const moved = drag(handles.find(({ kind }) => kind === "center"), [200, 200], [250, 150]);
    assert.deepEqual([moved.size, moved.turn], [box.size, box.turn]);
    assert.ok(Math.abs(Math.hypot(...moved.center) - Math.SQRT1_2) < 1e-4 && Math.abs(moved.center[1] - 0.5) < 1e-4, `${moved.center}`);
    const top = handles.find(({ kind, axis, sign }) => kind === "face" && axis === 1 && sign === 1);
    const higher = drag(top, [200, 150], [200, 100]);
    near(higher.size, [1, 1.5, 1], "size");
    near(higher.center, [0, 0.25, 0], "the other face stays");
    assert.ok(drag(top, [200, 150], [200, 390]).size[1] > 0);
    const turned = drag(handles.find(({ kind }) => kind === "turn"), [200, 200], [280, 200]);
    near(turned.turn, [0, Math.sin(0.4), 0, Math.cos(0.4)], "turn, seen from its side");
  });

  await step("a visit begins where photographs were taken", async () => {
    const view = (angles) => {
      const cameras = angles.map((angle) => {
        const backward = [Math.cos(angle), Math.sin(angle), 0];
        return { right: [-backward[1], backward[0], 0], up: [0, 0, 1], backward, position: backward.map((number) => 4 * number) };
      });
      return { center: [0, 0, 0], up: [0, 0, 1], distance: 4, elevation: 0.3, aspect: 1, focal: 1, cameras };
    };
    const ring = Array.from({ length: 12 }, (_, i) => (i * Math.PI) / 6);
    assert.deepEqual(homeOf(view(ring)), { azimuth: 0.8, elevation: 0.3, zoom: 1, center: [0, 0, 0] });
    assert.deepEqual(homeOf(view([])).azimuth, 0.8);
    for (const middle of [0.5, 3, 4.2]) {
      const arc = view([-1, -0.5, 0, 0.5, 1].map((angle) => middle + angle));
      const { backward, position } = basisOf(arc, homeOf(arc));
      assert.ok(Math.hypot(backward[0] - Math.cos(middle), backward[1] - Math.sin(middle), backward[2]) < 1e-9, `${backward}`);
      assert.ok(Math.hypot(...position.map((number, i) => number - 4 * backward[i])) < 1e-9, `${position}`);
    }
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
    await refused({ "sparse/0/cameras.bin": "", "sparse/0/images.bin": "", "pictures/a.png": "" }, /none of its pictures/);
  });

  // images.bin of these names, each with one point.
  const imagesBin = (...names) => {
    const record = (name) => {
      const bytes = Buffer.alloc(64 + name.length + 1 + 8 + 24);
      bytes.write(name, 64);
      bytes.writeBigUInt64LE(1n, 64 + name.length + 1);
      return bytes;
    };
    const count = Buffer.alloc(8);
    count.writeBigUInt64LE(BigInt(names.length));
    return new Uint8Array(Buffer.concat([count, ...names.map(record)]));
  };

  await step("the names in COLMAP's lists are read, of damaged ones as far as they go", async () => {
    const whole = imagesBin("a.png", "deep/b c.jpg");
    assert.deepEqual(namesOfBinary(whole.buffer), ["a.png", "deep/b c.jpg"]);
    for (let size = 0; size < whole.length; size += 7) {
      const names = namesOfBinary(whole.slice(0, size).buffer);
      assert.deepEqual(names, ["a.png", "deep/b c.jpg"].slice(0, names.length), `cut at ${size}`);
    }
    const absurd = whole.slice();
    absurd.fill(0xff, 0, 8);
    absurd.fill(0xff, 8 + 64 + 6, 8 + 64 + 14);
    assert.deepEqual(namesOfBinary(absurd.buffer), ["a.png"]);
    const line = (name) => `1 1 0 0 0 0 0 0 1 ${name}\n`;
    assert.deepEqual(namesOfText(`# list\n\n${line("a b.png")}\n${line("c.jpg")}0 0 1\n${line("d.jpg")}`), ["a b.png", "c.jpg", "d.jpg"]);
    assert.deepEqual(namesOfText("\u0000\n1 2 3\n"), []);
  });

  await step("the largest COLMAP model counts, wherever it is, with the pictures that it lists", async () => {
    const model = (folder, ...names) => ({ [`${folder}/cameras.bin`]: "c", [`${folder}/images.bin`]: imagesBin(...names) });
    const pictures = { "images/a.png": "", "images/b.heic": "", "images/unposed.png": "", "images/._a.png": "", "__MACOSX/images/a.png": "" };
    const parts = { ...model("sparse/0", "a.png"), ...model("sparse/1", "a.png", "b.heic"), ...pictures };
    assert.deepEqual(await pathsOf(parts), ["images/a.png", "images/b.heic", "sparse/1/cameras.bin", "sparse/1/images.bin"]);
    const splats = { ...model("distorted/sparse/0", "a.png", "b.png"), "input/a.png": "", "input/b.png": "", "masks/a.png": "" };
    assert.deepEqual(await pathsOf(splats), ["distorted/sparse/0/cameras.bin", "distorted/sparse/0/images.bin", "input/a.png", "input/b.png", "masks/a.png"]);
    const project = Object.fromEntries(Object.entries({ ...model("dense/0/sparse", "x/a.webp"), "dense/0/images/x/a.webp": "", "dense/0/stereo/depth_maps/a.png": "" }).map(([path, text]) => [`project/${path}`, text]));
    assert.deepEqual(await pathsOf(project), ["project/dense/0/images/x/a.webp", "project/dense/0/sparse/cameras.bin", "project/dense/0/sparse/images.bin"]);
    assert.deepEqual(await pathsOf({ ...model("sparse/0", "A.JPEG", "gone.jpg"), "images_4/a.jpg": "", "images_4/b.jpg": "" }), ["images_4/a.jpg", "sparse/0/cameras.bin", "sparse/0/images.bin"]);
    const capture = await readCapture("scene", filesOf({ ...model("sparse/0", "a.png", "gone.png"), "images/a.png": "" }));
    assert.equal(capture.note, "1 of 2 listed pictures is not in the folder and left out, such as gone.png.");
    assert.ok(capture.hasPoses);
  });

  await step("names as other tools write them find their files", async () => {
    const found = async (listed, ...there) => (await pathsOf({ "transforms.json": transforms({ file_path: listed }), ...Object.fromEntries(there.map((path) => [path, ""])) })).filter((path) => path !== "transforms.json");
    assert.deepEqual(await found("C:\\scan\\images\\A.JPEG", "images/a.jpg", "masks/a.jpg"), ["images/a.jpg", "masks/a.jpg"]);
    assert.deepEqual(await found("/home/me/images/a.heic", "a.heic"), ["a.heic"]);
    assert.deepEqual(await found("images/a", "images/a.avif"), ["images/a.avif"]);
    assert.deepEqual(await found("flight 1/a.png", "flight 1_a.png"), ["flight 1_a.png"]);
    assert.deepEqual(await found("flight_a.png", "flight/a.png"), ["flight/a.png"]);
    assert.deepEqual(await found("\u00e4.png", "a\u0308.png"), ["a\u0308.png"]);
    await assert.rejects(found("images/a.png", "images/b.png"), /None of the 1 pictures/);
  });

  const jpeg = new Uint8Array([0xff, 0xd8, 0xff, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0]);
  const box = new TextEncoder().encode("\0\0\0\x18ftypheic....");
  await step("photographs and films without poses are for a pose job, by names without folders", async () => {
    const contents = { "a.JPG": jpeg, "b.heic": box, "c.webp": jpeg, "walk.mov": box, "d.tif": "", "notes.txt": "private", ".e.jpg": jpeg, "@eaDir/a.JPG": jpeg, "fake.png": "text", "empty.jpg": "" };
    const capture = await readCapture("garden", filesOf(contents));
    assert.deepEqual(capture.files.map(({ path }) => path), ["a.JPG", "b.heic", "c.webp", "walk.mov"]);
    assert.deepEqual([capture.hasPoses, capture.nPictures, capture.nFilms], [false, 3, 1]);
    assert.match(capture.note, /fake\.png and empty\.jpg are no photographs.*d\.tif is of a kind that is not read: save as JPEG.*notes\.txt is neither photograph nor film/);
    const photos = (...paths) => pathsOf(Object.fromEntries(paths.map((path) => [path, jpeg])));
    assert.deepEqual(await photos("images/a.jpg", "images/b.jpg", "images/c.jpg", "masks/a.jpg", "images_2/a.jpg"), ["a.jpg", "b.jpg", "c.jpg"]);
    const masked = await readCapture("masked", filesOf({ "a.jpg": jpeg, "b.jpg": jpeg, "masks/a.jpg.png": "of a", "masks/b.png": "of b", "masks/c.png": "" }));
    assert.deepEqual(await Promise.all(masked.files.map(({ mask }) => mask.text())), ["of a", "of b"]);
    const below = await readCapture("masked", filesOf({ "images/x.jpg": jpeg, "images/y.jpg": jpeg, "masks/x.png": "of x" }));
    assert.deepEqual(below.files.map(({ mask }) => mask !== undefined), [true, false]);
    assert.deepEqual(joinedPhotographs(below, masked).files.map(({ mask }) => mask !== undefined), [true, false, true, true]);
    assert.deepEqual(await photos("day 1/a.jpg", "day 2/a.jpg", "day 2/b.jpg", "depth/a.jpg"), ["a.jpg", "b.jpg", "day 2_a.jpg"]);
    assert.deepEqual(flatNames(["x/a.jpg", "y/A.jpg", "A.jpg", ".b.jpg", "x\u0007\\y.jpg", `${"w".repeat(300)}.jpg`]), ["a.jpg", "y_A.jpg", "A-2.jpg", "_b.jpg", "x__y.jpg", `${"w".repeat(100)}.jpg`]);
    const nameOf = (...names) => chosenFiles(filesOf(Object.fromEntries(names.map((name) => [name, ""]))).map(({ file }) => file)).name;
    assert.deepEqual([nameOf("walk.mp4"), nameOf("notes.txt", "IMG_2031.HEIC", "a.jpg"), nameOf("notes.txt")], ["walk", "IMG_2031", "photographs"]);
    const more = await readCapture("more", filesOf({ "b.heic": box, "z.jpg": jpeg, "y.jpg": jpeg, "x.jpg": jpeg }));
    const joined = joinedPhotographs({ ...capture, files: more.files.slice(0, 2) }, more);
    assert.deepEqual([joined.name, joined.files.length, joined.nPictures, joined.nFilms], ["garden", 4, 4, 0]);
  });

  await step("photographs that cannot become a scene are refused with what to do", async () => {
    const shortage = async (contents) => shortageOf(await readCapture("few", filesOf(contents)))?.message;
    assert.match(await shortage({ "a.jpg": jpeg }), /^1 photograph: at least 3/);
    assert.match(await shortage({ "a.jpg": jpeg, "b.jpg": jpeg, "c.jpg": "text" }), /^2 photographs: at least 3/);
    for (const enough of [{ "a.jpg": jpeg, "b.jpg": jpeg, "c.jpg": jpeg }, { "a.jpg": jpeg, "b.mp4": box }, { "transforms.json": transforms({ file_path: "a.jpg" }), "a.jpg": jpeg }])
      assert.equal(await shortage(enough), undefined);
    await refused({ "a.tiff": "", "b.CR2": "" }, /None of these can be used/);
    await refused(Object.fromEntries(Array.from({ length: 5001 }, (_, i) => [`${i}.jpg`, jpeg])), /5001 photographs: at most 5000/);
    assert.equal((await readCapture("film", filesOf({ "a.mp4": box }))).nFilms, 1);
    for (const head of ["", "x", "<html>", "%PDF-1.7", "PK\u0003\u0004"]) assert.ok(!isPictureOrFilm(new TextEncoder().encode(head)), head);
  });

  await step("a report that does not fit is left out, a new attempt begins its bar anew", async () => {
    for (const text of ["", "[", "null", "3", '{"photos": 3}', '{"photos": [null, 3]}']) assert.deepEqual(photosOf(text), []);
    assert.deepEqual(photosOf('{"photos": [{"name": "a", "posed": true, "points": 7}, {"name": 3, "reason": "blur"}]}'), [
      { name: "a", posed: true, points: 7, words: "" },
      { name: "3", posed: false, points: 0, words: "blur" },
    ]);
    assert.deepEqual(
      ["extracting coarse features", "extracting more features (3 of 8 posed so far)", "matching features of overlapping pairs", "placing cameras"].map(stageWords),
      ["looking at each photograph", "looking more closely at each photograph (3 of 8 placed so far)", "comparing photographs that overlap", "placing cameras"],
    );
    const searched = new SearchShare();
    const at = (attempt, stage, done) => searched.add({ attempt, progress: { stage, stages: 4, done, of: 9 } });
    assert.equal(searched.add({ attempt: 1 }), 0);
    assert.equal(at(1, 1, 9), 0.25);
    assert.equal(at(2, 1, 0), 0);
    assert.deepEqual([["photographs", 50], ["iterations", 100], ["frames", 0]].map(([unit, of]) => countWords({ done: 48, of, unit })), ["48 of 50", "", ""]);
  });

  await step("what is placed so far becomes dots, and wedges that open as cameras look", async () => {
    assert.deepEqual(sketchPaths({ points: new Uint8Array([1, 2, 255, 0, 7]), cameras: new Uint8Array([10, 20, 0, 30, 40, 64, 9]) }), {
      points: "M1 2h0M255 0h0",
      cameras: "M10 20l11.0 4.0l0.0 -8.0zM30 40l-4.0 11.0l8.0 -0.0z",
    });
  });

  await step("one bar goes over all stages of a search for cameras, and never back", async () => {
    const searched = new SearchShare();
    const shareAt = (stage, done, of, seconds, etaSeconds) => searched.add({ attempt: 1, progress: { stage, stages: 4, done, of, seconds, etaSeconds } });
    assert.equal(shareAt(1, 1, 2, 1, 0), 0.125);
    assert.equal(shareAt(2, 0, 9, 20, 60), 0.25);
    assert.equal(shareAt(3, 0, 9, 22, 178), 0.25, "the estimate has grown");
    assert.equal(shareAt(3, 9, 9, 60, 0), 0.25, "no estimate for a moment");
    assert.equal(shareAt(4, 9, 9, 75, 25), 0.75);
  });

  await step("a curve has all points and previews that nerfd keeps", async () => {
    const kept = {
      points: Array.from({ length: 2_000 }, (_, i) => ({ step: 10 * (i + 1), seconds: i, loss: 1, psnrTrain: 20, raysPerSecond: 1e6 })),
      previews: Array.from({ length: 64 }, (_, i) => ({ step: 300 * i + 5, psnr: 20 })),
    };
    const curve = new Curve();
    curve.fill(kept);
    curve.add({ checkpoints: [], progress: { step: 20_010, seconds: 2_000, loss: 1, psnrTrain: 20, raysPerSecond: 1e6 } });
    assert.equal(curve.points.length, 2_065);
  });

  await step("messages begin with what they say, not with a resource's name", async () => {
    for (const [message, words] of [
      ["projects/default/jobs/j-2f: no photograph could be posed", "no photograph could be posed (job j-2f)"],
      ["projects/lab/jobs/j-2f is SUCCEEDED: it cannot be paused", "This job is succeeded: it cannot be paused (j-2f)"],
      ["projects/lab/jobs/j-2f is FAILED", "This job is failed (j-2f)"],
      ["projects/lab/jobs/j-2f: the photograph FAILED.JPG is RUNNING out of the frame", "the photograph FAILED.JPG is RUNNING out of the frame (job j-2f)"],
      ["QUEUED.png is no picture", "QUEUED.png is no picture"],
      ["part projects/lab/jobs/j-2f: no room", "part job j-2f: no room"],
      ["projects/default/scenes/fox is used by projects/default/jobs/j-2f", "This scene is used by job j-2f (fox)"],
      ["projects/default/jobs/j/checkpoints/20 not found", "There is no checkpoint j/20"],
      ["workers/w-1: no room", "no room (worker w-1)"],
      ["the only worker is busy with projects/a/jobs/j-1", "the only worker is busy with job j-1"],
      ["models/a.jpg: not a JPEG", "models/a.jpg: not a JPEG"],
      ["", ""],
    ])
      assert.equal(plain(message), words);
  });

  await step("files are named after the scene", async () => {
    assert.deepEqual(["fox", "my fox / 2", "  ", "写真", "..x"].map(fileStem), ["fox", "my-fox-2", "nerfd", "写真", "x"]);
  });

  await step("this computer's own addresses are told from others", async () => {
    const mine = ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "a.localhost"];
    assert.deepEqual([...mine, "nerf.example.com", "192.168.0.7", "localhost.example.com"].filter(isLoopback), mine);
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

  await step("the engine reads the same from what is sent as from the whole folder", async () => {
    // What it says of the files in `at`, but for those that are not used.
    const reportOf = (at, contents) => {
      for (const [path, content] of Object.entries(contents)) {
        mkdirSync(dirname(join(at, path)), { recursive: true });
        writeFileSync(join(at, path), content);
      }
      const { unposed, warnings, ...report } = JSON.parse(spawnSync(join(binaries, "nerf-engine"), ["check", "--json", at], { encoding: "utf8" }).stdout);
      return report;
    };
    for (const [i, [what, contents]] of Object.entries(posedFolders).entries()) {
      const capture = await readCapture("scene", filesOf(contents));
      const sent = Object.fromEntries(capture.files.map(({ path }) => [path, contents[path]]));
      const whole = reportOf(join(folder, `${i}-whole`), contents);
      assert.ok(capture.hasPoses && whole.train + whole.test > 0, `${what}: ${JSON.stringify(whole)}`);
      assert.deepEqual(reportOf(join(folder, `${i}-sent`), sent), whole, what);
    }
  });

  await step("folders that cannot be trained on are refused with what to do", async () => {
    await refused({}, /empty/);
    await refused({ ".a.png": "" }, /empty/);
    await refused({ "notes.txt": "" }, /No photographs and no film/);
    await refused({ "a.png": "" }, /None of these can be used/);
    for (const text of ["", "[", "[]", "null", '{"frames": 3}', '{"frames": [}', '{"frames": [{"file_path": "a.png"}, ', "\u0000"]) await refused({ "transforms.json": text, "a.png": "" }, /is not a camera file/);
    await refused({ "transforms.json": transforms({ file_path: "../a.png" }, { file_path: "b/../../a.png" }), "other.png": "" }, /None of the 2 pictures/);
    const nothing = await readCapture("scene", filesOf({ "transforms.json": transforms(), "a.png": "" }));
    assert.equal(nothing.nPictures, 0);
  });

  await step("the time left is told once something was done, and anew after a new begin", async () => {
    const remaining = new Remaining();
    const lefts = [[0.2, 0], [0.2, 5_000], [0.3, 5_500], [0.4, 10_000], [1, 20_000], [0, 21_000], [0.5, 21_500], [0.5, 31_000]].map(([share, ms]) => Math.round(remaining.after(share, ms)));
    assert.deepEqual(lefts, [0, 0, 39, 30, 0, 0, 0, 10]);
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
