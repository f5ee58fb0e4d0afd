#include "engine/export/glb_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "engine/export/little_endian.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

using Json = nlohmann::ordered_json;

// Numbers of the format.
constexpr int kFloat = 5126, kUnsignedShort = 5123, kUnsignedInt = 5125;
constexpr int kArrayBuffer = 34962, kElementArrayBuffer = 34963;
constexpr uint32_t kMagic = 0x46546C67, kJsonChunk = 0x4E4F534A, kBinChunk = 0x004E4942;
constexpr size_t kHeaderBytes = 12;

// sRGB, 0 to 1, as linear light of 16 bits: that is what COLOR_0 holds.
uint16_t LinearLight(float srgb) {
  const float c = std::clamp(srgb, 0.0f, 1.0f);
  const float linear = c <= 0.04045f ? c / 12.92f : std::pow((c + 0.055f) / 1.055f, 2.4f);
  return static_cast<uint16_t>(std::lround(linear * 65535));
}

struct Range {
  std::array<float, 3> low, high;
};

// Appends the positions; returns their range.
Range AppendPositions(const TriangleMesh& mesh, const ExportAxes& axes, std::string* bin) {
  Range range;
  range.low.fill(INFINITY);
  range.high.fill(-INFINITY);
  for (const Vec3& position : mesh.positions) {
    const Vec3 p = axes.Point(position);
    for (int axis = 0; axis < 3; ++axis) {
      range.low[axis] = std::min(range.low[axis], p[axis]);
      range.high[axis] = std::max(range.high[axis], p[axis]);
    }
    AppendVector(bin, p);
  }
  return range;
}

std::string Chunk(uint32_t kind, const std::string& content, char padding) {
  std::string chunk;
  const size_t padded = (content.size() + 3) / 4 * 4;
  AppendNumbers(&chunk, static_cast<uint32_t>(padded), kind);
  chunk += content;
  chunk.append(padded - content.size(), padding);
  return chunk;
}

}  // namespace

std::string MeshGlb(const TriangleMesh& mesh, const ExportAxes& axes) {
  const size_t n = mesh.positions.size();
  std::string bin;
  Json views = Json::array();
  size_t begin = 0;
  const auto end_view = [&](int target) {
    views.push_back({{"buffer", 0},
                     {"byteOffset", begin},
                     {"byteLength", bin.size() - begin},
                     {"target", target}});
    begin = bin.size();
  };
  const Range range = AppendPositions(mesh, axes, &bin);
  end_view(kArrayBuffer);
  for (const Vec3& normal : mesh.normals) AppendVector(&bin, axes.Direction(normal));
  end_view(kArrayBuffer);
  for (const Vec3& color : mesh.colors) {
    AppendNumbers(&bin, LinearLight(color.x), LinearLight(color.y), LinearLight(color.z),
                  uint16_t{65535});
  }
  end_view(kArrayBuffer);
  for (const uint32_t index : mesh.indices) AppendNumbers(&bin, index);
  end_view(kElementArrayBuffer);

  Json json;
  json["asset"] = {{"version", "2.0"}, {"generator", "nerf-engine export"}};
  json["extensionsUsed"] = Json::array({"KHR_materials_unlit"});
  json["scene"] = 0;
  json["scenes"] = Json::array({Json{{"nodes", Json::array({0})}}});
  json["nodes"] = Json::array({Json{{"mesh", 0}}});
  const Json primitive = {{"attributes", {{"POSITION", 0}, {"NORMAL", 1}, {"COLOR_0", 2}}},
                          {"indices", 3},
                          {"material", 0}};
  json["meshes"] = Json::array({Json{{"primitives", Json::array({primitive})}}});
  const Json material = {{"pbrMetallicRoughness", {{"metallicFactor", 0}, {"roughnessFactor", 1}}},
                         {"extensions", {{"KHR_materials_unlit", Json::object()}}}};
  json["materials"] = Json::array({material});
  json["accessors"] = {
      {{"bufferView", 0},
       {"componentType", kFloat},
       {"count", n},
       {"type", "VEC3"},
       {"min", range.low},
       {"max", range.high}},
      {{"bufferView", 1}, {"componentType", kFloat}, {"count", n}, {"type", "VEC3"}},
      {{"bufferView", 2},
       {"componentType", kUnsignedShort},
       {"normalized", true},
       {"count", n},
       {"type", "VEC4"}},
      {{"bufferView", 3},
       {"componentType", kUnsignedInt},
       {"count", mesh.indices.size()},
       {"type", "SCALAR"}}};
  json["bufferViews"] = views;
  json["buffers"] = Json::array({Json{{"byteLength", bin.size()}}});

  const std::string chunks = Chunk(kJsonChunk, json.dump(), ' ') + Chunk(kBinChunk, bin, '\0');
  std::string file;
  AppendNumbers(&file, kMagic, uint32_t{2}, static_cast<uint32_t>(kHeaderBytes + chunks.size()));
  return file + chunks;
}

}  // namespace nerf
