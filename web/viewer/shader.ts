// The march and the field of method ngp in GLSL, one ray a pixel: docs/inside/method.md. What a line stands for in the engine is named beside it.

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

const field = `#version 300 es
precision highp float;
precision highp int;
precision highp sampler2DArray;
precision highp usampler2D;

const int kLevels = 8;                // of the hash table, each entry a texel of four features
uniform sampler2DArray table;         // a layer for each level
uniform int tableWidthBits;           // texels of a row, as a power of two
uniform uint tableMask;               // entries of a level - 1
uniform int resolution[kLevels];      // cells a side
uniform bool isDense[kLevels];

// Layers as blocks of 4 x 4 weights: outputs in groups of four, in each the inputs in groups of four.
layout(std140) uniform DensityWeights {
  mat4 densityHidden[128];  // 32 -> 64
  mat4 densityOutput[64];   // 64 -> 16, by input first
};
layout(std140) uniform ColorWeights {
  mat4 colorHidden0[128];  // 16 harmonics, 16 density outputs -> 64
  mat4 colorOutput[16];    // 64 -> 3
};
layout(std140) uniform HiddenWeights {
  mat4 colorHidden1[256];  // 64 -> 64
};

uniform float densityShift;
uniform vec3 boxCenter;
uniform float halfSide;  // of the level-0 box
uniform int boxes;
uniform int contraction;  // 0 none, 1 by the largest coordinate, 2 by the length

// kernels/hash_encoding.h
void encode(vec3 unit, out vec4 features[kLevels]) {
  unit = clamp(unit, 0.0, 1.0);
  for (int level = 0; level < kLevels; ++level) {
    float cells = float(resolution[level]);
    vec3 scaled = unit * cells;
    vec3 cell = min(floor(scaled), cells - 1.0);
    vec3 far = scaled - cell, near = 1.0 - far;
    uint corners = uint(resolution[level]) + 1u;
    uvec3 low = uvec3(cell), high = low + 1u;
    uvec2 factors = isDense[level] ? uvec2(corners, corners * corners) : uvec2(2654435761u, 805459861u);
    low.yz *= factors;
    high.yz *= factors;
    vec4 sum = vec4(0.0);
    for (int corner = 0; corner < 8; ++corner) {
      bvec3 isFar = bvec3((corner & 1) != 0, (corner & 2) != 0, (corner & 4) != 0);
      uvec3 at = uvec3(isFar.x ? high.x : low.x, isFar.y ? high.y : low.y, isFar.z ? high.z : low.z);
      uint entry = isDense[level] ? at.x + at.y + at.z : (at.x ^ at.y ^ at.z) & tableMask;
      ivec3 texel = ivec3(int(entry) & ((1 << tableWidthBits) - 1), int(entry >> tableWidthBits), level);
      vec3 weight = mix(near, far, vec3(isFar));
      sum += weight.x * weight.y * weight.z * texelFetch(table, texel, 0);
    }
    features[level] = sum;
  }
}

// NgpDensityForward of methods/ngp/network.h: what the density MLP gives at a point of the unit cube.
void geometryAt(vec3 unit, out vec4 geometry[4]) {
  vec4 features[kLevels];
  encode(unit, features);
  for (int i = 0; i < 4; ++i) geometry[i] = vec4(0.0);
  for (int j = 0; j < 16; ++j) {
    vec4 hidden = vec4(0.0);
    for (int i = 0; i < 8; ++i) hidden += densityHidden[8 * j + i] * features[i];
    hidden = max(hidden, 0.0);
    for (int i = 0; i < 4; ++i) geometry[i] += densityOutput[4 * j + i] * hidden;
  }
}

// kernels/activation.h
float densityOf(vec4 geometry[4]) {
  return exp(min(geometry[0].x - densityShift, 15.0));
}

// kernels/spherical_harmonics.h, then NgpDirectionTerms: what a ray's direction adds to the first color layer.
void directionTerms(vec3 d, out vec4 terms[16]) {
  vec3 s = d * d;
  float xy = d.x * d.y, yz = d.y * d.z, xz = d.x * d.z;
  vec4 harmonics[4] = vec4[4](
    vec4(0.28209479177387814, -0.48860251190291987 * d.y, 0.48860251190291987 * d.z, -0.48860251190291987 * d.x),
    vec4(1.0925484305920792 * xy, -1.0925484305920792 * yz, 0.94617469575755997 * s.z - 0.31539156525251999, -1.0925484305920792 * xz),
    vec4(0.54627421529603959 * (s.x - s.y), 0.59004358992664352 * d.y * (s.y - 3.0 * s.x), 2.8906114426405538 * xy * d.z, 0.45704579946446572 * d.y * (1.0 - 5.0 * s.z)),
    vec4(0.3731763325901154 * d.z * (5.0 * s.z - 3.0), 0.45704579946446572 * d.x * (1.0 - 5.0 * s.z), 1.4453057213202769 * d.z * (s.x - s.y), 0.59004358992664352 * d.x * (3.0 * s.y - s.x)));
  for (int j = 0; j < 16; ++j) {
    terms[j] = vec4(0.0);
    for (int i = 0; i < 4; ++i) terms[j] += colorHidden0[8 * j + i] * harmonics[i];
  }
}

// NgpColorForward
vec3 colorOf(vec4 geometry[4], vec4 terms[16]) {
  vec4 hidden0[16];
  for (int j = 0; j < 16; ++j) {
    vec4 hidden = terms[j];
    for (int i = 0; i < 4; ++i) hidden += colorHidden0[8 * j + 4 + i] * geometry[i];
    hidden0[j] = max(hidden, 0.0);
  }
  vec4 color = vec4(0.0);
  for (int j = 0; j < 16; ++j) {
    vec4 hidden = vec4(0.0);
    for (int i = 0; i < 16; ++i) hidden += colorHidden1[16 * j + i] * hidden0[i];
    color += colorOutput[j] * max(hidden, 0.0);
  }
  return 1.0 / (1.0 + exp(-color.rgb));
}

// base/contraction.h
float contractionNorm(vec3 p) {
  vec3 a = abs(p);
  return contraction == 2 ? length(p) : max(a.x, max(a.y, a.z));
}

// ToEncodedCube of methods/ngp/network.h. p is relative to the center of the boxes.
vec3 encodedCube(vec3 p) {
  if (contraction == 0) return p / (2.0 * halfSide * float(1 << (boxes - 1))) + 0.5;
  p /= halfSide;
  float norm = contractionNorm(p);
  if (norm > 1.0) p *= (2.0 - 1.0 / norm) / norm;
  return p * 0.25 + 0.5;
}
`;

