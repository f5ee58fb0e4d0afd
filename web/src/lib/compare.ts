// Pictures of a test view, as pixels: the photograph on the job's background, its render, and how much they differ.
import { TrainingConfig_Background as Background } from "../gen/nerf/v1/training_job_pb";

const gain = 4; // of differences, which are small

// Training takes the pixels of a photograph as they are stored. Browsers turn them as its EXIF says, and cannot be told not to.
async function withoutExif(image: Blob): Promise<Blob> {
  const bytes = new Uint8Array(await image.arrayBuffer());
  if (bytes[0] !== 0xff || bytes[1] !== 0xd8) return image; // no JPEG
  const kept = [bytes.subarray(0, 2)];
  let at = 2;
  while (at + 4 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1]!;
    if (marker === 0xda || marker === 0xd9) break; // the pixels begin
    const end = marker === 0xff ? at + 1 : at + 2 + (bytes[at + 2]! << 8) + bytes[at + 3]!;
    const isExif = marker === 0xe1 && String.fromCharCode(...bytes.subarray(at + 4, at + 8)) === "Exif";
    if (!isExif) kept.push(bytes.subarray(at, end));
    at = end;
  }
  return new Blob([...kept, bytes.subarray(at)] as BlobPart[]);
}

export async function pixelsOf(image: Blob, width: number, height: number, background: Background): Promise<ImageData> {
  const bitmap = await createImageBitmap(await withoutExif(image));
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true })!;
  // What training composites on; evaluation takes white for a random one.
  context.fillStyle = background === Background.BLACK ? "#000" : "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  return context.getImageData(0, 0, width, height);
}

export function differenceOf(a: ImageData, b: ImageData): ImageData {
  const difference = new ImageData(a.width, a.height);
  for (let i = 0; i < difference.data.length; ++i) {
    difference.data[i] = i % 4 === 3 ? 255 : Math.min(255, gain * Math.abs(a.data[i]! - b.data[i]!));
  }
  return difference;
}
