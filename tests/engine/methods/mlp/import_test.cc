#include "engine/methods/mlp/import.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "engine/field/files/torch_file.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/registry.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/views/render/renderer.h"
#include "gtest/gtest.h"
#include "tests/testing/random_floats.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

// Where the tests' data are, if they are there.
std::optional<std::string> TestData(const std::string& name) {
  const char* const root = std::getenv("NERF_TEST_DATA");
  if (root == nullptr || !std::ifstream(std::string(root) + "/" + name)) return std::nullopt;
  return std::string(root) + "/" + name;
}

// Floats of a .npy file of little-endian floats, whose header has a fixed size.
std::vector<float> ReadNpy(const std::string& path, size_t n) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes.size(), 128 + n * sizeof(float)) << path;
  std::vector<float> values(n);
  if (bytes.size() == 128 + n * sizeof(float))
    std::memcpy(values.data(), bytes.data() + 128, n * sizeof(float));
  return values;
}

// A small network in both dictionaries, with random weights.
std::map<std::string, Tensor> SmallCheckpoint() {
  std::map<std::string, Tensor> tensors;
  uint32_t stream = 0;
  for (const std::string prefix : {"model_coarse_state_dict.", "model_fine_state_dict."}) {
    const auto add = [&](const std::string& name, uint32_t n_in, uint32_t n_out) {
      const std::vector<float> weights = RandomFloats(n_in * n_out, -1, 1, ++stream);
      const std::vector<float> biases = RandomFloats(n_out, -1, 1, ++stream);
      tensors[prefix + name + ".weight"] =
          TensorFromFloats(weights.data(), {n_out, n_in}, DType::kF32);
      tensors[prefix + name + ".bias"] = TensorFromFloats(biases.data(), {n_out}, DType::kF32);
    };
    add("layer1", 63, 32);
    add("layers_xyz.0", 32, 32);
    add("layers_xyz.1", 32 + 63, 32);
    add("fc_feat", 32, 32);
    add("fc_alpha", 32, 1);
    add("layers_dir.0", 32 + 27, 16);
    add("fc_rgb", 16, 3);
  }
  return tensors;
}

TEST(ImportNerfPytorchTest, SizesAreReadFromTheTensors) {
  const auto imported = ImportNerfPytorch(SmallCheckpoint());
  ASSERT_THAT(imported, IsOk());
  EXPECT_EQ(Mlp(imported->config).width, 32);
  EXPECT_EQ(Mlp(imported->config).depth, 2);
  EXPECT_EQ(Mlp(imported->config).skip, 1);
  SceneGeometry geometry;
  geometry.box = {{-1.5f, -1.5f, -1.5f}, {1.5f, 1.5f, 1.5f}};
  EXPECT_THAT(MethodOf(imported->config).LoadModel(imported->model, imported->config, geometry),
              IsOk());
}

TEST(ImportNerfPytorchTest, LayersThatDoNotFitAreNamed) {
  const auto refused = [](const std::string& name, std::vector<uint32_t> shape) {
    std::map<std::string, Tensor> tensors = SmallCheckpoint();
    size_t n = 1;
    for (const uint32_t side : shape) n *= side;
    tensors["model_fine_state_dict." + name] =
        TensorFromFloats(std::vector<float>(n).data(), shape, DType::kF32);
    return ImportNerfPytorch(tensors);
  };
  EXPECT_THAT(refused("fc_rgb.weight", {4, 16}),
              StatusIs(StatusCode::kInvalidArgument, "model_fine_state_dict.fc_rgb"));
  EXPECT_THAT(refused("layers_xyz.0.weight", {32, 31}),
              StatusIs(StatusCode::kInvalidArgument, "layers_xyz.0"));
  EXPECT_THAT(refused("fc_alpha.bias", {2}), StatusIs(StatusCode::kInvalidArgument, "fc_alpha"));
  EXPECT_THAT(ImportNerfPytorch({}), StatusIs(StatusCode::kInvalidArgument, "layer1"));
}

// The references were computed by the checkpoint's own conventions: pixels without half a pixel of
// offset, rays between the planes 2 and 6 before the camera, 64 coarse and 64 more fine samples.
TEST(ImportNerfPytorchTest, LegoRendersAsItsReference) {
  const auto folder = TestData("nerf_pytorch_checkpoints/LICENSE");
  const auto poses = TestData("lego_200/transforms_test.json");
  if (!folder || !poses) GTEST_SKIP() << "NERF_TEST_DATA has no nerf_pytorch_checkpoints";
  const std::string root = folder->substr(0, folder->rfind('/'));
  const auto tensors = ReadTorchFile(root + "/pretrained/lego-lowres/checkpoint199999.ckpt");
  ASSERT_THAT(tensors, IsOk());
  const auto imported = ImportNerfPytorch(*tensors);
  ASSERT_THAT(imported, IsOk());
  SceneGeometry geometry;
  geometry.box = {{-1.5f, -1.5f, -1.5f}, {1.5f, 1.5f, 1.5f}};
  geometry.near = imported->config.near;
  const auto model =
      MethodOf(imported->config).LoadModel(imported->model, imported->config, geometry);
  ASSERT_THAT(model, IsOk());
  const auto cameras = ReadCameraFile(*poses, {80, 80});
  ASSERT_THAT(cameras, IsOk());
  Camera camera = cameras->front();  // test/r_0
  camera.cx = camera.cy = 40.5f;
  ThreadPool pool(2);
  ViewRender render(**model, geometry.near, camera, {});
  ASSERT_TRUE(render.Advance(&pool, {}, {}));
  const RenderedView view = render.TakeView();
  const std::vector<float> expected =
      ReadNpy(root + "/reference_lego_80/test_r_0.npy", 80 * 80 * 3);
  double squared = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = view.colors[i / 3][static_cast<int>(i % 3)] - expected[i];
    squared += difference * difference;
  }
  EXPECT_GT(-10 * std::log10(squared / static_cast<double>(expected.size())), 55);
}

}  // namespace
}  // namespace nerf
