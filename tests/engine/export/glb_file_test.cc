#include "engine/export/files/glb_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/base/linear_light.h"
#include "engine/export/files/file_splats.h"
#include "engine/scene/pictures/image_io.h"
#include "nlohmann/json.hpp"
#include "tests/engine/export/shapes.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

template <typename T>
T NumberAt(const std::string& bytes, size_t at) {
  T number{};
  if (at + sizeof(number) <= bytes.size()) std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// The two chunks of a file.
struct Glb {
  nlohmann::json json;
  std::string bin;
};

Glb ReadGlb(const std::string& bytes) {
  EXPECT_EQ(bytes.substr(0, 4), "glTF");
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 4), 2u);
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 8), bytes.size());
  const auto json_bytes = NumberAt<uint32_t>(bytes, 12);
  EXPECT_EQ(bytes.substr(16, 4), "JSON");
  EXPECT_EQ(json_bytes % 4, 0u);
  const auto bin_bytes = NumberAt<uint32_t>(bytes, 20 + json_bytes);
  EXPECT_EQ(bytes.substr(24 + json_bytes, 4), std::string("BIN\0", 4));
  EXPECT_EQ(28 + json_bytes + bin_bytes, bytes.size());
  return {nlohmann::json::parse(bytes.substr(20, json_bytes), nullptr, false),
          bytes.substr(28 + json_bytes)};
}

Glb GlbOf(const MeshExport& made, AxesName axes) {
  const auto bytes =
      MeshGlb(made.mesh, made.texture, ExportAxes(axes, /*is_y_up=*/true, ShapeGeometry()));
  EXPECT_THAT(bytes, IsOk());
  return ReadGlb(bytes.value_or(""));
}

TEST(GlbFileTest, AccessorsReadBackWhatWasWritten) {
  const MeshExport made =
      MeshOfShape(Sphere({0.2f, 0, 0}, 0.5f), {.resolution = 32, .n_triangles = 500});
  const TriangleMesh& mesh = made.mesh;
  const Glb glb = GlbOf(made, AxesName::kDataset);
  ASSERT_TRUE(glb.json.is_object());
  EXPECT_EQ(glb.json["asset"]["version"], "2.0");
  EXPECT_EQ(glb.json["buffers"][0]["byteLength"], glb.bin.size());
  const auto& primitive = glb.json["meshes"][0]["primitives"][0];
  EXPECT_EQ(glb.json["nodes"][glb.json["scenes"][0]["nodes"][0].get<int>()]["mesh"], 0);
  const auto offset_of = [&](const nlohmann::json& accessor) {
    const auto& view = glb.json["bufferViews"][accessor["bufferView"].get<int>()];
    return view["byteOffset"].get<size_t>();
  };
  const auto& positions = glb.json["accessors"][primitive["attributes"]["POSITION"].get<int>()];
  const auto& colors = glb.json["accessors"][primitive["attributes"]["COLOR_0"].get<int>()];
  const auto& normals = glb.json["accessors"][primitive["attributes"]["NORMAL"].get<int>()];
  const auto& indices = glb.json["accessors"][primitive["indices"].get<int>()];
  ASSERT_EQ(positions["count"], mesh.positions.size());
  ASSERT_EQ(indices["count"], mesh.indices.size());
  EXPECT_EQ(colors["componentType"], 5123);
  EXPECT_EQ(colors["normalized"], true);
  for (size_t i = 0; i < mesh.positions.size(); ++i) {
    for (int axis = 0; axis < 3; ++axis) {
      const auto p = NumberAt<float>(glb.bin, offset_of(positions) + 12 * i + 4 * axis);
      EXPECT_EQ(p, mesh.positions[i][axis]);
      EXPECT_GE(p, positions["min"][axis].get<float>());
      EXPECT_LE(p, positions["max"][axis].get<float>());
      const auto light = NumberAt<uint16_t>(glb.bin, offset_of(colors) + 8 * i + 2 * axis);
      EXPECT_NEAR(light / 65535.0, std::pow((mesh.colors[i][axis] + 0.055) / 1.055, 2.4), 1e-4);
    }
    Vec3 normal;
    for (int axis = 0; axis < 3; ++axis) {
      normal[axis] = NumberAt<float>(glb.bin, offset_of(normals) + 12 * i + 4 * axis);
    }
    EXPECT_NEAR(Norm(normal), 1, 1e-5);
  }
  for (size_t i = 0; i < mesh.indices.size(); ++i) {
    EXPECT_EQ(NumberAt<uint32_t>(glb.bin, offset_of(indices) + 4 * i), mesh.indices[i]);
  }
}