const march = `
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

export const view = `${field}${march}
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
  vec4 terms[16];
  bool hasTerms = false;
  // ViewAccumulator of kernels/view_rays.h
  vec3 color = vec3(0.0);
  float transmittance = 1.0, faded = 1.0, depth = 0.0, colorWeight = 0.0, pending = 0.0;
  March ray = startMarch(cameraPosition, direction);
  vec4 geometry[4];
  float middle, delta;
  while (faded > 0.0 && nextSample(ray, middle, delta)) {
    geometryAt(encodedCube(ray.origin + ray.direction * middle), geometry);
    transmittance *= exp(-densityOf(geometry) * delta);
    float left = min(transmittance, max(2.0 * (transmittance - minTransmittance), 0.0));
    depth += (faded - left) * middle;
    pending += faded - left;
    faded = left;
    if (channel != 0 || pending < kMinColorWeight) continue;
    if (!hasTerms) {
      directionTerms(direction, terms);
      hasTerms = true;
    }
    color += colorOf(geometry, terms) * pending;
    colorWeight += pending;
    pending = 0.0;
  }
  float opacity = 1.0 - faded;
  if (channel == 1) {
    shown = vec4(opacity < kMinDepthOpacity ? vec3(0.0) : depthColor(depthScale / (depthScale + depth / opacity)), 1.0);
    return;
  }
  vec3 behind = background;
  if (learnsBackground && faded > 0.0) {
    // EncodedHorizon
    geometryAt(direction * (0.5 / contractionNorm(direction)) + 0.5, geometry);
    if (!hasTerms) directionTerms(direction, terms);
    behind = colorOf(geometry, terms);
  }
  shown = vec4(color * (colorWeight > 0.0 ? opacity / colorWeight : 1.0) + behind * faded, 1.0);
}`;
