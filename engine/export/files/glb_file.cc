#include "engine/export/files/glb_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/linear_light.h"
#include "engine/export/files/file_splats.h"
#include "engine/export/files/little_endian.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

using Json = nlohmann::ordered_json;

// Numbers of the format.
constexpr int kFloat = 5126, kUnsignedShort = 5123, kUnsignedInt = 5125;
constexpr int kArrayBuffer = 34962, kElementArrayBuffer = 34963;
constexpr uint32_t kMagic = 0x46546C67, kJsonChunk = 0x4E4F534A, kBinChunk = 0x004E4942;
constexpr int kLinear = 9729, kLinearOfMipmaps = 9987, kClamp = 33071, kPoints = 0;
constexpr char kSplatting[] = "KHR_gaussian_splatting";
constexpr size_t kHeaderBytes = 12;

// sRGB, 0 to 1, as linear light of 16 bits: that is what COLOR_0 holds.
uint16_t LinearLight16(float srgb) {
  return static_cast<uint16_t>(std::lround(LinearLight(srgb) * 65535));
}

// Buffer views and accessors of one buffer, in the order that they are added.
class GlbBuffer {
 public:
  std::string bin;

  // What was appended to `bin` since the last call becomes a view; returns its number.
  int EndView(int target) {
    Json view = {{"buffer", 0}, {"byteOffset", begin_}, {"byteLength", bin.size() - begin_}};
    if (target != 0) view["target"] = target;
    views_.push_back(std::move(view));
    bin.append((4 - bin.size() % 4) % 4, '\0');
    begin_ = bin.size();
    return static_cast<int>(views_.size()) - 1;
  }

  // The same as `count` elements; returns the accessor's number.
  int EndAccessor(int target, int component, const char* type, size_t count, const Json& more) {
    Json accessor = {{"bufferView", EndView(target)}, {"componentType", component}};
    accessor.update(more);
    accessor["count"] = count;
    accessor["type"] = type;
    accessors_.push_back(std::move(accessor));
    return static_cast<int>(accessors_.size()) - 1;
  }

  Json TakeViews() { return std::move(views_); }
  Json TakeAccessors() { return std::move(accessors_); }

 private:
  size_t begin_ = 0;
  Json views_ = Json::array(), accessors_ = Json::array();
};

// Adds n positions; returns their accessor's number.
int AddPositions(size_t n, const std::function<Vec3(size_t)>& position_of, GlbBuffer* buffer) {
  std::array<float, 3> low, high;
  low.fill(INFINITY);
  high.fill(-INFINITY);
  for (size_t i = 0; i < n; ++i) {
    const Vec3 p = position_of(i);
    for (int axis = 0; axis < 3; ++axis) {
      low[axis] = std::min(low[axis], p[axis]);
      high[axis] = std::max(high[axis], p[axis]);
    }
    AppendVector(&buffer->bin, p);
  }
  return buffer->EndAccessor(kArrayBuffer, kFloat, "VEC3", n, {{"min", low}, {"max", high}});
}

// Adds positions and normals of the vertices that `order` lists.
void AddShape(const TriangleMesh& mesh, const std::vector<uint32_t>& order, const ExportAxes& axes,
              GlbBuffer* buffer, Json* attributes) {
  const auto position_of = [&](size_t i) { return axes.Point(mesh.positions[order[i]]); };
  (*attributes)["POSITION"] = AddPositions(order.size(), position_of, buffer);
  for (const uint32_t vertex : order) {
    AppendVector(&buffer->bin, axes.Direction(mesh.normals[vertex]));
  }
  (*attributes)["NORMAL"] =
      buffer->EndAccessor(kArrayBuffer, kFloat, "VEC3", order.size(), Json::object());
}

Json AddColors(const TriangleMesh& mesh, GlbBuffer* buffer) {
  for (const Vec3& color : mesh.colors) {
    AppendNumbers(&buffer->bin, LinearLight16(color.x), LinearLight16(color.y),
                  LinearLight16(color.z), uint16_t{65535});
  }
  return buffer->EndAccessor(kArrayBuffer, kUnsignedShort, "VEC4", mesh.colors.size(),
                             {{"normalized", true}});
}

