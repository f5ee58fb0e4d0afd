// A .zip without compression, for files that are packed already.
export interface ZipEntry {
  name: string;
  content: Blob;
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

// Throws where it would have more than 4 GB. A name has 400 bytes at most.
export async function zipOf(entries: ZipEntry[]): Promise<Blob> {
  const parts: BlobPart[] = [];
  const index: BlobPart[] = [];
  let at = 0;
  let indexBytes = 0;
  for (const { name, content } of entries) {
    const encoded = new TextEncoder().encode(name);
    const size = content.size;
    if (at + indexBytes + size + 1000 > most) throw new Error("a .zip holds 4 GB at most: take fewer or smaller frames");
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
