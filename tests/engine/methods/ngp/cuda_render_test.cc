// Views rendered on a CUDA device, or under the host emulation, beside the CPU's, of checkpoints
// that steps of both have written.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "engine/methods/ngp/cuda/cuda_render_device.h"
#include "engine/methods/ngp/cuda/cuda_view_shape.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp/view_parameters/view_appearances.h"
#include "engine/views/render/render_device.h"
#include "tests/testing/cuda_test.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tiny_training.h"
#ifdef NERF_CUDA_EMULATION
#include "tests/testing/cuda_emulation/emulated_device.h"
#endif

namespace nerf {
namespace {

// A file of a field whose density and color vary.
TensorFile Checkpoint(RayStep* step) {
  TensorFile state = LivelyState(*step);
  for (const std::string prefix : {"", "average."}) {
    Tensor& layer = state.tensors.at(prefix + "field.density_mlp.1");
    std::vector<float> values = ToFloats(layer);
    for (float& value : values) value *= 6;
    layer = TensorFromFloats(values.data(), layer.shape, DType::kF32);
  }
  EXPECT_THAT(step->Load(state), IsOk());
  step->RunRays(OfViews(TinyBatch(12)));
  return Saved(*step);
}

// 19 columns and 18 rows: no whole number of tiles, seen a little from the side.
Camera SmallCamera() {
  Camera camera = TinyCamera(19);
  camera.height = 18;
  camera.lens = LensModel::kOpenCv;
  camera.k1 = 0.05f;
  camera.camera_to_world.m[0][3] = 0.4f;
  return camera;
}

class CudaRenderTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    cpu_ = NewCpuRenderDevice(&pool_);
    device_ = NewNgpCudaRenderDevice(0);
  }

  static std::unique_ptr<SceneRenderer> Load(const TensorFile& file, const SceneGeometry& geometry,
                                             RenderDevice* device,
                                             RenderPrecision precision = RenderPrecision::kSingle,
                                             const TrainConfig& config = TinyConfig()) {
    absl::StatusOr<std::unique_ptr<TrainedModel>> model = LoadNgpModel(file, config, geometry);
    EXPECT_THAT(model, IsOk());
    EXPECT_FALSE((*model)->NeedsCpu());
    return device->Load(*std::move(model), geometry, precision);
  }
  static ViewPicture Render(SceneRenderer* renderer, const Camera& camera,
                            const RenderOptions& options = {}) {
    ViewPicture picture;
    EXPECT_TRUE(renderer->Render(camera, options, {}, &picture));
    return picture;
  }
  // Largest difference of an 8-bit channel.
  static int MostDifferent(const ViewPicture& a, const ViewPicture& b) {
    EXPECT_EQ(a.rgba.pixels.size(), b.rgba.pixels.size());
    int most = 0;
    for (size_t i = 0; i < a.rgba.pixels.size(); ++i)
      most = std::max(most, std::abs(a.rgba.pixels[i] - b.rgba.pixels[i]));
    return most;
  }
  void ExpectPicturesLikeTheCpus(const TensorFile& file, const SceneGeometry& geometry,
                                 const TrainConfig& config = TinyConfig()) {
    const RenderOptions options{.background = {0.2f, 0.5f, 0.9f}};
    const auto picture_on = [&](RenderDevice* device) {
      return Render(Load(file, geometry, device, RenderPrecision::kSingle, config).get(),
                    SmallCamera(), options);
    };
    const auto expected = picture_on(cpu_.get()), found = picture_on(device_.get());
    EXPECT_EQ(found.rgba.width, 19);
    EXPECT_EQ(found.rgba.height, 18);
    EXPECT_LE(MostDifferent(found, expected), 1);
    ASSERT_EQ(found.depths.size(), expected.depths.size());
    int n_with_depth = 0, n_opaque = 0;
    std::set<uint8_t> reds;
    for (size_t i = 0; i < expected.depths.size(); ++i) {
      n_with_depth += expected.depths[i] > 0;
      n_opaque += expected.rgba.pixels[4 * i + 3] == 255;
      reds.insert(expected.rgba.pixels[4 * i]);
      EXPECT_NEAR(found.depths[i], expected.depths[i], 1e-3 * expected.depths[i]) << i;
    }
    // Else nothing was compared above.
    EXPECT_GT(n_with_depth, 50);
    EXPECT_GT(n_opaque, 5);
    EXPECT_LT(n_opaque, 19 * 18);
    EXPECT_GT(reds.size(), 20u);
  }

  ThreadPool pool_{1};
  std::unique_ptr<RenderDevice> cpu_, device_;
};
NERF_INSTANTIATE_CUDA_PLACES(CudaRenderTest);

TEST_P(CudaRenderTest, ACheckpointOfTheCpuShowsTheCpusPictureInFp32) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  ExpectPicturesLikeTheCpus(Checkpoint(step.get()), TinyGeometry());
}