Json AddTextureCoordinates(const MeshTexture& texture, GlbBuffer* buffer) {
  const auto append = [&](float texel) {
    const double share = double{texel} / texture.picture.width;
    AppendNumbers(&buffer->bin, static_cast<uint16_t>(std::lround(share * 65535)));
  };
  for (const TextureVertex& vertex : texture.layout.vertices) {
    append(vertex.x);
    append(vertex.y);
  }
  return buffer->EndAccessor(kArrayBuffer, kUnsignedShort, "VEC2", texture.layout.vertices.size(),
                             {{"normalized", true}});
}

int AddIndices(const std::vector<uint32_t>& indices, GlbBuffer* buffer) {
  for (const uint32_t index : indices) AppendNumbers(&buffer->bin, index);
  return buffer->EndAccessor(kElementArrayBuffer, kUnsignedInt, "SCALAR", indices.size(),
                             Json::object());
}

// Sets the file's picture; returns the reference to it from the material.
Json AddPicture(const std::string& png, GlbBuffer* buffer, Json* json) {
  buffer->bin += png;
  const int view = buffer->EndView(0);
  (*json)["images"] = Json::array({Json{{"bufferView", view}, {"mimeType", "image/png"}}});
  (*json)["samplers"] = Json::array({Json{{"magFilter", kLinear},
                                          {"minFilter", kLinearOfMipmaps},
                                          {"wrapS", kClamp},
                                          {"wrapT", kClamp}}});
  (*json)["textures"] = Json::array({Json{{"sampler", 0}, {"source", 0}}});
  return {{"index", 0}};
}

std::string Chunk(uint32_t kind, const std::string& content, char padding) {
  std::string chunk;
  const size_t padded = (content.size() + 3) / 4 * 4;
  AppendNumbers(&chunk, static_cast<uint32_t>(padded), kind);
  chunk += content;
  chunk.append(padded - content.size(), padding);
  return chunk;
}

// A file of one mesh, with all but the mesh itself.
Json SceneOfMesh(const char* extension, const ExportAxes& axes) {
  Json json;
  json["asset"] = {{"version", "2.0"}, {"generator", "nerf-engine export"}};
  json["extensionsUsed"] = Json::array({extension});
  json["scene"] = 0;
  json["scenes"] = Json::array({Json{{"nodes", Json::array({0})}}});
  Json node = {{"mesh", 0}};
  if (axes.has_origin()) {
    node["translation"] = axes.origin();
    // Programs that read the translation as floats round it.
    node["extras"] = {{"origin", axes.origin()}};
  }
  json["nodes"] = Json::array({node});
  return json;
}

// The bytes of the file that `json` describes, with the buffer's views and accessors.
std::string GlbBytes(GlbBuffer buffer, Json json) {
  json["accessors"] = buffer.TakeAccessors();
  json["bufferViews"] = buffer.TakeViews();
  json["buffers"] = Json::array({Json{{"byteLength", buffer.bin.size()}}});
  const std::string chunks =
      Chunk(kJsonChunk, json.dump(), ' ') + Chunk(kBinChunk, buffer.bin, '\0');
  std::string file;
  AppendNumbers(&file, kMagic, uint32_t{2}, static_cast<uint32_t>(kHeaderBytes + chunks.size()));
  return file + chunks;
}

}  // namespace

