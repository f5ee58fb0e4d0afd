#include "tests/testing/constant_color/constant_color_method.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "tests/testing/constant_color/constant_color_description.h"

namespace nerf {
namespace {

absl::StatusOr<Vec3> ColorIn(const TensorFile& file) {
  const auto found = file.tensors.find(kConstantColorTensor);
  if (found == file.tensors.end() || found->second.shape != std::vector<uint32_t>{3} ||
      (found->second.dtype != DType::kF32 && found->second.dtype != DType::kF16)) {
    return absl::InvalidArgumentError("tensor field.color is missing or of another shape");
  }
  const std::vector<float> values = ToFloats(found->second);
  return Vec3{values[0], values[1], values[2]};
}

class ConstantColorModel final : public TrainedModel {
 public:
  ConstantColorModel(Vec3 color, const Aabb& box) : color_(color), box_(box) {}
  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<Workspace>(); }
  bool RenderRays(const RayTile& tile, const std::stop_token& /*stop*/, Workspace* /*workspace*/,
                  RenderedRay* rendered) const override {
    std::fill_n(rendered, tile.rays.size(), RenderedRay{color_, 1, 1});
    return true;
  }
  Aabb OccupiedBox() const override { return box_; }
  uint64_t byte_size() const override { return sizeof(*this); }
  std::string_view method() const override { return "constant-color"; }

 private:
  const Vec3 color_;
  const Aabb box_;
};

// Gradient steps on the squared error; it needs no rays.
class ConstantColorStep final : public TrainingStep {
 public:
  ConstantColorStep(const TrainConfig& config, const Aabb& box) : config_(config), box_(box) {}

  int NextPixels(double /*fraction*/) override {
    return config_.method_settings.Get<ConstantColorSettings>().pixels;
  }
  StepResult Run(const PixelBatch& batch) override {
    StepResult result;
    Vec3 gradient;
    for (const Vec3& target : batch.targets) {
      const Vec3 residual = color_ - target;
      gradient = gradient + residual * (1.0f / batch.n_pixels);
      result.squared_error += Dot(residual, residual) / (3.0 * batch.n_pixels);
    }
    color_ = color_ - gradient * (config_.learning_rate * batch.rate_factor);
    result.loss = result.squared_error;
    result.n_rays = result.n_marched = result.n_trained = batch.n_pixels;
    return result;
  }

  void Save(TensorFile* file) const override { Write(DType::kF32, file); }
  void SaveModel(TensorFile* file) const override { Write(DType::kF16, file); }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(color_, ColorIn(file));
    return absl::OkStatus();
  }
  absl::Status Initialize(const TensorFile& file) override { return Load(file); }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    const Vec3 rounded{RoundToHalf(color_.x), RoundToHalf(color_.y), RoundToHalf(color_.z)};
    return std::make_unique<ConstantColorModel>(rounded, box_);
  }

 private:
  void Write(DType dtype, TensorFile* file) const {
    const float values[3] = {color_.x, color_.y, color_.z};
    file->tensors[kConstantColorTensor] = TensorFromFloats(values, {3}, dtype);
  }

  const TrainConfig config_;
  const Aabb box_;
  Vec3 color_{0.5f, 0.5f, 0.5f};
};

class ConstantColorMethodImpl final : public Method {
 public:
  const MethodDescription& description() const override { return DescribeConstantColor(); }
  absl::StatusOr<std::unique_ptr<TrainingStep>> NewStep(const StepRequest& request) const override {
    return std::make_unique<ConstantColorStep>(request.config, request.geometry.box);
  }
  absl::StatusOr<std::unique_ptr<TrainedModel>> LoadModel(
      const TensorFile& file, const TrainConfig& /*config*/,
      const SceneGeometry& geometry) const override {
    NERF_ASSIGN_OR_RETURN(const Vec3 color, ColorIn(file));
    const Vec3 rounded{RoundToHalf(color.x), RoundToHalf(color.y), RoundToHalf(color.z)};
    return std::make_unique<ConstantColorModel>(rounded, geometry.box);
  }
};

}  // namespace

const Method& ConstantColorMethod() {
  static const auto& method = *new ConstantColorMethodImpl();
  return method;
}

}  // namespace nerf
