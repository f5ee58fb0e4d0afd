// The field of a baked model in GLSL: BakedModel of engine/export/files/baked_model.h.
export const bakedField = `
precision highp sampler3D;

uniform sampler3D base;          // cells of nodes: color and density
uniform sampler3D slopes[3];     // what a unit of the direction's x, y and z adds to the color
uniform usampler2D firstCells;   // of each block, in those
uniform sampler2D horizon;       // by the angle about +z and that from it
uniform int cellsAcross;
uniform vec3 atlasSize;          // nodes
uniform float cellSide;          // nodes
uniform float nodeDistance;      // in the level-0 box
uniform vec2 densityRange, baseRange, slopeRange;  // what 0 and 1 mean

vec3 node;
vec3 baseColor;

int bitsIn(uint word) {
  word -= (word >> 1) & 0x55555555u;
  word = (word & 0x33333333u) + ((word >> 2) & 0x33333333u);
  return int((((word + (word >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24);
}

float densityAt(March ray, float middle) {
  uvec2 bits = texelFetch(blocks, ray.block, 0).rg;
  uint before = (1u << (ray.bit & 31)) - 1u;
  int cell = int(texelFetch(firstCells, ray.block, 0).r) + bitsIn(ray.bit < 32 ? bits.x & before : bits.x) + bitsIn(ray.bit < 32 ? 0u : bits.y & before);
  vec3 place = vec3(cell % cellsAcross, cell / cellsAcross % cellsAcross, cell / cellsAcross / cellsAcross);
  node = (place * cellSide + 0.5 + ray.inCell * (cellSide - 1.0)) / atlasSize;
  vec4 found = textureLod(base, node, 0.0);
  baseColor = mix(vec3(baseRange.x), vec3(baseRange.y), found.rgb);
  return exp(mix(densityRange.x, densityRange.y, found.a)) / (nodeDistance * ray.scale);
}

vec3 slope(sampler3D axis) {
  return mix(vec3(slopeRange.x), vec3(slopeRange.y), textureLod(axis, node, 0.0).rgb);
}

vec3 colorAt(vec3 direction) {
  vec3 color = baseColor + slope(slopes[0]) * direction.x + slope(slopes[1]) * direction.y + slope(slopes[2]) * direction.z;
  return clamp(color, 0.0, 1.0);
}

vec3 colorBehind(vec3 direction) {
  const float kPi = 3.14159265358979;
  vec2 at = vec2(atan(direction.y, direction.x) / (2.0 * kPi) + 0.5, acos(clamp(direction.z, -1.0, 1.0)) / kPi);
  return textureLod(horizon, at, 0.0).rgb;
}
`;