absl::StatusOr<std::string> MeshGlb(const TriangleMesh& mesh, const MeshTexture& texture,
                                    const ExportAxes& axes) {
  Json json = SceneOfMesh("KHR_materials_unlit", axes);
  GlbBuffer buffer;
  Json attributes, surface = {{"metallicFactor", 0}, {"roughnessFactor", 1}};
  Json primitive = Json::object();
  std::vector<uint32_t> vertices;
  if (texture.picture.pixels.empty()) {
    vertices.resize(mesh.positions.size());
    std::iota(vertices.begin(), vertices.end(), 0u);
    AddShape(mesh, vertices, axes, &buffer, &attributes);
    attributes["COLOR_0"] = AddColors(mesh, &buffer);
    primitive["indices"] = AddIndices(mesh.indices, &buffer);
  } else {
    for (const TextureVertex& vertex : texture.layout.vertices) vertices.push_back(vertex.vertex);
    AddShape(mesh, vertices, axes, &buffer, &attributes);
    primitive["indices"] = AddIndices(texture.layout.indices, &buffer);
    attributes["TEXCOORD_0"] = AddTextureCoordinates(texture, &buffer);
    NERF_ASSIGN_OR_RETURN(const std::string png, EncodePng(texture.picture));
    surface["baseColorTexture"] = AddPicture(png, &buffer, &json);
  }
  primitive["attributes"] = attributes;
  primitive["material"] = 0;
  json["meshes"] = Json::array({Json{{"primitives", Json::array({primitive})}}});
  json["materials"] =
      Json::array({Json{{"pbrMetallicRoughness", surface},
                        {"extensions", {{"KHR_materials_unlit", Json::object()}}}}});
  return GlbBytes(std::move(buffer), std::move(json));
}

std::string SplatsGlb(const SplatCloud& cloud, const ExportAxes& axes) {
  const size_t n = cloud.size();
  std::vector<FileSplat> splats;
  splats.reserve(n);
  const FileSplats turned(cloud, axes);
  for (size_t i = 0; i < n; ++i) splats.push_back(turned.At(i));
  Json json = SceneOfMesh(kSplatting, axes);
  GlbBuffer buffer;
  Json attributes;
  attributes["POSITION"] = AddPositions(
      n, [&](size_t i) { return splats[i].position; }, &buffer);
  // For programs that know no splats.
  for (const FileSplat& splat : splats) {
    for (int channel = 0; channel < 3; ++channel) {
      const float color = 0.5f + kFirstSplatHarmonic * splat.colors[channel];
      AppendNumbers(&buffer.bin, LinearLight16(std::clamp(color, 0.0f, 1.0f)));
    }
    AppendNumbers(&buffer.bin, static_cast<uint16_t>(std::lround(splat.opacity * 65535)));
  }
  attributes["COLOR_0"] =
      buffer.EndAccessor(kArrayBuffer, kUnsignedShort, "VEC4", n, {{"normalized", true}});
  // append: what the bytes of a splat hold.
  const auto add = [&](const std::string& name, const char* type, const auto& append) {
    for (const FileSplat& splat : splats) append(splat);
    attributes[fmt::format("{}:{}", kSplatting, name)] =
        buffer.EndAccessor(kArrayBuffer, kFloat, type, n, Json::object());
  };
  add("ROTATION", "VEC4", [&](const FileSplat& splat) {
    const Quaternion& q = splat.rotation;
    AppendNumbers(&buffer.bin, q.x, q.y, q.z, q.w);
  });
  add("SCALE", "VEC3", [&](const FileSplat& splat) { AppendVector(&buffer.bin, splat.scale); });
  add("OPACITY", "SCALAR",
      [&](const FileSplat& splat) { AppendNumbers(&buffer.bin, splat.opacity); });
  for (int degree = 0, k = 0; degree <= cloud.degree; ++degree) {
    for (int order = 0; order <= 2 * degree; ++order, ++k) {
      add(fmt::format("SH_DEGREE_{}_COEF_{}", degree, order), "VEC3", [&](const FileSplat& splat) {
        const float* const color = splat.colors + 3 * k;
        AppendNumbers(&buffer.bin, color[0], color[1], color[2]);
      });
    }
  }
  Json primitive = {{"attributes", attributes}, {"mode", kPoints}};
  primitive["extensions"][kSplatting] = {{"kernel", "ellipse"},
                                         {"colorSpace", "srgb_rec709_display"},
                                         {"sortingMethod", "cameraDistance"},
                                         {"projection", "perspective"}};
  json["meshes"] = Json::array({Json{{"primitives", Json::array({primitive})}}});
  return GlbBytes(std::move(buffer), std::move(json));
}

}  // namespace nerf
