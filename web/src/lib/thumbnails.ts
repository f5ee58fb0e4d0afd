// Small pictures of files that were chosen. They stay for the tab: the report of a pose job shows them, too.
const widthPixels = 224;
const known = new Map<string, Promise<string | null>>();

const keyOf = (file: File) => `${file.name}\n${file.size}\n${file.lastModified}`;
let last: Promise<unknown> = Promise.resolve();

// A URL; null where the browser cannot decode the file, as most cannot HEIC. One at a time: decoded photographs are large.
export function thumbnailOf(file: File): Promise<string | null> {
  const key = keyOf(file);
  let url = known.get(key);
  if (!url) {
    url = last.then(() => draw(file)).catch(() => null);
    last = url;
    known.set(key, url);
  }
  return url;
}

async function draw(file: File): Promise<string> {
  const bitmap = await createImageBitmap(file, { resizeWidth: widthPixels, resizeQuality: "medium" });
  try {
    const canvas = document.createElement("canvas");
    canvas.width = bitmap.width;
    canvas.height = bitmap.height;
    canvas.getContext("2d")!.drawImage(bitmap, 0, 0);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.8));
    if (!blob) throw new Error("the canvas gave nothing");
    return URL.createObjectURL(blob);
  } finally {
    bitmap.close();
  }
}
