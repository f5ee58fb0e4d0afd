#include "engine/train/tensor_file_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "common/error_reason.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr size_t kMaxTensors = 4096;
constexpr size_t kMaxMetadata = 8192;
constexpr size_t kMaxDimensions = 8;
constexpr size_t kMaxNameBytes = 256;
constexpr char kMetadataKey[] = "__metadata__";
constexpr char kDigestPrefix[] = "sha256.";
// Digest of the rest of the header, so that a corrupted step or setting is detected.
constexpr char kHeaderDigestKey[] = "sha256.__header__";

constexpr std::array<DType, 5> kDTypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32,
                                          DType::kU8};

std::string Digest(const Tensor& tensor) {
  return Sha256Hex({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
}

// Text from an untrusted file, shortened and escaped for a message.
std::string Quoted(std::string_view text) {
  std::string safe(text.substr(0, 64));
  for (char& c : safe) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "'" + safe + "'";
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

// Builds the header while the text is parsed and stores known keys only, so that depth and memory
// stay bounded for any text.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  TensorFileHeader header;
  std::string error;

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTopValue:
        place_ = key_ == kMetadataKey ? Place::kMetadata : Place::kTensor;
        if (place_ == Place::kTensor) tensor_ = TensorFields{};
        return true;
      default:
        return Fail("an object where none belongs");
    }
  }

  bool end_object() override {
    switch (place_) {
      case Place::kTop:
        place_ = Place::kEnd;
        return true;
      case Place::kMetadata:
        place_ = Place::kTop;
        return true;
      case Place::kTensor:
        place_ = Place::kTop;
        return FinishTensor();
      default:
        return Fail("an object ends where none began");
    }
  }

  bool key(std::string& text) override {
    if (text.size() > kMaxNameBytes) return Fail("a name of more than 256 bytes");
    switch (place_) {
      case Place::kTop:
        if (text.empty()) return Fail("a tensor without a name");
        if (text == kMetadataKey ? std::exchange(has_metadata_, true)
                                 : header.tensors.count(text) > 0) {
          return Fail(Quoted(text) + " stands there twice");
        }
        if (text != kMetadataKey && header.tensors.size() == kMaxTensors) {
          return Fail("more than 4096 tensors");
        }
        key_ = text;
        place_ = Place::kTopValue;
        return true;
      case Place::kMetadata:
        if (header.metadata.count(text) > 0) {
          return Fail("metadata " + Quoted(text) + " stands there twice");
        }
        if (header.metadata.size() == kMaxMetadata) return Fail("too much metadata");
        metadata_key_ = text;
        return true;
      case Place::kTensor: {
        bool* present = text == "dtype"          ? &tensor_.has_dtype
                        : text == "shape"        ? &tensor_.has_shape
                        : text == "data_offsets" ? &tensor_.has_offsets
                                                 : nullptr;
        if (present == nullptr) return Fail(Tensor() + " has an unknown key " + Quoted(text));
        if (std::exchange(*present, true)) {
          return Fail(Tensor() + " has " + Quoted(text) + " twice");
        }
        field_ = text;
        return true;
      }
      default:
        return Fail("a key where none belongs");
    }
  }

  bool string(std::string& text) override {
    if (place_ == Place::kMetadata) {
      header.metadata[metadata_key_] = std::move(text);
      return true;
    }
    if (place_ == Place::kTensor && field_ == "dtype") {
      for (DType dtype : kDTypes) {
        if (text == DTypeName(dtype)) {
          tensor_.entry.dtype = dtype;
          return true;
        }
      }
      return Fail(Tensor() + " has dtype " + Quoted(text) + ", not F32, F16, BF16, I32 or U8");
    }
    return WrongType("a string");
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || field_ == "dtype") return WrongType("an array");
    place_ = Place::kArray;
    return true;
  }

  bool end_array() override {
    if (place_ != Place::kArray) return Fail("an array ends where none began");
    place_ = Place::kTensor;
    if (field_ == "data_offsets" && tensor_.n_offsets != 2) {
      return Fail(Tensor() + " needs two data_offsets");
    }
    return true;
  }

  bool number_unsigned(uint64_t number) override {
    if (place_ != Place::kArray) return WrongType("a number");
    if (field_ == "shape") {
      if (number > std::numeric_limits<uint32_t>::max()) {
        return Fail(Tensor() + " has a dimension of 2^32 or more");
      }
      if (tensor_.entry.shape.size() == kMaxDimensions) {
        return Fail(Tensor() + " has more than 8 dimensions");
      }
      tensor_.entry.shape.push_back(static_cast<uint32_t>(number));
      return true;
    }
    if (tensor_.n_offsets == 2) return Fail(Tensor() + " needs two data_offsets");
    (tensor_.n_offsets++ == 0 ? tensor_.entry.begin : tensor_.entry.end) = number;
    return true;
  }

  bool number_integer(int64_t) override { return WrongType("a negative number"); }
  bool number_float(double, const std::string&) override { return WrongType("a fraction"); }
  bool null() override { return WrongType("null"); }
  bool boolean(bool) override { return WrongType("true or false"); }
  bool binary(nlohmann::json::binary_t&) override { return WrongType("binary"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return Fail(fmt::format("no valid JSON at byte {}", position));
  }

 private:
  enum class Place { kStart, kTop, kTopValue, kMetadata, kTensor, kArray, kEnd };
  struct TensorFields {
    TensorEntry entry;
    bool has_dtype = false, has_shape = false, has_offsets = false;
    int n_offsets = 0;
  };

  std::string Tensor() const { return "tensor " + Quoted(key_); }

  bool Fail(std::string what) {
    if (error.empty()) error = std::move(what);
    return false;
  }

  bool WrongType(const char* found) {
    switch (place_) {
      case Place::kMetadata:
        return Fail(fmt::format("metadata {} is {}, not a string", Quoted(metadata_key_), found));
      case Place::kTensor:
      case Place::kArray:
        return Fail(fmt::format("{}: {} holds {}", Tensor(), field_, found));
      case Place::kTopValue:
        return Fail(fmt::format("{} is {}, not an object", Quoted(key_), found));
      default:
        return Fail(fmt::format("{} where an object belongs", found));
    }
  }

  bool FinishTensor() {
    if (!tensor_.has_dtype || !tensor_.has_shape || !tensor_.has_offsets) {
      return Fail(Tensor() + " lacks dtype, shape or data_offsets");
    }
    header.tensors.emplace(key_, std::move(tensor_.entry));
    return true;
  }

  Place place_ = Place::kStart;
  std::string key_, metadata_key_, field_;
  TensorFields tensor_;
  bool has_metadata_ = false;
};

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
      return Invalid(path, fmt::format("tensor {} lies at [{}, {}) of {} bytes", Quoted(name),
                                       tensor.begin, tensor.end, payload_bytes));
    }
    if (!expected.has_value() || *expected != tensor.end - tensor.begin) {
      return Invalid(
          path, fmt::format("tensor {} of shape [{}] and dtype {} does not take {} bytes",
                            Quoted(name), fmt::join(tensor.shape, ", "), DTypeName(tensor.dtype),
                            tensor.end - tensor.begin));
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
                                       Quoted(*name), tensor->begin,
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
        path, fmt::format(
                  "no model or checkpoint: its header would have {} bytes, and at most {} are read",
                  length, kMaxHeaderBytes));
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
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    return Invalid(path, "header: " + (reader.error.empty() ? "no valid JSON" : reader.error));
  }
  TensorFileHeader header = std::move(reader.header);
  NERF_RETURN_IF_ERROR(CheckLayout(header, payload_bytes, path));
  if (const auto digest = header.metadata.find(kHeaderDigestKey);
      digest != header.metadata.end() && digest->second != HeaderDigest(header)) {
    return Corrupt(path, "the header's sha256 differs from the one stored");
  }
  for (const auto& [name, tensor] : header.tensors) {
    const auto digest = header.metadata.find(kDigestPrefix + name);
    if (digest == header.metadata.end() || !IsSha256Hex(digest->second)) {
      return Invalid(path, fmt::format("metadata lacks the sha256 of tensor {}", Quoted(name)));
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
  return Corrupt(path,
                 fmt::format("tensor {}: its sha256 differs from the one stored", Quoted(name)));
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
  json[kMetadataKey] = header.metadata;
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string prefix(kTensorFilePrefixBytes, '\0');
  std::memcpy(prefix.data(), &length, kTensorFilePrefixBytes);
  return prefix + text;
}

}  // namespace nerf
