// The model in the page: what nerf-engine wrote (engine/export/viewer_file.h), checked.

export type Vec3 = [number, number, number];
export type Pose = number[]; // 12 numbers, rows of [right, up, backward, position], training frame

export interface PictureCamera {
  pose: Pose;
  slopes: [number, number]; // half the picture at distance 1: across, up
}

export interface SceneHeader {
  format: string;
  version: number;
  bytes: number;
  table: { log2Entries: number; resolutions: number[]; entries: number[] };
  box: { center: Vec3; halfSide: number; count: number; resolution: number };
  march: { near: number; far: number; step: number; cone: number; minTransmittance: number };
  densityShift: number;
  contraction: number;
  learnsBackground: boolean;
  crop?: { center: Vec3; axes: [Vec3, Vec3, Vec3] }; // base/crop_box.h
  background: Vec3;
  ownToTraining: Pose;
  scale: number;
  center: Vec3;
  up: Vec3;
  distance: number;
  cameras: PictureCamera[];
  path: { closed: boolean; slopes: [number, number]; poses: Pose[] };
}

export interface Model {
  header: SceneHeader;
  table: Uint16Array[]; // half floats, of each level
  weights: Uint16Array; // half floats, layers one after another as [input][output]
  blocks: Uint32Array; // two words for each block of cells
  distances: Uint8Array; // of each block
}

// Layers in the order of engine/base/ngp_layers.h: inputs, outputs.
export const layers = [
  [32, 64],
  [64, 16],
  [32, 64],
  [64, 64],
  [64, 16],
] as const;
const nWeights = layers.reduce((sum, [inputs, outputs]) => sum + inputs * outputs, 0);

function decode(text: string): Uint8Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// Reads the two elements and empties them. Throws an Error for people.
export function readModel(scene: HTMLElement | null, data: HTMLElement | null): Model {
  const broken = (what: string) => new Error(`This file is not whole: ${what}. Copy it again, or export it again.`);
  let header: SceneHeader;
  try {
    header = JSON.parse(scene?.textContent ?? "") as SceneHeader;
  } catch {
    throw broken("the description of its scene cannot be read");
  }
  if (header.format !== "nerfd-viewer" || header.version !== 1) throw broken("it does not describe a scene of this viewer");
  let bytes: Uint8Array;
  try {
    // A cut may leave a part of four letters.
    const text = (data?.textContent ?? "").trim();
    bytes = decode(text.slice(0, text.length - (text.length % 4)));
  } catch {
    throw broken("its model is no base64");
  }
  if (bytes.length !== header.bytes) throw broken(`it has ${bytes.length} of the ${header.bytes} bytes of its model`);
  data!.textContent = "";
  let at = 0;
  const take = (n: number) => bytes.buffer.slice(at, (at += n)) as ArrayBuffer;
  const table = header.table.entries.map((n) => new Uint16Array(take(8 * n)));
  const weights = new Uint16Array(take(2 * nWeights));
  const nBlocks = header.box.count * (header.box.resolution / 4) ** 3;
  const blocks = new Uint32Array(take(8 * nBlocks));
  const distances = new Uint8Array(take(nBlocks));
  if (at !== bytes.length) throw broken("the sizes in it do not agree");
  return { header, table, weights, blocks, distances };
}

export function floatOfHalf(half: number): number {
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  const size = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return half & 0x8000 ? -size : size;
}