TEST_P(CudaRenderTest, PixelsShowTheMeanOfFourRaysAsOnTheCpu) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  const TensorFile file = Checkpoint(step.get());
  for (const bool straight_alpha : {false, true}) {
    const RenderOptions options{
        .background = {0.2f, 0.5f, 0.9f}, .straight_alpha = straight_alpha, .rays_per_pixel = 4};
    const auto expected =
        Render(Load(file, TinyGeometry(), cpu_.get()).get(), SmallCamera(), options);
    const auto device = Load(file, TinyGeometry(), device_.get());
    const auto found = Render(device.get(), SmallCamera(), options);
    // Of colors that count by their opacity, those of faint pixels are rounded most.
    for (size_t i = 0; i < expected.depths.size(); ++i) {
      const int opacity = expected.rgba.pixels[4 * i + 3];
      EXPECT_NEAR(found.rgba.pixels[4 * i + 3], opacity, 1) << i;
      for (size_t channel = 0; channel < 3; ++channel) {
        const int most = straight_alpha ? 2 + 255 / std::max(opacity, 1) : 1;
        EXPECT_NEAR(found.rgba.pixels[4 * i + channel], expected.rgba.pixels[4 * i + channel], most)
            << i;
      }
      EXPECT_NEAR(found.depths[i], expected.depths[i], 1e-3 * expected.depths[i]) << i;
    }
    RenderOptions one = options;
    one.rays_per_pixel = 1;
    EXPECT_GT(MostDifferent(Render(device.get(), SmallCamera(), one), found), 2);
  }
}

TEST_P(CudaRenderTest, ACheckpointOfTheDeviceShowsTheCpusPictureInFp32) {
  const auto step = NewNgpCudaStep(TinyConfig(), TinyGeometry());
  ExpectPicturesLikeTheCpus(Checkpoint(step.get()), TinyGeometry());
}

TEST_P(CudaRenderTest, NestedGridsWithGrowingStepsShowTheCpusPictureInFp32) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(2), &pool_);
  ExpectPicturesLikeTheCpus(Checkpoint(step.get()), TinyGeometry(2));
}

// Rays that miss the boxes, pass through them and end in them, the last tiles partly outside of the
// picture.
TEST_P(CudaRenderTest, OpenScenesShowTheCpusPictureInFp32) {
  for (const auto& [contraction, learned_background] : {std::pair{Contraction::kLinf, 1},
                                                        {Contraction::kL2, 0},
                                                        {Contraction::kPerspective, 0},
                                                        {Contraction::kPerspective, 1},
                                                        {Contraction::kNone, 1}}) {
    TrainConfig config = TinyConfig();
    Ngp(config).contraction = contraction;
    Ngp(config).learned_background = learned_background;
    const SceneGeometry geometry = TinyGeometry(contraction == Contraction::kNone ? 1 : 2);
    const auto step = NewNgpCudaStep(config, geometry);
    ExpectPicturesLikeTheCpus(Checkpoint(step.get()), geometry, config);
  }
}

TEST_P(CudaRenderTest, TheAppearanceOfAPictureShowsTheCpusPictureInFp32) {
  TrainConfig config = TinyConfig();
  Ngp(config).appearance_rate = 1;
  const std::vector<View> views(3);
  const auto step = NewNgpCpuStep(config, TinyGeometry(), &pool_, views);
  ASSERT_THAT(step->Load(LivelyViewState(*step)), IsOk());
  TensorFile file = Checkpoint(step.get());
  file.tensors.at("average.view.appearances") = file.tensors.at("view.appearances");
  const auto mean =
      Render(Load(file, TinyGeometry(), device_.get(), RenderPrecision::kSingle, config).get(),
             SmallCamera());
  ASSERT_THAT(ShowAppearanceOf(1, &file), IsOk());
  ExpectPicturesLikeTheCpus(file, TinyGeometry(), config);
  const auto shown =
      Render(Load(file, TinyGeometry(), device_.get(), RenderPrecision::kSingle, config).get(),
             SmallCamera());
  EXPECT_GT(MostDifferent(shown, mean), 3);
}

TEST_P(CudaRenderTest, RaysEndAtFar) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  const TensorFile file = Checkpoint(step.get());
  SceneGeometry geometry = TinyGeometry();
  const auto whole = Render(Load(file, geometry, device_.get()).get(), SmallCamera());
  geometry.far = 3.2f;
  ExpectPicturesLikeTheCpus(file, geometry);
  const auto cut = Render(Load(file, geometry, device_.get()).get(), SmallCamera());
  EXPECT_GT(MostDifferent(whole, cut), 10);
}

TEST_P(CudaRenderTest, HalfPrecisionShowsThePictureToItsRounding) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  const TensorFile file = Checkpoint(step.get());
  const auto expected = Render(Load(file, TinyGeometry(), cpu_.get()).get(), SmallCamera());
  const auto found = Render(Load(file, TinyGeometry(), device_.get(), RenderPrecision::kHalf).get(),
                            SmallCamera());
  EXPECT_LE(MostDifferent(found, expected), 3);
}

