import { bytes } from "./format";

// A .zip without compression, for files that are packed already.
export interface ZipEntry {
  name: string;
  size: number; // bytes
  content: () => Promise<Blob>; // of that size
}

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; ++bit) rest = rest & 1 ? 0xedb88320 ^ (rest >>> 1) : rest >>> 1;
  return rest;
});

function crc32(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (const byte of bytes) rest = table[(rest ^ byte) & 255]! ^ (rest >>> 8);
  return ~rest >>> 0;
}

const most = 0xffffffff; // bytes that its numbers hold
const recordBytes = 30 + 46; // of a file and of the index, each with the name
const endBytes = 22;

// Numbers of two or four bytes, lowest first.
function record(fields: [number, 2 | 4][]): ArrayBuffer {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [, size]) => sum + size, 0)));
  let at = 0;
  for (const [value, size] of fields) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return view.buffer;
}

// Throws before it fetches anything if the .zip would have more than 4 GB; else fetches one content
// after the other.
export async function zipOf(entries: ZipEntry[]): Promise<Blob> {
  const parts: BlobPart[] = [];
  const index: BlobPart[] = [];
  let at = 0;
  let indexBytes = 0;
  const files = entries.map((entry) => ({ ...entry, encoded: new TextEncoder().encode(entry.name) }));
  const total = files.reduce((sum, { size, encoded }) => sum + size + recordBytes + 2 * encoded.length, endBytes);
  if (total > most) throw new Error(`a .zip holds 4 GB at most, these frames have ${bytes(total)}: get them by nerfctl job fetch, or take fewer or smaller ones`);
  for (const { encoded, size, content: fetchContent } of files) {
    const content = await fetchContent();
    if (content.size !== size) throw new Error(`a frame has ${content.size} bytes, not the ${size} that the job names`);
    const crc = crc32(new Uint8Array(await content.arrayBuffer()));
    const utf8 = 0x800;
    const date = 0x21; // 1980-01-01: the same frames make the same file
    const shared: [number, 2 | 4][] = [[20, 2], [utf8, 2], [0, 2], [0, 2], [date, 2], [crc, 4], [size, 4], [size, 4], [encoded.length, 2], [0, 2]];
    const head = record([[0x04034b50, 4], ...shared]);
    parts.push(head, encoded, content);
    const listed = record([[0x02014b50, 4], [20, 2], ...shared, [0, 2], [0, 2], [0, 2], [0, 4], [at, 4]]);
    index.push(listed, encoded);
    indexBytes += listed.byteLength + encoded.length;
    at += head.byteLength + encoded.length + size;
  }
  const n = entries.length;
  return new Blob([...parts, ...index, record([[0x06054b50, 4], [0, 2], [0, 2], [n, 2], [n, 2], [indexBytes, 4], [at, 4], [0, 2]])], { type: "application/zip" });
}