TEST(GlbFileTest, MaterialHasNoLighting) {
  const MeshExport made = MeshOfShape(Sphere({}, 0.5f), {.resolution = 16});
  const Glb glb = GlbOf(made, AxesName::kBlender);
  EXPECT_EQ(glb.json["extensionsUsed"], nlohmann::json({"KHR_materials_unlit"}));
  EXPECT_TRUE(glb.json["materials"][0]["extensions"]["KHR_materials_unlit"].is_object());
  EXPECT_TRUE(glb.json["materials"].is_array());
  EXPECT_TRUE(glb.json["nodes"].is_array());
}

TEST(GlbFileTest, TextureIsAPictureAndChartsShareVertices) {
  const MeshExport made =
      MeshOfShape(Sphere({}, 0.5f), {.resolution = 32, .n_triangles = 300, .texture_size = 128});
  const TextureLayout& layout = made.texture.layout;
  const Glb glb = GlbOf(made, AxesName::kDataset);
  ASSERT_TRUE(glb.json.is_object());
  const auto& primitive = glb.json["meshes"][0]["primitives"][0];
  EXPECT_FALSE(primitive["attributes"].contains("COLOR_0"));
  EXPECT_EQ(glb.json["samplers"][0]["minFilter"], 9987) << "of smaller pictures, too";
  const auto view_of = [&](int number) { return glb.json["bufferViews"][number]; };
  const auto accessor_of = [&](const nlohmann::json& number) {
    return glb.json["accessors"][number.get<int>()];
  };
  const auto& image = view_of(glb.json["images"][0]["bufferView"].get<int>());
  EXPECT_FALSE(image.contains("target"));
  const auto picture = DecodeImageBytes(glb.bin.substr(image["byteOffset"], image["byteLength"]));
  ASSERT_THAT(picture, IsOk());
  EXPECT_TRUE(picture->pixels == made.texture.picture.pixels);
  const auto accessor = accessor_of(primitive["attributes"]["TEXCOORD_0"]);
  const auto positions = accessor_of(primitive["attributes"]["POSITION"]);
  const auto indices = accessor_of(primitive["indices"]);
  ASSERT_EQ(accessor["count"], layout.vertices.size());
  ASSERT_EQ(positions["count"], layout.vertices.size());
  ASSERT_EQ(indices["count"], made.mesh.indices.size());
  const size_t begin = view_of(accessor["bufferView"].get<int>())["byteOffset"];
  const size_t positions_at = view_of(positions["bufferView"].get<int>())["byteOffset"];
  const size_t indices_at = view_of(indices["bufferView"].get<int>())["byteOffset"];
  for (size_t i = 0; i < layout.vertices.size(); ++i) {
    const double u = NumberAt<uint16_t>(glb.bin, begin + 4 * i) / 65535.0 * 128;
    const double v = NumberAt<uint16_t>(glb.bin, begin + 4 * i + 2) / 65535.0 * 128;
    EXPECT_NEAR(u, layout.vertices[i].x, 0.01);
    EXPECT_NEAR(v, layout.vertices[i].y, 0.01);
    EXPECT_EQ(NumberAt<float>(glb.bin, positions_at + 12 * i),
              made.mesh.positions[layout.vertices[i].vertex].x);
  }
  for (size_t i = 0; i < made.mesh.indices.size(); ++i) {
    const auto index = NumberAt<uint32_t>(glb.bin, indices_at + 4 * i);
    ASSERT_LT(index, layout.vertices.size());
    EXPECT_EQ(layout.vertices[index].vertex, made.mesh.indices[i]);
  }
}

// Numbers of a floating-point accessor, one element after another.
std::vector<float> FloatsOf(const Glb& glb, const nlohmann::json& attributes,
                            const std::string& name, size_t n_parts) {
  const nlohmann::json& accessor = glb.json["accessors"][attributes[name].get<size_t>()];
  EXPECT_EQ(accessor["componentType"], 5126) << name;
  const std::string types[] = {"SCALAR", "", "VEC3", "VEC4"};
  EXPECT_EQ(accessor["type"], types[n_parts - 1]) << name;
  const nlohmann::json& view = glb.json["bufferViews"][accessor["bufferView"].get<size_t>()];
  std::vector<float> numbers;
  for (size_t i = 0; i < n_parts * accessor["count"].get<size_t>(); ++i)
    numbers.push_back(NumberAt<float>(glb.bin, view["byteOffset"].get<size_t>() + 4 * i));
  return numbers;
}