TEST_P(CudaRenderTest, AnEmptyGridShowsTheBackground) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  TensorFile file = Saved(*step);
  std::vector<uint8_t>& bits = file.tensors.at("occupancy.bits").bytes;
  std::fill(bits.begin(), bits.end(), 0);
  const auto renderer = Load(file, TinyGeometry(), device_.get());
  const ViewPicture picture = Render(renderer.get(), TinyCamera(3), {.background = {1, 0, 0.5f}});
  for (size_t i = 0; i < 9; ++i) {
    const uint8_t* const pixel = picture.rgba.pixels.data() + 4 * i;
    EXPECT_EQ(std::vector<uint8_t>(pixel, pixel + 4), (std::vector<uint8_t>{255, 0, 128, 0}));
    EXPECT_EQ(picture.depths[i], 0);
  }
}

TEST_P(CudaRenderTest, OneRendererShowsViewsOfManySizesOneAfterAnother) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  const TensorFile file = Checkpoint(step.get());
  const auto expected = Load(file, TinyGeometry(), cpu_.get());
  const auto renderer = Load(file, TinyGeometry(), device_.get());
  const auto other = Load(file, TinyGeometry(), device_.get());  // shares the workspace
  for (int side : {1, 17, 5, 40, 16}) {
    EXPECT_LE(MostDifferent(Render(renderer.get(), TinyCamera(side)),
                            Render(expected.get(), TinyCamera(side))),
              1)
        << side;
    if (side == 17) Render(other.get(), TinyCamera(3));
  }
}

TEST_P(CudaRenderTest, StopEndsTheRenderWithoutAPictureAndTheNextOneIsWhole) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  const auto renderer = Load(Checkpoint(step.get()), TinyGeometry(), device_.get());
  const ViewPicture expected = Render(renderer.get(), TinyCamera(9));
  std::stop_source stop;
  stop.request_stop();
  ViewPicture picture;
  EXPECT_FALSE(renderer->Render(TinyCamera(9), {}, stop.get_token(), &picture));
  EXPECT_EQ(Render(renderer.get(), TinyCamera(9)).rgba.pixels, expected.rgba.pixels);
}

#ifdef NERF_CUDA_EMULATION

TEST_P(CudaRenderTest, LittleMemoryMeansPartByPartAndTheSamePicture) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  const TensorFile file = Checkpoint(step.get());
  const ViewPicture expected =
      Render(Load(file, TinyGeometry(), device_.get()).get(), TinyCamera(40));
  const auto little = NewNgpCudaRenderDevice(0);
  const auto renderer = Load(file, TinyGeometry(), little.get());
  const size_t two_tiles = CudaViewBytes<float>(CudaViewShapeFor<float>(2, SIZE_MAX));
  const size_t before = cuda_emulation::DeviceBytesInUse();
  cuda_emulation::SetDeviceBytes(before + 2 * two_tiles + 1000);
  const ViewPicture found = Render(renderer.get(), TinyCamera(40));
  EXPECT_EQ(cuda_emulation::DeviceBytesInUse() - before, two_tiles) << "as predicted";
  cuda_emulation::SetDeviceBytes(size_t{1} << 30);
  EXPECT_EQ(found.rgba.pixels, expected.rgba.pixels);
  EXPECT_EQ(found.depths, expected.depths);
}

TEST_P(CudaRenderTest, ADeviceWithoutRoomForOneTileThrowsAndRendersWhenThereIs) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  const auto renderer = Load(Checkpoint(step.get()), TinyGeometry(), device_.get());
  cuda_emulation::SetDeviceBytes(cuda_emulation::DeviceBytesInUse() + 1000);
  ViewPicture picture;
  EXPECT_THROW(renderer->Render(TinyCamera(4), {}, {}, &picture), kernels::cuda::CudaOutOfMemory);
  cuda_emulation::SetDeviceBytes(size_t{1} << 30);
  EXPECT_TRUE(renderer->Render(TinyCamera(4), {}, {}, &picture));
}

TEST_P(CudaRenderTest, WavesAreRecordedOnceForViewsThatFitTheSameArrays) {
  const auto step = NewNgpCpuStep(TinyConfig(), TinyGeometry(), &pool_);
  const auto renderer = Load(Checkpoint(step.get()), TinyGeometry(), device_.get());
  Render(renderer.get(), TinyCamera(16));
  const int before = cuda_emulation::GraphsRecorded();
  for (int side : {16, 3, 12}) Render(renderer.get(), TinyCamera(side));
  EXPECT_EQ(cuda_emulation::GraphsRecorded(), before);
  Render(renderer.get(), TinyCamera(17));
  EXPECT_EQ(cuda_emulation::GraphsRecorded(), before + 1);
}

#endif  // NERF_CUDA_EMULATION

}  // namespace
}  // namespace nerf
