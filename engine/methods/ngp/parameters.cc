#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "common/status_macros.h"
#include "engine/base/bfloat16.h"
#include "engine/base/philox.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/methods/ngp/table_resize.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

namespace nerf {
namespace {

static_assert(kNgpMaxBf16Decay == kernels::kMaxBf16Decay);

constexpr float kTableInit = 1e-4f;
constexpr int kAverageBlock = 1 << 16;  // floats of one task of the moving average

std::string AverageName(std::string_view name) { return fmt::format("average.{}", name); }
std::string FirstMomentName(std::string_view name) { return fmt::format("adam.first.{}", name); }
std::string SecondMomentName(std::string_view name) { return fmt::format("adam.second.{}", name); }

std::vector<uint32_t> TableShape(const kernels::HashGridShape& shape) {
  return {static_cast<uint32_t>(shape.n_levels), shape.entries(),
          static_cast<uint32_t>(shape.n_features)};
}

std::vector<uint32_t> LayerShape(const NgpLayer& layer) {
  return {static_cast<uint32_t>(layer.n_out_used), static_cast<uint32_t>(layer.n_in)};
}

// Files hold a layer as [n_out][n_in] without padding.
Tensor LayerTensor(const NgpLayer& layer, const float* weights, DType dtype) {
  std::vector<float> rows(static_cast<size_t>(layer.n_out_used) * layer.n_in);
  for (int out = 0; out < layer.n_out_used; ++out) {
    for (int in = 0; in < layer.n_in; ++in) {
      rows[static_cast<size_t>(out) * layer.n_in + in] =
          weights[layer.offset + in * layer.n_out + out];
    }
  }
  return TensorFromFloats(rows.data(), LayerShape(layer), dtype);
}

// One kind of tensors (parameters, moments, averages) of the whole field, read into table and
// weights.
template <typename NameOf>
absl::Status ReadField(const TensorFile& file, const kernels::HashGridShape& shape, NameOf name_of,
                       Buffer<float>* table, Buffer<float>* weights) {
  NERF_ASSIGN_OR_RETURN(const Tensor* table_tensor,
                        FindFloats(file, name_of(kHashTableName), TableShape(shape)));
  const std::vector<float> entries = ToFloats(*table_tensor);
  *table = Buffer<float>(entries.size());
  std::memcpy(table->data(), entries.data(), table->byte_size());
  *weights = Buffer<float>(kNgpWeights);
  for (const NgpLayer& layer : kNgpLayers) {
    NERF_ASSIGN_OR_RETURN(const Tensor* tensor,
                          FindFloats(file, name_of(layer.tensor_name), LayerShape(layer)));
    const std::vector<float> rows = ToFloats(*tensor);
    for (int out = 0; out < layer.n_out_used; ++out) {
      for (int in = 0; in < layer.n_in; ++in) {
        (*weights)[layer.offset + in * layer.n_out + out] =
            rows[static_cast<size_t>(out) * layer.n_in + in];
      }
    }
  }
  return absl::OkStatus();
}

template <typename NameOf>
void WriteField(const kernels::HashGridShape& shape, NameOf name_of, const Buffer<float>& table,
                const Buffer<float>& weights, DType dtype, TensorFile* file) {
  file->tensors[name_of(kHashTableName)] = TensorFromFloats(table.data(), TableShape(shape), dtype);
  for (const NgpLayer& layer : kNgpLayers) {
    file->tensors[name_of(layer.tensor_name)] = LayerTensor(layer, weights.data(), dtype);
  }
}

std::string PlainName(std::string_view name) { return std::string(name); }

Buffer<float> Rounded(const Buffer<float>& values) {
  Buffer<float> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) rounded[i] = RoundToHalf(values[i]);
  return rounded;
}

Buffer<Half> Halves(const Buffer<float>& values) {
  Buffer<Half> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), HalfFromFloat);
  return halves;
}

}  // namespace

NgpParameters::NgpParameters(const TrainConfig& config, const kernels::HashGridShape& shape)
    : config_(config),
      shape_(shape),
      table_(shape.level_size() * shape.n_levels),
      table_average_(table_.size()),
      table_first_(NgpKeepsBf16Moments(config) ? 0 : table_.size()),
      table_second_(table_first_.size()),
      table_moments_(table_.size() - table_first_.size()),
      half_table_(Ngp(config).half_table != 0 ? table_.size() : 0),
      weights_(kNgpWeights),
      transposed_(kNgpWeights),
      weights_first_(kNgpWeights),
      weights_second_(kNgpWeights),
      weights_average_(kNgpWeights),
      weight_gradients_(size_t{kNgpWeights} * kGradientLanes),
      pairs_buffer_(kNgpWeightPairs),
      transposed_pairs_buffer_(kNgpWeightPairs) {}

