#include "engine/tool/op_benches.h"

#include <cstring>
#include <memory>

#include "engine/base/buffer.h"
#include "engine/base/philox.h"
#include "engine/config/train_config.h"
#include "engine/field/ngp_network.h"
#include "engine/kernels/activation.h"
#include "engine/kernels/adam.h"
#include "engine/kernels/dense_layer.h"

namespace nerf {
namespace {

constexpr int kRays = 2048;
constexpr int kSamplesPerRay = 8;
constexpr int kSamples = kRays * kSamplesPerRay;
constexpr int kBatch = 512;  // samples of one call, as the training step makes them

constexpr size_t kAdamFloats = size_t{1} << 18;  // a level of 2^17 entries
constexpr size_t kCopyBytes = size_t{64} << 20;

// Short stretches of random rays through the unit cube, a marching step apart: the access pattern
// of training.
Buffer<Vec3> RaySamples() {
  constexpr float kStep = 1.7e-3f;
  Buffer<Vec3> samples(kSamples);
  for (int ray = 0; ray < kRays; ++ray) {
    const auto a = RandomWords(1, RandomUse::kTest, 0, ray);
    const auto b = RandomWords(1, RandomUse::kTest, 1, ray);
    const auto at = [](const std::array<uint32_t, 4>& words) {
      return Vec3{UniformFloat(words[0]), UniformFloat(words[1]), UniformFloat(words[2])};
    };
    const Vec3 origin = at(a) * 0.9f + Vec3{0.05f, 0.05f, 0.05f};
    const Vec3 direction = Normalized(at(b) - Vec3{0.5f, 0.5f, 0.5f});
    for (int i = 0; i < kSamplesPerRay; ++i) {
      samples[ray * kSamplesPerRay + i] = origin + direction * (kStep * static_cast<float>(i));
    }
  }
  return samples;
}

struct HashBench {
  kernels::HashGridShape shape = NgpHashGridShape({});
  Buffer<Vec3> samples = RaySamples();
  Buffer<float> table{shape.level_size() * shape.n_levels};
  Buffer<uint8_t> touched{table.size() / 16};
  Buffer<float> features{size_t{kEncodingWidth} * kSamples};
};

std::function<BenchWork()> PrepareEncodeForward(ThreadPool*) {
  auto bench = std::make_shared<HashBench>();
  return [bench]() -> BenchWork {
    for (int i = 0; i < kSamples; i += kBatch) {
      kernels::cpu::HashEncodeForward(
          {.shape = &bench->shape,
           .table = bench->table.data(),
           .n = kBatch,
           .positions = bench->samples.data() + i,
           .features = bench->features.data() + size_t{kEncodingWidth} * i,
           .stride = kEncodingWidth});
    }
    return {kSamples, kSamples * (4.0 * 8 * kEncodingWidth + 4 * kEncodingWidth)};
  };
}

std::function<BenchWork()> PrepareEncodeBackward(ThreadPool*) {
  auto bench = std::make_shared<HashBench>();
  return [bench]() -> BenchWork {
    for (int level = 0; level < bench->shape.n_levels; ++level) {
      const size_t size = bench->shape.level_size();
      kernels::cpu::HashEncodeBackward(
          {.shape = &bench->shape,
           .level = level,
           .n = kSamples,
           .positions = bench->samples.data(),
           .grad_features = bench->features.data() + bench->shape.n_features * level,
           .stride = kEncodingWidth,
           .grad_table = bench->table.data() + size * level,
           .touched = bench->touched.data() + size / 16 * level});
    }
    return {kSamples, kSamples * (4.0 * 8 * 2 * kEncodingWidth + 4 * kEncodingWidth)};
  };
}

struct DenseBench {
  Buffer<float> inputs{size_t{kHiddenWidth} * kBatch};
  Buffer<float> outputs{size_t{kHiddenWidth} * kBatch};
  Buffer<float> weights{size_t{kHiddenWidth} * kHiddenWidth};
};

// The 64 x 64 layer; the others have the same inner loop.
template <typename Run>
std::function<BenchWork()> PrepareDense(Run run) {
  auto bench = std::make_shared<DenseBench>();
  return [bench, run]() -> BenchWork {
    run(*bench);
    return {2.0 * kBatch * kHiddenWidth * kHiddenWidth};
  };
}

std::function<BenchWork()> PrepareDenseForward(ThreadPool*) {
  return PrepareDense([](DenseBench& b) {
    kernels::cpu::DenseForward({kBatch, kHiddenWidth, kHiddenWidth, b.inputs.data(), kHiddenWidth,
                                b.weights.data(), b.outputs.data(), kHiddenWidth, true});
  });
}

std::function<BenchWork()> PrepareDenseBackwardInput(ThreadPool*) {
  return PrepareDense([](DenseBench& b) {
    kernels::cpu::DenseBackwardInput({kBatch, kHiddenWidth, kHiddenWidth, b.outputs.data(),
                                      kHiddenWidth, b.weights.data(), b.inputs.data(), kHiddenWidth,
                                      b.inputs.data(), kHiddenWidth});
  });
}

std::function<BenchWork()> PrepareDenseBackwardWeights(ThreadPool*) {
  return PrepareDense([](DenseBench& b) {
    kernels::cpu::DenseBackwardWeights({kBatch, kHiddenWidth, kHiddenWidth, b.inputs.data(),
                                        kHiddenWidth, b.outputs.data(), kHiddenWidth,
                                        b.weights.data()});
  });
}

std::function<BenchWork()> PrepareAdamSparse(ThreadPool*) {
  struct AdamBench {
    Buffer<float> parameters{kAdamFloats}, first{kAdamFloats}, second{kAdamFloats},
        gradients{kAdamFloats};
    Buffer<uint8_t> touched{kAdamFloats / 16};
  };
  auto bench = std::make_shared<AdamBench>();
  return [bench]() -> BenchWork {
    std::fill(bench->touched.begin(), bench->touched.end(), 1);
    std::fill(bench->gradients.begin(), bench->gradients.end(), 1e-3f);
    kernels::cpu::AdamSparse({.settings = {.learning_rate = 1e-2f},
                              .n_lines = kAdamFloats / 16,
                              .touched = bench->touched.data(),
                              .parameters = bench->parameters.data(),
                              .first_moments = bench->first.data(),
                              .second_moments = bench->second.data(),
                              .gradients = bench->gradients.data()});
    return {kAdamFloats, kAdamFloats * 4.0 * 8};
  };
}

std::function<BenchWork()> PrepareCopy(ThreadPool*) {
  struct CopyBench {
    Buffer<uint8_t> from{kCopyBytes}, to{kCopyBytes};
  };
  auto bench = std::make_shared<CopyBench>();
  return [bench]() -> BenchWork {
    std::memcpy(bench->to.data(), bench->from.data(), kCopyBytes);
    return {kCopyBytes, 2.0 * kCopyBytes};
  };
}

}  // namespace

std::vector<Bench> OpBenches() {
  return {
      {"copy", "bytes copied", PrepareCopy},
      {"hash_encode_forward", "samples", PrepareEncodeForward},
      {"hash_encode_backward", "samples", PrepareEncodeBackward},
      {"dense_forward_64x64", "FLOP", PrepareDenseForward},
      {"dense_backward_input_64x64", "FLOP", PrepareDenseBackwardInput},
      {"dense_backward_weights_64x64", "FLOP", PrepareDenseBackwardWeights},
      {"adam_sparse", "parameters", PrepareAdamSparse},
  };
}

}  // namespace nerf
