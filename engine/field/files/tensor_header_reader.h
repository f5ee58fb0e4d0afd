#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/field/files/tensor_file_header.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace nerf {

// Key of the metadata beside the tensors in a header.
inline constexpr char kTensorMetadataKey[] = "__metadata__";

// Text from an untrusted file in quotes, shortened and escaped for a message.
std::string QuotedText(std::string_view text);

// Builds a TensorFileHeader while nlohmann::json::sax_parse reads its text. Stores known keys only,
// so that depth and memory stay bounded for any text. Checks names, types and counts; the caller
// checks offsets and digests.
class TensorHeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  // What is wrong with the text; empty after success.
  const std::string& error() const { return error_; }
  TensorFileHeader TakeHeader() { return std::move(header_); }

  bool start_object(std::size_t) override;
  bool end_object() override;
  bool key(std::string& text) override;
  bool string(std::string& text) override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool number_unsigned(uint64_t number) override;
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

  // The names of a new entry at the top, in the metadata and in a tensor.
  bool TopKey(const std::string& name);
  bool MetadataKey(const std::string& name);
  bool TensorKey(const std::string& name);
  bool FinishTensor();
  // Both return false, which ends the parse.
  bool Fail(std::string what);
  bool WrongType(const char* found);
  std::string TensorName() const { return "tensor " + QuotedText(key_); }

  TensorFileHeader header_;
  std::string error_;
  Place place_ = Place::kStart;
  std::string key_, metadata_key_, field_;
  TensorFields tensor_;
  bool has_metadata_ = false;
};

}  // namespace nerf