void NgpParameters::InitializeRandomly() {
  uint32_t counter = 0;
  const auto uniform = [&](uint32_t stream, uint32_t index, float reach) {
    const uint32_t word = RandomWords(config_.seed, RandomUse::kInit, stream, index / 4)[index % 4];
    return (2 * UniformFloat(word) - 1) * reach;
  };
  for (size_t i = 0; i < table_.size(); i += 4) {
    const auto words = RandomWords(config_.seed, RandomUse::kInit, 0, counter++);
    for (int j = 0; j < 4; ++j) table_[i + j] = (2 * UniformFloat(words[j]) - 1) * kTableInit;
  }
  uint32_t stream = 1;
  for (const NgpLayer& layer : kNgpLayers) {
    const float reach = std::sqrt(6.0f / (layer.n_in + layer.n_out_used));
    for (int in = 0; in < layer.n_in; ++in) {
      for (int out = 0; out < layer.n_out_used; ++out) {
        weights_[layer.offset + in * layer.n_out + out] =
            uniform(stream, in * layer.n_out + out, reach);
      }
    }
    ++stream;
  }
  RestartMoments();
}

void NgpParameters::RestartMoments() {
  for (Buffer<float>* moments :
       {&table_first_, &table_second_, &weights_first_, &weights_second_}) {
    moments->SetZero();
  }
  table_moments_.SetZero();
  std::memcpy(table_average_.data(), table_.data(), table_.byte_size());
  std::memcpy(weights_average_.data(), weights_.data(), weights_.byte_size());
  Derive();
}

void NgpParameters::Derive() {
  if (Ngp(config_).half_table != 0) half_table_ = Halves(table_);
  DeriveWeights();
}

void NgpParameters::DeriveWeights() {
  for (const NgpLayer& layer : kNgpLayers) {
    for (int in = 0; in < layer.n_in; ++in) {
      for (int out = 0; out < layer.n_out; ++out) {
        transposed_[layer.offset + out * layer.n_in + in] =
            weights_[layer.offset + in * layer.n_out + out];
      }
    }
  }
  weight_pairs_ = PackNgpWeightPairs(weights_.data(), false, pairs_buffer_.data());
  transposed_pairs_ = PackNgpWeightPairs(transposed_.data(), true, transposed_pairs_buffer_.data());
}

NgpParameters::Arrays NgpParameters::arrays() {
  NERF_CHECK(table_moments_.empty());
  return {table_.span(),   table_first_.span(),   table_second_.span(),   table_average_.span(),
          weights_.span(), weights_first_.span(), weights_second_.span(), weights_average_.span()};
}

kernels::AdamSettings NgpParameters::WeightsAdam(float learning_rate, int t) const {
  kernels::AdamSettings settings = TableAdam(learning_rate * Ngp(config_).mlp_rate, t);
  settings.l2 = Ngp(config_).mlp_l2 * config_.loss_scale;
  return settings;
}

kernels::AdamSettings NgpParameters::TableAdam(float learning_rate, int t) const {
  return {
      .learning_rate = learning_rate,
      .beta1 = config_.beta1,
      .beta2 = config_.beta2,
      .epsilon = config_.epsilon,
      .correction1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(config_.beta1), t))),
      .correction2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(config_.beta2), t)))};
}

void NgpParameters::UpdateTableLevel(int level, float learning_rate, int t,
                                     LevelGradients* gradients) {
  const size_t begin = shape_.level_size() * level;
  const auto of_level = [begin](auto& buffer) {
    return buffer.empty() ? nullptr : buffer.data() + begin;
  };
  kernels::cpu::AdamSparse({.settings = TableAdam(learning_rate, t),
                            .n_lines = static_cast<int64_t>(gradients->touched.size()),
                            .touched = gradients->touched.data(),
                            .parameters = of_level(table_),
                            .first_moments = of_level(table_first_),
                            .second_moments = of_level(table_second_),
                            .moment_pairs = of_level(table_moments_),
                            .gradients = gradients->values.data(),
                            .half_copies = of_level(half_table_)});
}

void NgpParameters::UpdateWeights(float learning_rate, int t) {
  kernels::cpu::AdamDense({.settings = WeightsAdam(learning_rate, t),
                           .n = kNgpWeights,
                           .parameters = weights_.data(),
                           .first_moments = weights_first_.data(),
                           .second_moments = weights_second_.data(),
                           .gradients = weight_gradients_.data()});
  weight_gradients_.SetZero();
  DeriveWeights();
}

bool NgpParameters::WeightsAreFinite() const {
  return std::all_of(weights_.begin(), weights_.end(), [](float w) { return std::isfinite(w); });
}

void NgpParameters::UpdateAverages(int n_steps, std::span<const int> levels, ThreadPool* pool) {
  const float decay = AverageDecay(config_, n_steps);
  const auto level_size = static_cast<int64_t>(shape_.level_size());
  const int64_t level_blocks = (level_size + kAverageBlock - 1) / kAverageBlock;
  pool->ParallelFor(level_blocks * static_cast<int64_t>(levels.size()), [&](int64_t task, int) {
    const int64_t in_level = task % level_blocks * kAverageBlock;
    const int64_t begin = levels[task / level_blocks] * level_size + in_level;
    kernels::cpu::MovingAverage({.decay = decay,
                                 .n = std::min<int64_t>(kAverageBlock, level_size - in_level),
                                 .parameters = table_.data() + begin,
                                 .averages = table_average_.data() + begin});
  });
  kernels::cpu::MovingAverage({.decay = decay,
                               .n = kNgpWeights,
                               .parameters = weights_.data(),
                               .averages = weights_average_.data()});
}

