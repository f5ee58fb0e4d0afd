// The march in GLSL, one ray a pixel: docs/inside/method.md. What a line stands for in the engine is named beside it.

export const fullScreen = `#version 300 es
void main() {
  gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}`;

// What is finished of the full picture over the coarse one.
export const present = `#version 300 es
precision highp float;
uniform sampler2D coarse, fine;
uniform vec2 canvasSize;
out vec4 color;
void main() {
  vec4 sharp = texelFetch(fine, ivec2(gl_FragCoord.xy), 0);
  color = vec4(sharp.a > 0.0 ? sharp.rgb : texture(coarse, gl_FragCoord.xy / canvasSize).rgb, 1.0);
}`;

const march = `#version 300 es
precision highp float;
precision highp int;
precision highp usampler2D;

uniform vec3 boxCenter;
uniform float halfSide;  // of the level-0 box
uniform int boxes;
uniform usampler2D blocks;          // the 64 bits of each 4 x 4 x 4 cells, as two words
uniform usampler2D emptyDistances;  // kernels/ray_marching.h, of each block
uniform int gridResolution;         // cells along a box
uniform bool isCropped;
uniform vec3 cropCenter, cropAxes[3];  // base/crop_box.h
uniform float stepLength, cone, rayNear, rayFar, minTransmittance;

const int kBlockRowBits = 10;  // texels of a row of \`blocks\`, as a power of two
const int kMostSteps = 1 << 16;

float toSteps(float t) {
  if (cone <= 0.0) return t / stepLength;
  float turn = stepLength / cone;
  return t <= turn ? t / stepLength : turn / stepLength + log(t / turn) / log(1.0 + cone);
}
float fromSteps(float n) {
  if (cone <= 0.0) return n * stepLength;
  float turn = stepLength / cone;
  return n <= turn / stepLength ? n * stepLength : turn * exp((n - turn / stepLength) * log(1.0 + cone));
}

// A ray's way through the occupied cells: MarchSamples of kernels/ray_marching.h, a sample a call. The origin is relative to the
// center of the boxes.
struct March {
  vec3 origin, direction, inverse;
  float t, exit;
  // Of the last sample: its block's texel, its cell's bit in the block, its place in the cell from 0 to 1, and how much larger
  // than in the level-0 box that is.
  ivec2 block;
  int bit;
  vec3 inCell;
  float scale;
};

March startMarch(vec3 origin, vec3 direction) {
  March ray;
  ray.origin = origin - boxCenter;
  ray.direction = direction;
  ray.inverse = vec3(
    abs(direction.x) > 1e-12 ? 1.0 / direction.x : 1e12,
    abs(direction.y) > 1e-12 ? 1.0 / direction.y : 1e12,
    abs(direction.z) > 1e-12 ? 1.0 / direction.z : 1e12);
  float side = halfSide * float(1 << (boxes - 1));
  vec3 a = (-side - ray.origin) * ray.inverse, b = (side - ray.origin) * ray.inverse;
  vec3 low = min(a, b), high = max(a, b);
  float enter = max(rayNear, max(low.x, max(low.y, low.z)));
  float leave = min(rayFar, min(high.x, min(high.y, high.z)));
  for (int i = 0; i < 3 && isCropped; ++i) {
    float at = dot(cropAxes[i], origin - cropCenter), slope = dot(cropAxes[i], direction);
    float inverse = abs(slope) > 1e-12 ? 1.0 / slope : 1e12;
    vec2 ways = (vec2(-1.0, 1.0) - at) * inverse;
    enter = max(enter, min(ways.x, ways.y));
    leave = min(leave, max(ways.x, ways.y));
  }
  ray.t = fromSteps(toSteps(enter) + 0.5);
  ray.exit = enter < leave ? leave : -1.0;
  return ray;
}

// The next interval whose middle lies in an occupied cell; false where there is none.
bool nextSample(inout March ray, out float middle, out float delta) {
  int side = gridResolution / 4;
  for (int i = 0; i < kMostSteps; ++i) {
    delta = max(stepLength, ray.t * cone);
    middle = ray.t + 0.5 * delta;
    if (!(middle < ray.exit)) return false;
    vec3 p = ray.origin + ray.direction * middle;
    vec3 size = abs(p) / halfSide;
    float farness = max(size.x, max(size.y, size.z));
    int level = farness > 1.0 ? min(boxes - 1, (floatBitsToInt(farness) >> 23) - 126) : 0;
    float scale = float(1 << level);
    float cellSize = 2.0 * halfSide * scale / float(gridResolution);
    ivec3 cell = clamp(ivec3((p + halfSide * scale) / cellSize), 0, gridResolution - 1);
    ivec3 block = cell >> 2;
    int index = ((level * side + block.z) * side + block.y) * side + block.x;
    ivec2 texel = ivec2(index & ((1 << kBlockRowBits) - 1), index >> kBlockRowBits);
    int reach = int(texelFetch(emptyDistances, texel, 0).r);
    if (reach == 0) {
      uvec2 bits = texelFetch(blocks, texel, 0).rg;
      int bit = (cell.x & 3) + 4 * (cell.y & 3) + 16 * (cell.z & 3);
      if ((((bit < 32 ? bits.x : bits.y) >> (bit & 31)) & 1u) != 0u) {
        ray.t += delta;
        ray.block = texel;
        ray.bit = bit;
        ray.inCell = clamp((p + halfSide * scale) / cellSize - vec3(cell), 0.0, 1.0);
        ray.scale = scale;
        return true;
      }
    }
    ivec3 high = reach == 0 ? cell + 1 : 4 * (block + reach);
    ivec3 low = reach == 0 ? cell : 4 * (block - reach + 1);
    vec3 face = mix(vec3(low), vec3(high), greaterThan(ray.direction, vec3(0.0))) * cellSize - halfSide * scale;
    vec3 ways = (face - ray.origin) * ray.inverse;
    float leave = min(ray.exit, min(ways.x, min(ways.y, ways.z)));
    float now = toSteps(ray.t);
    float before = ray.t;
    ray.t = fromSteps(now + max(1.0, ceil(toSteps(max(leave, ray.t)) - now - 0.5)));
    if (!(ray.t > before)) return false;
  }
  return false;
}
`;

