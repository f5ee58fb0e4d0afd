#include "engine/field/files/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/base/half_float.h"
#include "engine/field/files/tensor_file_header.h"
#include "fmt/format.h"

namespace nerf {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

std::string_view BytesView(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A regular file that is open for reading.
struct OpenFile {
  UniqueFd fd;
  uint64_t size = 0;
  std::string path;

  absl::Status Read(uint64_t offset, uint64_t size_wanted, char* bytes) const {
    while (size_wanted > 0) {
      const ssize_t n = pread(fd.get(), bytes, size_wanted, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoToStatus(errno, "read " + path);
      if (n == 0) return absl::InvalidArgumentError(path + ": became shorter while it was read");
      bytes += n;
      offset += static_cast<uint64_t>(n);
      size_wanted -= static_cast<uint64_t>(n);
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<OpenFile> OpenRegular(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not block before fstat identifies it.
  OpenFile file{UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), 0, path};
  if (!file.fd.ok() && errno == ENOENT)
    return absl::NotFoundError(path + ": there is no such file");
  if (!file.fd.ok()) return ErrnoToStatus(errno, "open " + path);
  struct stat stat_result = {};
  if (fstat(file.fd.get(), &stat_result) != 0) return ErrnoToStatus(errno, "stat " + path);
  if (S_ISDIR(stat_result.st_mode))
    return absl::InvalidArgumentError(path + ": is a folder; a file is needed");
  if (!S_ISREG(stat_result.st_mode))
    return absl::InvalidArgumentError(path + ": is not a regular file");
  file.size = static_cast<uint64_t>(stat_result.st_size);
  return file;
}

absl::StatusOr<std::pair<TensorFileHeader, uint64_t>> ReadHeader(const OpenFile& file) {
  std::string prefix(std::min(kTensorFilePrefixBytes, file.size), '\0');
  NERF_RETURN_IF_ERROR(file.Read(0, prefix.size(), prefix.data()));
  NERF_ASSIGN_OR_RETURN(uint64_t length, TensorFileHeaderLength(prefix, file.size, file.path));
  std::string text(length, '\0');
  NERF_RETURN_IF_ERROR(file.Read(kTensorFilePrefixBytes, length, text.data()));
  const uint64_t payload = kTensorFilePrefixBytes + length;
  NERF_ASSIGN_OR_RETURN(TensorFileHeader header,
                        ParseTensorFileHeader(text, file.size - payload, file.path));
  return std::pair(std::move(header), payload);
}

}  // namespace

int DTypeSize(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kI32:
      return "I32";
    case DType::kU8:
      return "U8";
  }
  return "";
}

size_t Tensor::n_elements() const {
  size_t n = 1;
  for (uint32_t size : shape) n *= size;
  return n;
}

std::string SerializeTensorFile(const TensorFile& file) {
  std::string bytes = SerializeTensorFileHeader(file);
  for (const auto& [name, tensor] : file.tensors) bytes.append(BytesView(tensor.bytes));
  return bytes;
}

absl::Status WriteTensorFile(const TensorFile& file, const std::string& path) {
  NERF_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create(path));
  NERF_RETURN_IF_ERROR(out.Append(SerializeTensorFileHeader(file)));
  for (const auto& [name, tensor] : file.tensors) {
    NERF_RETURN_IF_ERROR(out.Append(BytesView(tensor.bytes)));
  }
  return out.Commit();
}

absl::StatusOr<TensorFile> ParseTensorFile(std::string_view bytes, const std::string& path) {
  NERF_ASSIGN_OR_RETURN(
      uint64_t length,
      TensorFileHeaderLength(bytes.substr(0, kTensorFilePrefixBytes), bytes.size(), path));
  const std::string_view payload = bytes.substr(kTensorFilePrefixBytes + length);
  NERF_ASSIGN_OR_RETURN(
      TensorFileHeader header,
      ParseTensorFileHeader(bytes.substr(kTensorFilePrefixBytes, length), payload.size(), path));
  TensorFile file;
  for (const auto& [name, entry] : header.tensors) {
    Tensor tensor{entry.dtype, entry.shape, {}};
    tensor.bytes.assign(payload.begin() + static_cast<ptrdiff_t>(entry.begin),
                        payload.begin() + static_cast<ptrdiff_t>(entry.end));
    NERF_RETURN_IF_ERROR(CheckTensorDigest(header, name, tensor, path));
    file.tensors.emplace(name, std::move(tensor));
  }
  file.metadata = TakeMetadata(std::move(header));
  return file;
}

absl::StatusOr<TensorFile> ReadTensorFile(const std::string& path) {
  NERF_ASSIGN_OR_RETURN(OpenFile in, OpenRegular(path));
  NERF_ASSIGN_OR_RETURN(auto header_or, ReadHeader(in));
  TensorFileHeader& header = header_or.first;
  const uint64_t payload = header_or.second;
  TensorFile file;
  for (const auto& [name, entry] : header.tensors) {
    Tensor tensor{entry.dtype, entry.shape, {}};
    tensor.bytes.resize(entry.end - entry.begin);
    NERF_RETURN_IF_ERROR(in.Read(payload + entry.begin, tensor.bytes.size(),
                                 reinterpret_cast<char*>(tensor.bytes.data())));
    NERF_RETURN_IF_ERROR(CheckTensorDigest(header, name, tensor, path));
    file.tensors.emplace(name, std::move(tensor));
  }
  file.metadata = TakeMetadata(std::move(header));
  return file;
}

absl::StatusOr<TensorFile> ReadTensorFileHeader(const std::string& path) {
  NERF_ASSIGN_OR_RETURN(OpenFile in, OpenRegular(path));
  NERF_ASSIGN_OR_RETURN(auto header, ReadHeader(in));
  TensorFile file;
  for (const auto& [name, entry] : header.first.tensors) {
    file.tensors.emplace(name, Tensor{entry.dtype, entry.shape, {}});
  }
  file.metadata = TakeMetadata(std::move(header.first));
  return file;
}

Tensor TensorFromFloats(const float* values, std::vector<uint32_t> shape, DType dtype) {
  NERF_CHECK(dtype == DType::kF32 || dtype == DType::kF16);
  Tensor tensor{dtype, std::move(shape), {}};
  const size_t n = tensor.n_elements();
  tensor.bytes.resize(n * static_cast<size_t>(DTypeSize(dtype)));
  if (n == 0) return tensor;
  if (dtype == DType::kF32) {
    std::memcpy(tensor.bytes.data(), values, tensor.bytes.size());
    return tensor;
  }
  for (size_t i = 0; i < n; ++i) {
    const uint16_t half = FloatToHalf(values[i]);
    std::memcpy(&tensor.bytes[2 * i], &half, 2);
  }
  return tensor;
}

std::vector<float> ToFloats(const Tensor& tensor) {
  NERF_CHECK(tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 ||
             tensor.dtype == DType::kBF16);
  std::vector<float> values(tensor.n_elements());
  NERF_CHECK(tensor.bytes.size() == values.size() * static_cast<size_t>(DTypeSize(tensor.dtype)));
  if (values.empty()) return values;
  if (tensor.dtype == DType::kF32) {
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, &tensor.bytes[2 * i], 2);
    values[i] = tensor.dtype == DType::kF16 ? HalfToFloat(half)
                                            : std::bit_cast<float>(uint32_t{half} << 16);
  }
  return values;
}

float RoundToHalf(float value) { return HalfToFloat(FloatToHalf(value)); }

}  // namespace nerf
