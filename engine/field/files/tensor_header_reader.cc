#include "engine/field/files/tensor_header_reader.h"

#include <array>
#include <limits>

namespace nerf {
namespace {

constexpr size_t kMaxTensors = 4096;
constexpr size_t kMaxMetadata = 8192;
constexpr size_t kMaxDimensions = 8;
constexpr size_t kMaxNameBytes = 256;

constexpr std::array<DType, 5> kDTypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32,
                                          DType::kU8};

}  // namespace

std::string QuotedText(std::string_view text) {
  std::string safe(text.substr(0, 64));
  for (char& c : safe) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "'" + safe + "'";
}

bool TensorHeaderReader::start_object(std::size_t) {
  switch (place_) {
    case Place::kStart:
      place_ = Place::kTop;
      return true;
    case Place::kTopValue:
      place_ = key_ == kTensorMetadataKey ? Place::kMetadata : Place::kTensor;
      if (place_ == Place::kTensor) tensor_ = TensorFields{};
      return true;
    default:
      return Fail("an object where none belongs");
  }
}

bool TensorHeaderReader::end_object() {
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

bool TensorHeaderReader::key(std::string& text) {
  if (text.size() > kMaxNameBytes) return Fail("a name of more than 256 bytes");
  switch (place_) {
    case Place::kTop:
      return TopKey(text);
    case Place::kMetadata:
      return MetadataKey(text);
    case Place::kTensor:
      return TensorKey(text);
    default:
      return Fail("a key where none belongs");
  }
}

bool TensorHeaderReader::TopKey(const std::string& name) {
  if (name.empty()) return Fail("a tensor without a name");
  const bool is_metadata = name == kTensorMetadataKey;
  if (is_metadata ? std::exchange(has_metadata_, true) : header_.tensors.count(name) > 0) {
    return Fail(QuotedText(name) + " is there twice");
  }
  if (!is_metadata && header_.tensors.size() == kMaxTensors) return Fail("more than 4096 tensors");
  key_ = name;
  place_ = Place::kTopValue;
  return true;
}

bool TensorHeaderReader::MetadataKey(const std::string& name) {
  if (header_.metadata.count(name) > 0) {
    return Fail("metadata " + QuotedText(name) + " is there twice");
  }
  if (header_.metadata.size() == kMaxMetadata) return Fail("too much metadata");
  metadata_key_ = name;
  return true;
}

bool TensorHeaderReader::TensorKey(const std::string& name) {
  bool* present = name == "dtype"          ? &tensor_.has_dtype
                  : name == "shape"        ? &tensor_.has_shape
                  : name == "data_offsets" ? &tensor_.has_offsets
                                           : nullptr;
  if (present == nullptr) return Fail(TensorName() + " has an unknown key " + QuotedText(name));
  if (std::exchange(*present, true)) {
    return Fail(TensorName() + " has " + QuotedText(name) + " twice");
  }
  field_ = name;
  return true;
}

bool TensorHeaderReader::string(std::string& text) {
  if (place_ == Place::kMetadata) {
    header_.metadata[metadata_key_] = std::move(text);
    return true;
  }
  if (place_ == Place::kTensor && field_ == "dtype") {
    for (DType dtype : kDTypes) {
      if (text == DTypeName(dtype)) {
        tensor_.entry.dtype = dtype;
        return true;
      }
    }
    return Fail(TensorName() + " has dtype " + QuotedText(text) +
                ", not F32, F16, BF16, I32 or U8");
  }
  return WrongType("a string");
}

bool TensorHeaderReader::start_array(std::size_t) {
  if (place_ != Place::kTensor || field_ == "dtype") return WrongType("an array");
  place_ = Place::kArray;
  return true;
}

bool TensorHeaderReader::end_array() {
  if (place_ != Place::kArray) return Fail("an array ends where none began");
  place_ = Place::kTensor;
  if (field_ == "data_offsets" && tensor_.n_offsets != 2) {
    return Fail(TensorName() + " needs two data_offsets");
  }
  return true;
}

bool TensorHeaderReader::number_unsigned(uint64_t number) {
  if (place_ != Place::kArray) return WrongType("a number");
  if (field_ == "shape") {
    if (number > std::numeric_limits<uint32_t>::max()) {
      return Fail(TensorName() + " has a dimension of 2^32 or more");
    }
    if (tensor_.entry.shape.size() == kMaxDimensions) {
      return Fail(TensorName() + " has more than 8 dimensions");
    }
    tensor_.entry.shape.push_back(static_cast<uint32_t>(number));
    return true;
  }
  if (tensor_.n_offsets == 2) return Fail(TensorName() + " needs two data_offsets");
  (tensor_.n_offsets++ == 0 ? tensor_.entry.begin : tensor_.entry.end) = number;
  return true;
}

bool TensorHeaderReader::Fail(std::string what) {
  if (error_.empty()) error_ = std::move(what);
  return false;
}

bool TensorHeaderReader::WrongType(const char* found) {
  switch (place_) {
    case Place::kMetadata:
      return Fail(fmt::format("metadata {} is {}, not a string", QuotedText(metadata_key_), found));
    case Place::kTensor:
    case Place::kArray:
      return Fail(fmt::format("{}: {} holds {}", TensorName(), field_, found));
    case Place::kTopValue:
      return Fail(fmt::format("{} is {}, not an object", QuotedText(key_), found));
    default:
      return Fail(fmt::format("{} where an object belongs", found));
  }
}

bool TensorHeaderReader::FinishTensor() {
  if (!tensor_.has_dtype || !tensor_.has_shape || !tensor_.has_offsets) {
    return Fail(TensorName() + " lacks dtype, shape or data_offsets");
  }
  header_.tensors.emplace(key_, std::move(tensor_.entry));
  return true;
}

}  // namespace nerf
