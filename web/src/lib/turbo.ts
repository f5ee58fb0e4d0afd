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

// Colors a gray picture in place, over the range of values that it has. What has no depth stays black.
export function colorize(pixels: Uint8ClampedArray) {
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
