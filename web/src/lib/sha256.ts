// SHA-256 piece by piece. crypto.subtle is missing on pages that came over plain HTTP from another machine, and takes a whole
// file at once.
const k = new Uint32Array(64);
const initial = new Uint32Array(8);
{
  // The first 32 bits of the fractional parts of the cube and square roots of the first primes (FIPS 180-4).
  const fraction = (x: number) => ((x - Math.floor(x)) * 0x1_0000_0000) >>> 0;
  let n = 0;
  for (let candidate = 2; n < 64; ++candidate) {
    let isPrime = true;
    for (let i = 2; i * i <= candidate; ++i) if (candidate % i === 0) isPrime = false;
    if (!isPrime) continue;
    if (n < 8) initial[n] = fraction(Math.sqrt(candidate));
    k[n++] = fraction(Math.cbrt(candidate));
  }
}

export class Sha256 {
  private readonly state = initial.slice();
  private readonly words = new Uint32Array(64);
  private readonly block = new Uint8Array(64);
  private blockLength = 0;
  private nBytes = 0;

  update(bytes: Uint8Array): this {
    this.nBytes += bytes.length;
    let i = 0;
    if (this.blockLength > 0) {
      i = Math.min(64 - this.blockLength, bytes.length);
      this.block.set(bytes.subarray(0, i), this.blockLength);
      this.blockLength += i;
      if (this.blockLength < 64) return this;
      this.compress(this.block, 0);
    }
    for (; i + 64 <= bytes.length; i += 64) this.compress(bytes, i);
    this.block.set(bytes.subarray(i));
    this.blockLength = bytes.length - i;
    return this;
  }

  hex(): string {
    const nBits = this.nBytes * 8;
    const padding = new Uint8Array((this.blockLength < 56 ? 64 : 128) - this.blockLength);
    padding[0] = 0x80;
    const view = new DataView(padding.buffer);
    view.setUint32(padding.length - 8, Math.floor(nBits / 0x1_0000_0000));
    view.setUint32(padding.length - 4, nBits >>> 0);
    this.update(padding);
    return Array.from(this.state, (word) => word.toString(16).padStart(8, "0")).join("");
  }

  private compress(bytes: Uint8Array, offset: number) {
    const { state, words } = this;
    for (let i = 0; i < 16; ++i) {
      const at = offset + 4 * i;
      words[i] = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
    }
    for (let i = 16; i < 64; ++i) {
      const w15 = words[i - 15]!;
      const w2 = words[i - 2]!;
      const s0 = ((w15 >>> 7) | (w15 << 25)) ^ ((w15 >>> 18) | (w15 << 14)) ^ (w15 >>> 3);
      const s1 = ((w2 >>> 17) | (w2 << 15)) ^ ((w2 >>> 19) | (w2 << 13)) ^ (w2 >>> 10);
      words[i] = words[i - 16]! + s0 + words[i - 7]! + s1;
    }
    let a = state[0]!, b = state[1]!, c = state[2]!, d = state[3]!;
    let e = state[4]!, f = state[5]!, g = state[6]!, h = state[7]!;
    for (let i = 0; i < 64; ++i) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + k[i]! + words[i]!) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    state[0]! += a;
    state[1]! += b;
    state[2]! += c;
    state[3]! += d;
    state[4]! += e;
    state[5]! += f;
    state[6]! += g;
    state[7]! += h;
    this.blockLength = 0;
  }
}

const pieceBytes = 1 << 20;
const largestForSubtle = 64 << 20;

// The digest of a file; yields to the page between pieces. onRead: bytes that were read since the last call.
export async function sha256OfFile(file: Blob, onRead: (bytes: number) => void = () => {}): Promise<string> {
  if (globalThis.crypto?.subtle && file.size <= largestForSubtle) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    onRead(file.size);
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  const hash = new Sha256();
  for (let begin = 0; begin < file.size; begin += pieceBytes) {
    const piece = new Uint8Array(await file.slice(begin, begin + pieceBytes).arrayBuffer());
    hash.update(piece);
    onRead(piece.length);
  }
  return hash.hex();
}

// A UUID of version 4; crypto.randomUUID is missing where crypto.subtle is.
export function newUuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return uuidOf(Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(""));
}

// The UUID that 32 hexadecimal digits give, with the bits of version 4 set.
export function uuidOf(hex: string): string {
  const variant = ((parseInt(hex[16]!, 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