TEST(GlbFileTest, SplatsAreAttributesOfPoints) {
  SplatCloud cloud;
  cloud.degree = 2;
  cloud.widths = {1e-4f, 1e-4f, 1e-4f};
  for (uint32_t i = 0; i < 3; ++i) {
    const std::vector<float> row = RandomFloats(48, -1, 1, i);
    cloud.numbers.insert(cloud.numbers.end(), row.begin(), row.end());
  }
  SceneGeometry geometry = ShapeGeometry();
  geometry.frame.origin = {500000, 5200000, 300};
  const ExportAxes axes(AxesName::kBlender, /*is_y_up=*/true, geometry);
  const Glb glb = ReadGlb(SplatsGlb(cloud, axes));
  ASSERT_TRUE(glb.json.is_object());
  EXPECT_EQ(glb.json["extensionsUsed"], nlohmann::json::array({"KHR_gaussian_splatting"}));
  EXPECT_EQ(glb.json["nodes"][0]["translation"], nlohmann::json(axes.origin()));
  const nlohmann::json& primitive = glb.json["meshes"][0]["primitives"][0];
  EXPECT_EQ(primitive["mode"], 0);
  const nlohmann::json& extension = primitive["extensions"]["KHR_gaussian_splatting"];
  EXPECT_EQ(extension["kernel"], "ellipse");
  EXPECT_EQ(extension["colorSpace"], "srgb_rec709_display");
  const nlohmann::json& attributes = primitive["attributes"];
  EXPECT_EQ(attributes.size(), 5u + 9) << "position, fallback, rotation, scale, opacity, harmonics";
  const auto of = [&](const std::string& name, size_t n_parts) {
    return FloatsOf(glb, attributes, "KHR_gaussian_splatting:" + name, n_parts);
  };
  const std::vector<float> positions = FloatsOf(glb, attributes, "POSITION", 3);
  const std::vector<float> rotations = of("ROTATION", 4), scales = of("SCALE", 3);
  const nlohmann::json& color = glb.json["accessors"][attributes["COLOR_0"].get<size_t>()];
  const size_t colors_at = glb.json["bufferViews"][color["bufferView"].get<size_t>()]["byteOffset"];
  EXPECT_EQ(color["normalized"], true);
  const FileSplats splats(cloud, axes);
  for (size_t i = 0; i < 3; ++i) {
    const FileSplat splat = splats.At(i);
    const float* const row = cloud.row(i);
    EXPECT_NEAR(positions[3 * i + 1], row[2], 1e-6) << "y is up";
    EXPECT_NEAR(scales[3 * i + 2], std::exp(row[SplatCloud::kLogScale + 2]), 1e-6) << "linear";
    EXPECT_NEAR(of("OPACITY", 1)[i], 1 / (1 + std::exp(-row[SplatCloud::kOpacity])), 1e-6);
    EXPECT_EQ(rotations[4 * i], splat.rotation.x);
    EXPECT_EQ(rotations[4 * i + 3], splat.rotation.w);
    EXPECT_NEAR(of("SH_DEGREE_0_COEF_0", 3)[3 * i], row[SplatCloud::kColor], 1e-5);
    EXPECT_EQ(of("SH_DEGREE_1_COEF_2", 3)[3 * i + 1], splat.colors[3 * 3 + 1]);
    EXPECT_EQ(of("SH_DEGREE_2_COEF_4", 3)[3 * i + 2], splat.colors[3 * 8 + 2]);
    const float srgb = 0.5f + 0.28209479f * row[SplatCloud::kColor];
    EXPECT_NEAR(NumberAt<uint16_t>(glb.bin, colors_at + 8 * i) / 65535.0, LinearLight(srgb), 1e-4);
    EXPECT_NEAR(NumberAt<uint16_t>(glb.bin, colors_at + 8 * i + 6) / 65535.0, splat.opacity, 1e-4);
  }
}

}  // namespace
}  // namespace nerf