// What fields define, of the sample that nextSample found: its density, then its color along the ray, and what lies behind the boxes.
const fieldHead = `
float densityAt(March ray, float middle);
vec3 colorAt(vec3 direction);
vec3 colorBehind(vec3 direction);
`;

const view = `
uniform vec2 viewSize;
uniform mat3 cameraAxes;  // right, up, backward
uniform vec3 cameraPosition;
uniform vec2 cameraSlopes;  // half the picture at distance 1: across, up
uniform vec3 background;
uniform bool learnsBackground;
uniform int channel;  // 0 color, 1 depth
uniform float depthScale;
out vec4 shown;

const float kMinColorWeight = 1.0 / 256.0, kMinDepthOpacity = 0.1;  // kernels/view_rays.h

// The colors of web/src/lib/turbo.ts; 0 is far.
vec3 depthColor(float near) {
  const vec3 c[6] = vec3[6](vec3(0.1357, 0.0914, 0.1067), vec3(4.5974, 2.1856, 12.5925), vec3(-42.3277, 4.8052, -60.1097),
    vec3(130.5887, -14.0195, 109.0745), vec3(-150.5666, 4.2109, -88.5066), vec3(58.1375, 2.7747, 26.8183));
  return c[0] + near * (c[1] + near * (c[2] + near * (c[3] + near * (c[4] + near * c[5]))));
}

void main() {
  vec2 at = (2.0 * gl_FragCoord.xy / viewSize - 1.0) * cameraSlopes;
  vec3 direction = normalize(cameraAxes * vec3(at, -1.0));
  // ViewAccumulator of kernels/view_rays.h
  vec3 color = vec3(0.0);
  float transmittance = 1.0, faded = 1.0, depth = 0.0, colorWeight = 0.0, pending = 0.0;
  March ray = startMarch(cameraPosition, direction);
  float middle, delta;
  while (faded > 0.0 && nextSample(ray, middle, delta)) {
    transmittance *= exp(-densityAt(ray, middle) * delta);
    float left = min(transmittance, max(2.0 * (transmittance - minTransmittance), 0.0));
    depth += (faded - left) * middle;
    pending += faded - left;
    faded = left;
    if (channel != 0 || pending < kMinColorWeight) continue;
    color += colorAt(direction) * pending;
    colorWeight += pending;
    pending = 0.0;
  }
  float opacity = 1.0 - faded;
  if (channel == 1) {
    shown = vec4(opacity < kMinDepthOpacity ? vec3(0.0) : depthColor(depthScale / (depthScale + depth / opacity)), 1.0);
    return;
  }
  vec3 behind = learnsBackground && faded > 0.0 ? colorBehind(direction) : background;
  shown = vec4(color * (colorWeight > 0.0 ? opacity / colorWeight : 1.0) + behind * faded, 1.0);
}`;

// The fragment shader of views of a field.
export const viewOf = (field: string) => march + fieldHead + field + view;
