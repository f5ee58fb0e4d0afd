// What an exported file holds, as a picture: its vertices, drawn as points. No more of a format is read than exports write.
import { add, cross, dot, norm, scale as scaled, unit, type Vec3 } from "./vec3";

export interface Cloud {
  n: number;
  positions: Float32Array; // x, y, z of each
  colors: Uint8ClampedArray; // red, green, blue of each
}

const sh0 = 0.28209479; // spherical harmonic of degree 0
const azimuth = 0.6;
const elevation = 0.35; // radians
const three = (numbers: number[]) => numbers as unknown as Vec3;
const cutShare = 0.005; // of the points at each edge, which may lie outside of the picture

// Null for other formats.
export function cloudOf(bytes: ArrayBuffer): Cloud | null {
  const magic = new TextDecoder().decode(new Uint8Array(bytes, 0, Math.min(4, bytes.byteLength)));
  try {
    return magic.startsWith("ply") ? cloudOfPly(bytes) : magic === "glTF" ? cloudOfGlb(bytes) : null;
  } catch {
    return null; // cut or damaged
  }
}

const emptyCloud = (n: number): Cloud => ({ n, positions: new Float32Array(3 * n), colors: new Uint8ClampedArray(3 * n).fill(160) });

function cloudOfPly(bytes: ArrayBuffer): Cloud | null {
  const head = new TextDecoder("latin1").decode(new Uint8Array(bytes, 0, Math.min(4096, bytes.byteLength)));
  const end = head.indexOf("end_header\n");
  const vertex = /element vertex (\d+)\n((?:property (?:float|uchar) \w+\n)+)/.exec(head);
  if (end < 0 || !vertex || !head.includes("binary_little_endian")) return null;
  const at = new Map<string, number>();
  let stride = 0;
  for (const [, type, name] of vertex[2]!.matchAll(/property (float|uchar) (\w+)\n/g)) {
    at.set(name!, stride);
    stride += type === "float" ? 4 : 1;
  }
  const data = new DataView(bytes, end + "end_header\n".length);
  const cloud = emptyCloud(Number(vertex[1]));
  const places = ["x", "y", "z"].map((name) => at.get(name)!);
  const bytesAt = ["red", "green", "blue"].map((name) => at.get(name));
  const wavesAt = ["f_dc_0", "f_dc_1", "f_dc_2"].map((name) => at.get(name));
  for (let i = 0; i < cloud.n; ++i) {
    for (let k = 0; k < 3; ++k) {
      cloud.positions[3 * i + k] = data.getFloat32(i * stride + places[k]!, true);
      if (bytesAt[k] !== undefined) cloud.colors[3 * i + k] = data.getUint8(i * stride + bytesAt[k]!);
      else if (wavesAt[k] !== undefined) cloud.colors[3 * i + k] = 255 * (0.5 + sh0 * data.getFloat32(i * stride + wavesAt[k]!, true));
    }
  }
  return cloud;
}

interface Gltf {
  meshes: { primitives: { attributes: Record<string, number> }[] }[];
  accessors: { bufferView: number; count: number }[];
  bufferViews: { byteOffset?: number }[];
}

function cloudOfGlb(bytes: ArrayBuffer): Cloud | null {
  const data = new DataView(bytes);
  const jsonBytes = data.getUint32(12, true);
  const json = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 20, jsonBytes))) as Gltf;
  const { attributes } = json.meshes[0]!.primitives[0]!;
  const begin = (accessor: number) => 20 + jsonBytes + 8 + (json.bufferViews[json.accessors[accessor]!.bufferView]!.byteOffset ?? 0);
  const position = attributes["POSITION"]!;
  const color = attributes["COLOR_0"]; // four numbers of 16 bits, linear light
  const cloud = emptyCloud(json.accessors[position]!.count);
  for (let i = 0; i < cloud.n; ++i) {
    for (let k = 0; k < 3; ++k) {
      cloud.positions[3 * i + k] = data.getFloat32(begin(position) + 12 * i + 4 * k, true);
      if (color !== undefined) cloud.colors[3 * i + k] = 255 * (data.getUint16(begin(color) + 8 * i + 2 * k, true) / 65535) ** (1 / 2.2);
    }
  }
  return cloud;
}

// From where a cloud is seen: what is upright, and the direction to the viewer; without one, obliquely above.
export interface Look {
  up: number[];
  toViewer?: number[];
  isLeftHanded?: boolean; // the axes are
}

// The axes of a picture that is seen so, and the direction to the viewer.
export function pictureAxes({ up, toViewer: given, isLeftHanded }: Look): { right: Vec3; above: Vec3; toViewer: Vec3 } {
  const u = unit(three(up));
  const first = unit(cross(u, Math.abs(u[0]) < 0.9 ? [1, 0, 0] : [0, 1, 0]));
  const flat = add(scaled(first, Math.cos(azimuth)), scaled(cross(u, first), Math.sin(azimuth)));
  const oblique = add(scaled(flat, Math.cos(elevation)), scaled(u, Math.sin(elevation)));
  const toViewer = given && norm(cross(u, three(given))) > 1e-3 ? unit(three(given)) : oblique;
  const right = unit(isLeftHanded ? cross(toViewer, u) : cross(u, toViewer));
  return { right, above: isLeftHanded ? cross(right, toViewer) : cross(toViewer, right), toViewer };
}

// The cloud without perspective, in width x height pixels of RGBA; what is empty is transparent.
export function drawCloud({ n, positions, colors }: Cloud, width: number, height: number, look: Look): Uint8ClampedArray {
  const { right, above, toViewer } = pictureAxes(look);
  const along = (axis: Vec3) => Float32Array.from({ length: n }, (_, i) => dot(axis, [positions[3 * i]!, positions[3 * i + 1]!, positions[3 * i + 2]!]));
  const [x, y, depth] = [along(right), along(above), along(toViewer)];
  const range = (values: Float32Array) => {
    const sorted = values.slice().sort();
    return [sorted[Math.floor(cutShare * n)]!, sorted[Math.ceil((1 - cutShare) * n) - 1]!] as const;
  };
  const [left, rightmost] = range(x);
  const [bottom, top] = range(y);
  const scale = 0.94 * Math.min(width / (rightmost - left || 1), height / (top - bottom || 1));
  const size = Math.min(5, 1 + Math.ceil(Math.sqrt((width * height) / Math.max(n, 1))));
  const pixels = new Uint8ClampedArray(4 * width * height);
  const nearest = new Float32Array(width * height).fill(-Infinity);
  for (let i = 0; i < n; ++i) {
    const px = Math.round(width / 2 + scale * (x[i]! - (left + rightmost) / 2) - size / 2);
    const py = Math.round(height / 2 - scale * (y[i]! - (bottom + top) / 2) - size / 2);
    for (let row = Math.max(0, py); row < Math.min(height, py + size); ++row) {
      for (let column = Math.max(0, px); column < Math.min(width, px + size); ++column) {
        const at = row * width + column;
        if (depth[i]! <= nearest[at]!) continue;
        nearest[at] = depth[i]!;
        pixels.set([colors[3 * i]!, colors[3 * i + 1]!, colors[3 * i + 2]!, 255], 4 * at);
      }
    }
  }
  return pixels;
}
