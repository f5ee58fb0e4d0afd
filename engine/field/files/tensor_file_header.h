#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"

// The JSON header of a tensor file, as text and as a checked structure. Used by tensor_file.cc
// only.
namespace nerf {

inline constexpr uint64_t kTensorFilePrefixBytes = 8;  // the header's length, little-endian

// One tensor as the header states it, its bytes relative to the end of the header.
struct TensorEntry {
  DType dtype = DType::kF32;
  std::vector<uint32_t> shape;
  uint64_t begin = 0, end = 0;
};

struct TensorFileHeader {
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// The header's length from the file's first bytes. Errors: InvalidArgument if `prefix` is too short
// or the length exceeds the limit or the file.
absl::StatusOr<uint64_t> TensorFileHeaderLength(std::string_view prefix, uint64_t file_bytes,
                                                const std::string& path);

// Reads and checks a header: types, names, shapes against offsets, and that the tensors fill the
// payload_bytes behind it without gap or overlap. Stack and memory stay bounded whatever the text
// holds. Names that older versions wrote are replaced by today's. Errors: DataLoss if the header's
// own digest differs; InvalidArgument otherwise, naming `path` and what is wrong.
absl::StatusOr<TensorFileHeader> ParseTensorFileHeader(std::string_view text,
                                                       uint64_t payload_bytes,
                                                       const std::string& path);

// Length, JSON and padding: everything in front of the tensors.
std::string SerializeTensorFileHeader(const TensorFile& file);

// DataLoss if the tensor's bytes do not match its digest in the header.
absl::Status CheckTensorDigest(const TensorFileHeader& header, const std::string& name,
                               const Tensor& tensor, const std::string& path);

// The metadata without the digests.
std::map<std::string, std::string> TakeMetadata(TensorFileHeader&& header);

}  // namespace nerf