void NgpParameters::UpdateAverages(int n_steps, ThreadPool* pool) {
  std::vector<int> levels(shape_.n_levels);
  std::iota(levels.begin(), levels.end(), 0);
  UpdateAverages(n_steps, levels, pool);
}

std::byte* NgpParameters::ReadLevel(int level) {
  const size_t begin = shape_.level_size() * level;
  if (half_table_.empty())
    return std::as_writable_bytes(table_.span()).data() + begin * sizeof(float);
  return std::as_writable_bytes(half_table_.span()).data() + begin * sizeof(Half);
}

size_t NgpParameters::ReadLineBytes() const {
  return kernels::kLineFloats * (half_table_.empty() ? sizeof(float) : sizeof(Half));
}

std::vector<std::span<std::byte>> NgpParameters::LevelArrays(int level) {
  std::vector<std::span<std::byte>> arrays;
  const size_t size = shape_.level_size();
  const auto add = [&](auto& buffer) {
    if (!buffer.empty())
      arrays.push_back(std::as_writable_bytes(buffer.span().subspan(size * level, size)));
  };
  add(table_);
  add(table_first_);
  add(table_second_);
  add(table_moments_);
  add(table_average_);
  add(half_table_);
  return arrays;
}

void NgpParameters::Save(TensorFile* file) const {
  WriteField(shape_, PlainName, table_, weights_, DType::kF32, file);
  const auto write_moments = [&](auto name_of, const Buffer<float>& table, auto moment_of,
                                 const Buffer<float>& weights) {
    if (table_moments_.empty()) {
      WriteField(shape_, name_of, table, weights, DType::kF32, file);
      return;
    }
    Buffer<float> unpacked(table_moments_.size());
    std::transform(table_moments_.begin(), table_moments_.end(), unpacked.begin(), moment_of);
    WriteField(shape_, name_of, unpacked, weights, DType::kF32, file);
  };
  write_moments(FirstMomentName, table_first_, Bf16Low, weights_first_);
  write_moments(SecondMomentName, table_second_, Bf16High, weights_second_);
  WriteField(shape_, AverageName, table_average_, weights_average_, DType::kF32, file);
}

absl::Status NgpParameters::Load(const TensorFile& file) {
  Buffer<float> table[4], weights[4];
  const auto read = [&](auto name_of, int i) {
    return ReadField(file, shape_, name_of, &table[i], &weights[i]);
  };
  NERF_RETURN_IF_ERROR(read(PlainName, 0));
  NERF_RETURN_IF_ERROR(read(FirstMomentName, 1));
  NERF_RETURN_IF_ERROR(read(SecondMomentName, 2));
  NERF_RETURN_IF_ERROR(read(AverageName, 3));
  table_ = std::move(table[0]);
  if (table_moments_.empty()) {
    table_first_ = std::move(table[1]);
    table_second_ = std::move(table[2]);
  } else {
    std::transform(table[1].begin(), table[1].end(), table[2].begin(), table_moments_.begin(),
                   Bf16Pair);
  }
  table_average_ = std::move(table[3]);
  weights_ = std::move(weights[0]);
  weights_first_ = std::move(weights[1]);
  weights_second_ = std::move(weights[2]);
  weights_average_ = std::move(weights[3]);
  Derive();
  return absl::OkStatus();
}

void NgpParameters::SaveModel(TensorFile* file) const {
  WriteField(shape_, PlainName, table_average_, weights_average_, DType::kF16, file);
}

absl::Status NgpParameters::Initialize(const TensorFile& file) {
  Buffer<float> table, weights;
  const kernels::HashGridShape held = ShapeOfStart(file, shape_);
  NERF_RETURN_IF_ERROR(ReadField(file, held, PlainName, &table, &weights));
  table_ = ResizedTable(held, shape_, table);
  weights_ = std::move(weights);
  RestartMoments();
  return absl::OkStatus();
}

Buffer<Half> NgpParameters::EvaluationTable() const { return Halves(table_average_); }
Buffer<float> NgpParameters::EvaluationWeights() const { return Rounded(weights_average_); }

absl::StatusOr<NgpEvaluationParameters> ReadNgpEvaluationParameters(
    const TensorFile& file, const kernels::HashGridShape& shape) {
  const bool is_checkpoint = file.tensors.contains(AverageName(kHashTableName));
  const auto name_of = [&](std::string_view name) {
    return is_checkpoint ? AverageName(name) : PlainName(name);
  };
  Buffer<float> table, weights;
  NERF_RETURN_IF_ERROR(ReadField(file, shape, name_of, &table, &weights));
  return NgpEvaluationParameters{.table = Halves(table), .weights = Rounded(weights)};
}

}  // namespace nerf
