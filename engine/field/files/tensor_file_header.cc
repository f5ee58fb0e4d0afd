#include "engine/field/files/tensor_file_header.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/field/files/tensor_header_reader.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr char kDigestPrefix[] = "sha256.";
// Digest of the rest of the header, so that a corrupted step or setting is detected.
constexpr char kHeaderDigestKey[] = "sha256.__header__";

std::string Digest(const Tensor& tensor) {
  return Sha256Hex({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
}

absl::Status Invalid(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, what));
}

absl::Status Corrupt(const std::string& path, const std::string& what) {
  return WithReason(absl::DataLossError(fmt::format("{}: {}", path, what)),
                    reason::kCheckpointCorrupt);
}

// The header without tensor offsets, as one canonical text.
std::string HeaderDigest(const TensorFileHeader& header) {
  Sha256 digest;
  for (const auto& [name, tensor] : header.tensors) {
    digest.Update(fmt::format("{}:{}={}[{}]\n", name.size(), name, DTypeName(tensor.dtype),
                              fmt::join(tensor.shape, ",")));
  }
  for (const auto& [key, value] : header.metadata) {
    if (key == kHeaderDigestKey) continue;
    digest.Update(fmt::format("{}:{}={}:{}\n", key.size(), key, value.size(), value));
  }
  return digest.HexDigest();
}

// Bytes that a tensor of this shape takes; nullopt when that does not fit 64 bits.
std::optional<uint64_t> ExpectedBytes(const TensorEntry& tensor) {
  uint64_t bytes = static_cast<uint64_t>(DTypeSize(tensor.dtype));
  for (uint32_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, uint64_t{size}, &bytes)) return std::nullopt;
  }
  return bytes;
}

// Checks sizes against shapes, and that the tensors fill the file without gap or overlap.
absl::Status CheckLayout(const TensorFileHeader& header, uint64_t payload_bytes,
                         const std::string& path) {
  std::vector<std::pair<const std::string*, const TensorEntry*>> by_place;
  for (const auto& [name, tensor] : header.tensors) {
    const auto expected = ExpectedBytes(tensor);
    if (tensor.begin > tensor.end || tensor.end > payload_bytes) {
      return Invalid(path, fmt::format("tensor {} lies at [{}, {}) of {} bytes", QuotedText(name),
                                       tensor.begin, tensor.end, payload_bytes));
    }
    if (!expected.has_value() || *expected != tensor.end - tensor.begin) {
      return Invalid(path,
                     fmt::format("tensor {} of shape [{}] and dtype {} does not take {} bytes",
                                 QuotedText(name), fmt::join(tensor.shape, ", "),
                                 DTypeName(tensor.dtype), tensor.end - tensor.begin));
    }
    by_place.emplace_back(&name, &tensor);
  }
  std::sort(by_place.begin(), by_place.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  uint64_t at = 0;
  for (const auto& [name, tensor] : by_place) {
    if (tensor->begin != at) {
      return Invalid(path, fmt::format("tensor {} begins at {}, {} the one before it, which ends "
                                       "at {}",
                                       QuotedText(*name), tensor->begin,
                                       tensor->begin < at ? "inside" : "after a gap behind", at));
    }
    at = tensor->end;
  }
  if (at != payload_bytes) {
    return Invalid(path, fmt::format("{} bytes stand behind the last tensor", payload_bytes - at));
  }
  return absl::OkStatus();
}

// The name that a tensor or metadata key of an older file has today.
std::string CurrentName(std::string name) {
  for (const auto& [old_part, part] :
       {std::pair{"field.colour_mlp.", "field.color_mlp."}, {"scene.flavour", "scene.flavor"}}) {
    const size_t at = name.find(old_part);
    if (at != std::string::npos) name.replace(at, std::strlen(old_part), part);
  }
  return name;
}

template <typename Value>
std::map<std::string, Value> WithCurrentNames(std::map<std::string, Value> values) {
  std::map<std::string, Value> renamed;
  for (auto& [name, value] : values) renamed.emplace(CurrentName(name), std::move(value));
  return renamed;
}

}  // namespace

