// Colors of depths: near is warm, far is dark blue. The polynomials approximate the Turbo map of A. Mikhailov.
const polynomials = [
  [0.1357, 4.5974, -42.3277, 130.5887, -150.5666, 58.1375],
  [0.0914, 2.1856, 4.8052, -14.0195, 4.2109, 2.7747],
  [0.1067, 12.5925, -60.1097, 109.0745, -88.5066, 26.8183],
];

const table = new Uint8ClampedArray(256 * 3);
for (let i = 0; i < 256; ++i) {
  const t = 1 - i / 255;
  polynomials.forEach((coefficients, channel) => {
    table[3 * i + channel] = 255 * coefficients.reduceRight((sum, coefficient) => sum * t + coefficient, 0);
  });
}

const side = 8; // of a block of JPEG

// The first bytes of the pixels of a block.
function* pixelsOf(left: number, top: number, width: number, height: number) {
  for (let y = top; y < Math.min(top + side, height); ++y) {
    for (let x = left; x < Math.min(left + side, width); ++x) yield 4 * (y * width + x);
  }
}

// JPEG leaves faint values beside the edge of what has a depth. A block that reaches from almost none to some has such an edge:
// what is below half of its greatest value becomes none.
function dropRinging(pixels: Uint8ClampedArray, width: number) {
  const height = pixels.length / 4 / width;
  for (let top = 0; top < height; top += side) {
    for (let left = 0; left < width; left += side) {
      let least = 255;
      let most = 0;
      for (const at of pixelsOf(left, top, width, height)) {
        least = Math.min(least, pixels[at]!);
        most = Math.max(most, pixels[at]!);
      }
      if (8 * least >= most) continue;
      for (const at of pixelsOf(left, top, width, height)) {
        if (2 * pixels[at]! < most) pixels.fill(0, at, at + 3);
      }
    }
  }
}

// Colors a gray picture in place, over the range of values that it has. What has no depth stays black.
export function colorize(pixels: Uint8ClampedArray, width: number) {
  dropRinging(pixels, width);
  let least = 255;
  let most = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    const value = pixels[i]!;
    if (value === 0) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  const scale = 255 / Math.max(1, most - least);
  for (let i = 0; i < pixels.length; i += 4) {
    const value = pixels[i]!;
    if (value === 0) continue;
    const at = 3 * Math.round((value - least) * scale);
    pixels[i] = table[at]!;
    pixels[i + 1] = table[at + 1]!;
    pixels[i + 2] = table[at + 2]!;
  }
}
