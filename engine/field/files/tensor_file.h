#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

enum class DType { kF32, kF16, kBF16, kI32, kU8 };

// Bytes of one element; the name in a file ("F32", ...).
int DTypeSize(DType dtype);
std::string_view DTypeName(DType dtype);

// A dense tensor in host memory, row-major, little-endian.
struct Tensor {
  DType dtype = DType::kF32;
  std::vector<uint32_t> shape;
  std::vector<uint8_t> bytes;  // product of shape * DTypeSize

  size_t n_elements() const;
};

// The contents of a safetensors file: named tensors and metadata strings.
struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Serializes: 8-byte little-endian header length, JSON header with sorted keys, padded with spaces
// to 8 bytes, raw tensors in name order. Equal contents are equal bytes. Adds metadata
// "sha256.<name>" for each tensor.
std::string SerializeTensorFile(const TensorFile& file);

// Writes atomically: a reader sees the old file or the new one. Errors: Unavailable or
// ResourceExhausted of the file system, naming the path.
absl::Status WriteTensorFile(const TensorFile& file, const std::string& path);

// Reads and checks everything: header bounds, dtypes, offsets without gaps or overlaps, sizes
// against shapes, sha256 of each tensor. Allocates no more than the file's size. Errors: NotFound;
// DataLoss for a digest that differs; InvalidArgument otherwise, naming the path and what is wrong.
absl::StatusOr<TensorFile> ReadTensorFile(const std::string& path);
absl::StatusOr<TensorFile> ParseTensorFile(std::string_view bytes,
                                           const std::string& path_for_errors);

// Header alone, for `inspect` and shape checks: tensors come without bytes.
absl::StatusOr<TensorFile> ReadTensorFileHeader(const std::string& path);

// Builds F32 and F16 tensors from floats (F16 rounds to nearest even) and back. ToFloats requires
// F32, F16 or BF16.
Tensor TensorFromFloats(const float* values, std::vector<uint32_t> shape, DType dtype);
std::vector<float> ToFloats(const Tensor& tensor);

// Rounds to the nearest half precision value and back: what a model file will hold.
float RoundToHalf(float value);

}  // namespace nerf
