#include "engine/field/parameters/dense_parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int64_t kTaskFloats = 1 << 14;  // of one task of an update
constexpr const char* kPrefixes[] = {"", "adam.first.", "adam.second.", "average."};

size_t TotalSize(const std::vector<ParameterBlock>& blocks) {
  size_t size = 0;
  for (const ParameterBlock& block : blocks) size += block.size();
  return size;
}

void Store(const std::vector<ParameterBlock>& blocks, const std::string& prefix,
           const Buffer<float>& values, DType dtype, TensorFile* file) {
  size_t offset = 0;
  for (const ParameterBlock& block : blocks) {
    file->tensors[prefix + block.name] =
        TensorFromFloats(values.data() + offset, block.shape, dtype);
    offset += block.size();
  }
}

absl::StatusOr<Buffer<float>> Read(const TensorFile& file,
                                   const std::vector<ParameterBlock>& blocks,
                                   const std::string& prefix) {
  Buffer<float> values(TotalSize(blocks));
  float* to = values.data();
  for (const ParameterBlock& block : blocks) {
    NERF_ASSIGN_OR_RETURN(const std::vector<float> held,
                          ReadFloats(file, prefix + block.name, block.shape));
    to = std::copy(held.begin(), held.end(), to);
  }
  return values;
}

}  // namespace

size_t ParameterBlock::size() const {
  size_t n = 1;
  for (const uint32_t side : shape) n *= side;
  return n;
}

kernels::AdamSettings AdamAt(float learning_rate, float beta1, float beta2, float epsilon, int t) {
  const auto correction = [t](double beta) {
    return static_cast<float>(1 / (1 - std::pow(beta, t)));
  };
  return {.learning_rate = learning_rate,
          .beta1 = beta1,
          .beta2 = beta2,
          .epsilon = epsilon,
          .correction1 = correction(beta1),
          .correction2 = correction(beta2)};
}

absl::StatusOr<const Tensor*> FindFloats(const TensorFile& file, const std::string& name,
                                         const std::vector<uint32_t>& shape) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end())
    return absl::InvalidArgumentError(fmt::format("tensor {} is missing", name));
  const Tensor& tensor = found->second;
  if (tensor.shape != shape) {
    return absl::InvalidArgumentError(fmt::format("tensor {} is [{}], expected [{}]", name,
                                                  fmt::join(tensor.shape, ", "),
                                                  fmt::join(shape, ", ")));
  }
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} is {}, expected F32 or F16", name, DTypeName(tensor.dtype)));
  }
  return &tensor;
}

absl::StatusOr<std::vector<float>> ReadFloats(const TensorFile& file, const std::string& name,
                                              const std::vector<uint32_t>& shape) {
  NERF_ASSIGN_OR_RETURN(const Tensor* const tensor, FindFloats(file, name, shape));
  return ToFloats(*tensor);
}

DenseParameters::DenseParameters(std::vector<ParameterBlock> blocks, int n_lanes)
    : blocks_(std::move(blocks)),
      n_lanes_(n_lanes),
      values_(TotalSize(blocks_)),
      averages_(values_.size()),
      first_(values_.size()),
      second_(values_.size()),
      gradients_(values_.size() * n_lanes) {
  size_t offset = 0;
  for (const ParameterBlock& block : blocks_) {
    NERF_CHECK(block.size() % 16 == 0);
    offsets_.push_back(offset);
    offset += block.size();
  }
}

void DenseParameters::RestartMoments() {
  first_.SetZero();
  second_.SetZero();
  std::memcpy(averages_.data(), values_.data(), values_.byte_size());
}

void DenseParameters::Update(const kernels::AdamSettings& settings, ThreadPool* pool) {
  const auto n = static_cast<int64_t>(size());
  pool->ParallelFor((n + kTaskFloats - 1) / kTaskFloats, [&](int64_t task, int) {
    const int64_t begin = task * kTaskFloats, count = std::min(kTaskFloats, n - begin);
    float* const sum = gradients(0) + begin;
    SumLaneSlice(n_lanes_, size(), begin, count, gradients_.data());
    kernels::cpu::AdamDense({.settings = settings,
                             .n = count,
                             .parameters = values_.data() + begin,
                             .first_moments = first_.data() + begin,
                             .second_moments = second_.data() + begin,
                             .gradients = sum});
    for (int lane = 0; lane < n_lanes_; ++lane) std::fill_n(gradients(lane) + begin, count, 0.0f);
  });
}

void DenseParameters::UpdateAverages(float decay) {
  kernels::cpu::MovingAverage({.decay = decay,
                               .n = static_cast<int64_t>(size()),
                               .parameters = values_.data(),
                               .averages = averages_.data()});
}

bool DenseParameters::IsFinite() const {
  return std::all_of(values_.begin(), values_.end(), [](float v) { return std::isfinite(v); });
}

void DenseParameters::Save(TensorFile* file) const {
  const Buffer<float>* const parts[] = {&values_, &first_, &second_, &averages_};
  for (int i = 0; i < 4; ++i) Store(blocks_, kPrefixes[i], *parts[i], DType::kF32, file);
}

absl::Status DenseParameters::Load(const TensorFile& file) {
  Buffer<float> read[4];
  for (int i = 0; i < 4; ++i) {
    NERF_ASSIGN_OR_RETURN(read[i], Read(file, blocks_, kPrefixes[i]));
  }
  Buffer<float>* const parts[] = {&values_, &first_, &second_, &averages_};
  // Copied, because evaluations keep pointers to the values.
  for (int i = 0; i < 4; ++i) std::copy(read[i].begin(), read[i].end(), parts[i]->begin());
  return absl::OkStatus();
}

void DenseParameters::SaveModel(TensorFile* file) const {
  Store(blocks_, "", averages_, DType::kF16, file);
}

absl::Status DenseParameters::Initialize(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(const Buffer<float> values, Read(file, blocks_, ""));
  std::copy(values.begin(), values.end(), values_.begin());
  RestartMoments();
  return absl::OkStatus();
}

Buffer<float> DenseParameters::Evaluation() const {
  Buffer<float> rounded(size());
  std::transform(averages_.begin(), averages_.end(), rounded.begin(), RoundToHalf);
  return rounded;
}

absl::StatusOr<Buffer<float>> ReadEvaluationParameters(const TensorFile& file,
                                                       const std::vector<ParameterBlock>& blocks) {
  const bool is_checkpoint =
      !blocks.empty() && file.tensors.contains(kPrefixes[3] + blocks[0].name);
  NERF_ASSIGN_OR_RETURN(Buffer<float> values,
                        Read(file, blocks, is_checkpoint ? kPrefixes[3] : ""));
  std::transform(values.begin(), values.end(), values.begin(), RoundToHalf);
  return values;
}

}  // namespace nerf
