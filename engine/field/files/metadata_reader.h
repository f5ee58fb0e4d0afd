#pragma once

#include <charconv>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "engine/field/files/tensor_file.h"
#include "fmt/format.h"

namespace nerf {

// Numbers as the shortest text that reads back to the same bits, separated by spaces.
template <typename... Numbers>
std::string MetadataText(Numbers... numbers) {
  std::string text;
  ((text += fmt::format("{}{}", text.empty() ? "" : " ", numbers)), ...);
  return text;
}

// Reads typed values of a file's metadata and keeps the first error: InvalidArgument naming the
// path, where one is given, and the key.
class MetadataReader {
 public:
  explicit MetadataReader(const TensorFile& file, std::string path = "")
      : file_(file), path_(std::move(path)) {}

  absl::Status status;

  void Fail(std::string_view key, std::string_view what) {
    if (!status.ok()) return;
    status = absl::InvalidArgumentError(
        fmt::format("{}{}{}: {}", path_, path_.empty() ? "" : ": ", key, what));
  }

  bool Has(const std::string& key) const { return file_.metadata.contains(key); }

  // Empty, with an error, where the key is missing.
  const std::string& String(const std::string& key) {
    static const auto& empty = *new std::string();
    const auto found = file_.metadata.find(key);
    if (found == file_.metadata.end()) {
      Fail(key, "is missing");
      return empty;
    }
    return found->second;
  }

  // As many numbers in [min, max] as `out` has, separated by single spaces.
  template <typename Number>
  void Numbers(const std::string& key, Number min, Number max, std::initializer_list<Number*> out) {
    const std::string& text = String(key);
    if (!status.ok()) return;
    const char* at = text.data();
    const char* end = text.data() + text.size();
    bool first = true;
    for (Number* value : out) {
      if (!std::exchange(first, false)) {
        if (at == end || *at != ' ') return Fail(key, "too few numbers");
        ++at;
      }
      const auto result = std::from_chars(at, end, *value);
      if (result.ec != std::errc()) return Fail(key, "is not a number");
      at = result.ptr;
      if (!(*value >= min && *value <= max)) {
        return Fail(key, fmt::format("{} is not between {} and {}", *value, min, max));
      }
    }
    if (at != end) Fail(key, "too many characters");
  }

  template <typename Number>
  void One(const std::string& key, Number min, Number max, Number* value) {
    Numbers<Number>(key, min, max, {value});
  }

 private:
  const TensorFile& file_;
  const std::string path_;
};

}  // namespace nerf
