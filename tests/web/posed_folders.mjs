// Folders with poses as programs leave them, each of six pictures that nerf-engine reads, with what lies beside them.
import { crc32, deflateSync } from "node:zlib";

const [n, side, focal] = [6, 16, 20];

// A picture of one gray.
function png(gray) {
  const chunk = (kind, body) => {
    const bytes = Buffer.concat([Buffer.alloc(4), Buffer.from(kind), body, Buffer.alloc(4)]);
    bytes.writeUInt32BE(body.length);
    bytes.writeUInt32BE(crc32(bytes.subarray(4, -4)), bytes.length - 4);
    return bytes;
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(side);
  head.writeUInt32BE(side, 4);
  head[8] = 8;
  const rows = Buffer.alloc(side * (side + 1), gray);
  for (let y = 0; y < side; ++y) rows[y * (side + 1)] = 0;
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

const views = Array.from({ length: n }, (_, i) => i);
const named = (nameOf, contentOf = () => png(99)) => Object.fromEntries(views.map((i) => [nameOf(i), contentOf(i)]));
// On a circle, looking at its middle: camera to world in OpenGL's axes.
const poseOf = (i) => {
  const [c, s] = [Math.cos(i), Math.sin(i)];
  return [[c, 0, s, 4 * s], [0, 1, 0, 0], [-s, 0, c, 4 * c]];
};

const list = (nameOf, more = {}) =>
  JSON.stringify({ fl_x: focal, fl_y: focal, w: side, h: side, frames: views.map((i) => ({ file_path: nameOf(i), transform_matrix: [...poseOf(i), [0, 0, 0, 1]], ...(more.of?.(i) ?? {}) })) });

const colmap = (folder, nameOf, nImages = n) => ({
  [`${folder}cameras.txt`]: `1 PINHOLE ${side} ${side} ${focal} ${focal} ${side / 2} ${side / 2}\n`,
  [`${folder}images.txt`]: views.slice(0, nImages).map((i) => `${i + 1} 0 ${Math.cos(i / 2)} 0 ${-Math.sin(i / 2)} 0 0 4 1 ${nameOf(i)}\n\n`).join(""),
  [`${folder}points3D.txt`]: "",
});

function llff() {
  const header = `{'descr': '<f8', 'fortran_order': False, 'shape': (${n}, 17), }`.padEnd(117) + "\n";
  const rows = views.flatMap((i) => [...poseOf(i).flatMap(([x, y, z, at], row) => [-y, x, z, at, [side, side, focal][row]]), 1, 9]);
  return Buffer.concat([Buffer.from("\x93NUMPY\x01\x00\x76\x00" + header, "latin1"), Buffer.from(Float64Array.from(rows).buffer)]);
}

const plain = (i) => `images/${i}.png`;
const images = named(plain);
const others = { "notes.txt": "private", "images_2/0.png": png(1), "thumbnails/0.png": png(2), ".hidden.png": "", "images/unlisted.png": png(3) };
const utf16 = (text) => Buffer.from(`\ufeff${text}`, "utf16le");
const polycam = (i) => JSON.stringify({ fx: focal, fy: focal, cx: side / 2, cy: side / 2, width: side, height: side, ...Object.fromEntries(poseOf(i).flatMap((row, r) => row.map((value, c) => [`t_${r}${c}`, value]))) });
const scanner = (i) => JSON.stringify({ cameraPoseARFrame: [...poseOf(i).flat(), 0, 0, 0, 1], intrinsics: [focal, 0, side / 2, 0, focal, side / 2, 0, 0, 1] });
const splats = JSON.stringify(
  views.map((i) => ({ id: i, img_name: `${i}`, width: side, height: side, fx: focal, fy: focal, position: poseOf(i).map((row) => row[3]), rotation: poseOf(i).map(([x, y, z]) => [x, -y, -z]) })),
);

// By what is special in it, the folder's contents by path.
export const posedFolders = {
  "a camera file": { "transforms.json": list(plain), ...images, ...others },
  "a split": { "transforms_train.json": list(plain), "transforms_val.json": list((i) => `val/${i}`), ...images, ...named((i) => `val/${i}.png`) },
  "comments, a comma too many and a number that is none": { "transforms.json": list(plain).replace("[{", '/* [ */[ // of a tool\n{"scale": NaN, "a": -inf, "b": 1e999, "c": "NaN,]",').replace(/\]\}$/, ",\n]}"), ...images },
  "UTF-16": { "transforms.json": utf16(list(plain)), ...images },
  "Latin-1": { "transforms.json": Buffer.from(list((i) => `images/ä${i}.png`), "latin1"), ...named((i) => `images/ä${i}.png`) },
  "names of another machine": { "transforms.json": list((i) => `C:\\scan\\images\\IMG_${i}.PNG`), ...named((i) => `images/img_${i}.png`) },
  "folders in the names": { "transforms.json": list((i) => `flight 1/${i}.png`), ...named((i) => `flight 1_${i}.png`) },
  "missing pictures": { "transforms.json": list((i) => `images/${i + 2}.png`), ...images },
  "masks that are named": { "transforms.json": list(plain, { of: (i) => ({ mask_path: `m/${i}.png` }) }), ...images, ...named((i) => `m/${i}.png`, () => png(255)), ...others },
  "masks beside the pictures": { "transforms.json": list(plain), ...images, "masks/0.png.png": png(255), "masks/1.png": png(0), "masks/9.png": png(0) },
  "masks of instant-ngp": { "transforms.json": list(plain), ...images, "images/dynamic_mask_0.png": png(255) },
  "a placement": { "transforms.json": list(plain), ...images, "placement.json": JSON.stringify({ own_to_training: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], box: [[0, 0, 0], [1, 1, 1]], boxes: 3 }) },
  "COLMAP": { ...colmap("sparse/0/", (i) => `${i}.png`), ...images, ...others, "database.db": "" },
  "a larger model in parts": { ...colmap("sparse/0/", (i) => `${i}.png`, 2), ...colmap("sparse/1/", (i) => `${i}.png`), ...images },
  "a model on the way to splats": { ...colmap("distorted/sparse/0/", (i) => `${i}.png`), ...named((i) => `input/${i}.png`), "masks/0.png": png(255) },
  "a project in a folder": Object.fromEntries(Object.entries({ ...colmap("dense/0/sparse/", (i) => `x/${i}.png`), ...named((i) => `dense/0/images/x/${i}.png`), "dense/0/stereo/0.png": png(1) }).map(([path, content]) => [`project/${path}`, content])),
  "reduced pictures of a model": { ...colmap("sparse/", (i) => `${i}.JPEG`), ...named((i) => `images_4/${i}.jpg`) },
  "LLFF": { "poses_bounds.npy": llff(), ...named((i) => `images_4/${i}.png`), ...named((i) => `images_8/${i}.png`) },
  "Polycam": { ...named((i) => `keyframes/corrected_cameras/${i}.json`, polycam), ...named((i) => `keyframes/cameras/${i}.json`, polycam), ...named((i) => `keyframes/corrected_images/${i}.png`), ...named((i) => `keyframes/images/${i}.png`) },
  "3D Scanner App": { ...named((i) => `frame_0000${i}.json`, scanner), ...named((i) => `frame_0000${i}.png`), "info.json": "{}" },
  "cameras of splats": { "cameras.json": splats, ...images },
};
