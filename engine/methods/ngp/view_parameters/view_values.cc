#include "engine/methods/ngp/view_parameters/view_values.h"

#include <utility>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/field/parameters/dense_parameters.h"

namespace nerf {
namespace {

constexpr const char* kFirst = "adam.first.";
constexpr const char* kSecond = "adam.second.";

size_t SizeOf(const std::vector<uint32_t>& shape) {
  size_t size = 1;
  for (const uint32_t side : shape) size *= side;
  return size;
}

}  // namespace

ViewValues::ViewValues(std::string name, std::vector<uint32_t> shape)
    : name_(std::move(name)),
      shape_(std::move(shape)),
      values_(SizeOf(shape_)),
      first_moments_(values_.size()),
      second_moments_(values_.size()) {}

void ViewValues::Update(const kernels::AdamSettings& settings, std::span<const float> gradients) {
  NERF_CHECK(gradients.size() == values_.size());
  kernels::cpu::AdamDense({.settings = settings,
                           .n = static_cast<int64_t>(values_.size()),
                           .parameters = values_.data(),
                           .first_moments = first_moments_.data(),
                           .second_moments = second_moments_.data(),
                           .gradients = gradients.data()});
}

void ViewValues::Save(TensorFile* file) const {
  const auto save = [&](const std::string& name, const std::vector<float>& values) {
    file->tensors[name] = TensorFromFloats(values.data(), shape_, DType::kF32);
  };
  save(name_, values_);
  save(kFirst + name_, first_moments_);
  save(kSecond + name_, second_moments_);
}

absl::Status ViewValues::Load(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(std::vector<float> values, ReadFloats(file, name_, shape_));
  NERF_ASSIGN_OR_RETURN(std::vector<float> first, ReadFloats(file, kFirst + name_, shape_));
  NERF_ASSIGN_OR_RETURN(std::vector<float> second, ReadFloats(file, kSecond + name_, shape_));
  values_ = std::move(values);
  first_moments_ = std::move(first);
  second_moments_ = std::move(second);
  return absl::OkStatus();
}

}  // namespace nerf
