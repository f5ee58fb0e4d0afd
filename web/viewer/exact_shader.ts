// The field of method ngp in GLSL: docs/inside/method.md. What a line stands for in the engine is named beside it.
export const exactField = `
precision highp sampler2DArray;

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
uniform int contraction;  // 0 none, 1 by the largest coordinate, 2 by the length, 3 in perspective
uniform vec3 frustumApex;  // relative to the center of the boxes
uniform mat3 frustumAxes;  // right, up, forward
uniform vec2 frustumSides; // near, slope

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

// base/encoded_space.h
vec3 perspective(vec3 fromApex) {
  vec3 along = fromApex * frustumAxes;
  float depth = max(along.z, frustumSides.x);
  return vec3(0.5 + along.xy * (0.5 / (frustumSides.y * depth)), 0.5 * (1.0 - frustumSides.x / depth));
}

// ToEncodedCube of methods/ngp/network.h. p is relative to the center of the boxes.
vec3 encodedCube(vec3 p) {
  if (contraction == 3) return perspective(p - frustumApex);
  if (contraction == 0) return p / (2.0 * halfSide * float(1 << (boxes - 1))) + 0.5;
  p /= halfSide;
  float norm = contractionNorm(p);
  if (norm > 1.0) p *= (2.0 - 1.0 / norm) / norm;
  return p * 0.25 + 0.5;
}

vec4 sampled[4];  // what the density MLP gave at the last sample
vec4 terms[16];   // of the ray's direction
bool hasTerms = false;

float densityAt(March ray, float middle) {
  geometryAt(encodedCube(ray.origin + ray.direction * middle), sampled);
  return densityOf(sampled);
}

vec3 colorAt(vec3 direction) {
  if (!hasTerms) directionTerms(direction, terms);
  hasTerms = true;
  return colorOf(sampled, terms);
}

// EncodedHorizon
vec3 colorBehind(vec3 direction) {
  vec3 unit = contraction == 3 ? perspective(direction * (1e6 * frustumSides.x)) : direction * (0.5 / contractionNorm(direction)) + 0.5;
  geometryAt(unit, sampled);
  return colorAt(direction);
}
`;