absl::StatusOr<uint64_t> TensorFileHeaderLength(std::string_view prefix, uint64_t file_bytes,
                                                const std::string& path) {
  if (prefix.size() < kTensorFilePrefixBytes) {
    return Invalid(path, fmt::format("{} bytes are no tensor file", file_bytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, prefix.data(), kTensorFilePrefixBytes);
  if (length > kMaxHeaderBytes) {
    return Invalid(
        path, fmt::format("no model or checkpoint: it does not begin as safetensors files do, with "
                          "the length of a header (at most {} bytes); nerf-engine train writes "
                          "model.safetensors",
                          kMaxHeaderBytes));
  }
  if (length > file_bytes - kTensorFilePrefixBytes) {
    return Invalid(
        path, fmt::format("cut off: a header of {} bytes in a file of {}", length, file_bytes));
  }
  return length;
}

absl::StatusOr<TensorFileHeader> ParseTensorFileHeader(std::string_view text,
                                                       uint64_t payload_bytes,
                                                       const std::string& path) {
  if (text.empty() || text.front() != '{') {
    return Invalid(path, "the header is no JSON object");
  }
  TensorHeaderReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    return Invalid(path, "header: " + (reader.error().empty() ? "no valid JSON" : reader.error()));
  }
  TensorFileHeader header = reader.TakeHeader();
  NERF_RETURN_IF_ERROR(CheckLayout(header, payload_bytes, path));
  if (const auto digest = header.metadata.find(kHeaderDigestKey);
      digest != header.metadata.end() && digest->second != HeaderDigest(header)) {
    return Corrupt(path, "the header's sha256 differs from the one stored");
  }
  for (const auto& [name, tensor] : header.tensors) {
    const auto digest = header.metadata.find(kDigestPrefix + name);
    if (digest == header.metadata.end() || !IsSha256Hex(digest->second)) {
      return Invalid(path, fmt::format("metadata lacks the sha256 of tensor {}", QuotedText(name)));
    }
  }
  header.tensors = WithCurrentNames(std::move(header.tensors));
  header.metadata = WithCurrentNames(std::move(header.metadata));
  return header;
}

absl::Status CheckTensorDigest(const TensorFileHeader& header, const std::string& name,
                               const Tensor& tensor, const std::string& path) {
  if (Digest(tensor) == header.metadata.at(kDigestPrefix + name)) {
    return absl::OkStatus();
  }
  return Corrupt(
      path, fmt::format("tensor {}: its sha256 differs from the one stored", QuotedText(name)));
}

std::map<std::string, std::string> TakeMetadata(TensorFileHeader&& header) {
  std::map<std::string, std::string> metadata = std::move(header.metadata);
  std::erase_if(metadata,
                [](const auto& entry) { return entry.first.rfind(kDigestPrefix, 0) == 0; });
  return metadata;
}

std::string SerializeTensorFileHeader(const TensorFile& file) {
  TensorFileHeader header;
  for (const auto& [key, value] : file.metadata) {
    if (key.rfind(kDigestPrefix, 0) != 0) header.metadata.emplace(key, value);
  }
  nlohmann::json json = nlohmann::json::object();
  uint64_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    NERF_CHECK(tensor.bytes.size() == tensor.n_elements() * DTypeSize(tensor.dtype));
    const uint64_t end = offset + tensor.bytes.size();
    header.tensors[name] = {tensor.dtype, tensor.shape, offset, end};
    header.metadata[kDigestPrefix + name] = Digest(tensor);
    json[name] = {{"dtype", std::string(DTypeName(tensor.dtype))},
                  {"shape", tensor.shape},
                  {"data_offsets", {offset, end}}};
    offset = end;
  }
  header.metadata[kHeaderDigestKey] = HeaderDigest(header);
  json[kTensorMetadataKey] = header.metadata;
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string prefix(kTensorFilePrefixBytes, '\0');
  std::memcpy(prefix.data(), &length, kTensorFilePrefixBytes);
  return prefix + text;
}

}  // namespace nerf
