// The model in the page: what nerf-engine wrote (engine/export/files/viewer_file.h), checked.

import { cellsOf, type Cells } from "./cells";

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
  baked?: {
    bytes: number;
    nodes: number;
    resolution: number; // of its grid
    nodesPerCell: number;
    horizon: number; // rows; 0: none
    density: [number, number]; // what 0 and 255 mean
    base: [number, number];
    slope: [number, number];
  };
  table: { log2Entries: number; resolutions: number[]; entries: number[] };
  box: { center: Vec3; halfSide: number; count: number; resolution: number };
  march: { near: number; far: number; step: number; cone: number; minTransmittance: number };
  densityShift: number;
  contraction: number;
  learnsBackground: boolean;
  frustum?: { apex: Vec3; axes: [Vec3, Vec3, Vec3]; near: number; slope: number }; // base/encoded_space.h
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

export type Kind = "exact" | "baked";

export interface Grid {
  blocks: Uint32Array; // two words for each block of cells
  distances: Uint8Array; // of each block
}

export interface ExactModel extends Grid {
  table: Uint16Array[]; // half floats, of each level
  weights: Uint16Array; // half floats, layers one after another as [input][output]
}

// BakedModel of engine/export/files/baked_model.h: 4 and 3 bytes of each node.
export interface BakedModel extends Grid {
  cells: Cells;
  base: Uint8Array;
  slopes: Uint8Array[];
  horizon: Uint8Array;
}

// One form of the model at least.
export interface Model {
  header: SceneHeader;
  exact?: ExactModel;
  baked?: BakedModel;
}

// Layers in the order of engine/base/layouts/ngp_layers.h: inputs, outputs.
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

const broken = (what: string) => new Error(`This file is not whole: ${what}. Copy it again, or export it again.`);

function bytesOf(element: HTMLElement | null, expected: number): Uint8Array {
  let bytes: Uint8Array;
  try {
    // A cut may leave a part of four letters.
    const text = (element?.textContent ?? "").trim();
    bytes = decode(text.slice(0, text.length - (text.length % 4)));
  } catch {
    throw broken("its model is no base64");
  }
  if (bytes.length !== expected) throw broken(`it has ${bytes.length} of the ${expected} bytes of its model`);
  if (element) element.textContent = "";
  return bytes;
}

// Copies of the parts, one after another.
function parts(bytes: Uint8Array) {
  let at = 0;
  return {
    take: (n: number) => bytes.slice(at, (at += n)).buffer as ArrayBuffer,
    end: () => {
      if (at !== bytes.length) throw broken("the sizes in it do not agree");
    },
  };
}

// The scene with the baked model's grid.
export const bakedHeader = (header: SceneHeader): SceneHeader => ({ ...header, box: { ...header.box, resolution: header.baked!.resolution } });

const blocksOf = (header: SceneHeader) => header.box.count * (header.box.resolution / 4) ** 3;

function exactOf(header: SceneHeader, bytes: Uint8Array): ExactModel {
  const { take, end } = parts(bytes);
  const table = header.table.entries.map((n) => new Uint16Array(take(8 * n)));
  const weights = new Uint16Array(take(2 * nWeights));
  const blocks = new Uint32Array(take(8 * blocksOf(header)));
  const distances = new Uint8Array(take(blocksOf(header)));
  end();
  return { table, weights, blocks, distances };
}

const canUnpack = typeof DecompressionStream !== "undefined";

async function inflate(bytes: Uint8Array): Promise<Uint8Array> {
  if (!canUnpack) throw new Error("This browser is too old for the file: it cannot unpack its model.");
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw broken("its baked model cannot be unpacked");
  }
}

async function bakedOf(header: SceneHeader, packed: Uint8Array): Promise<BakedModel> {
  const { nodes: n, nodesPerCell, horizon: rows } = header.baked!;
  const { take, end } = parts(await inflate(packed));
  const nBlocks = blocksOf(bakedHeader(header));
  const blocks = new Uint32Array(take(8 * nBlocks));
  const distances = new Uint8Array(take(nBlocks));
  const base = new Uint8Array(take(4 * n));
  const slopes = [0, 1, 2].map(() => new Uint8Array(take(3 * n)));
  const horizon = new Uint8Array(take(6 * rows * rows));
  end();
  const cells = cellsOf(blocks, nodesPerCell, n);
  if (!cells) throw broken("the sizes in it do not agree");
  return { blocks, distances, cells, base, slopes, horizon };
}

// Reads the elements and empties them. Throws an Error for people. `data` comes last in the file, so that one that was cut lacks it.
export async function readModel(scene: HTMLElement | null, bakedData: HTMLElement | null, data: HTMLElement | null): Promise<Model> {
  let header: SceneHeader;
  try {
    header = JSON.parse(scene?.textContent ?? "") as SceneHeader;
  } catch {
    throw broken("the description of its scene cannot be read");
  }
  if (header.format !== "nerfd-viewer" || header.version !== 1) throw broken("it does not describe a scene of this viewer");
  const model: Model = { header };
  const packed = bytesOf(bakedData, header.baked?.bytes ?? 0);
  if (!data) throw broken("its end is missing");
  const bytes = bytesOf(data, header.bytes);
  if (header.bytes > 0) model.exact = exactOf(header, bytes);
  if (header.baked && (canUnpack || !model.exact)) model.baked = await bakedOf(header, packed);
  return model;
}

export function floatOfHalf(half: number): number {
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  const size = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return half & 0x8000 ? -size : size;
}
