#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/problems.h"
#include "nlohmann/json.hpp"

namespace nerf {

enum class Need { kOptional, kRequired };

// Reads the keys of one JSON object and collects everything that is wrong with them, so that
// reading a message is a plain list of keys. A null counts as absent. After an error the reader
// returns an empty value and goes on.
class KeyReader {
 public:
  // `prefix` comes before each key in messages: "budget.". object outlives the reader.
  explicit KeyReader(const nlohmann::json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // Text without NUL, which would end a path early. A required one is not empty.
  std::string Text(const char* key, Need need);
  std::vector<std::string> Texts(const char* key);
  std::optional<bool> Flag(const char* key, Need need);
  // nullopt if absent, or wrong.
  std::optional<double> Number(const char* key, Need need,
                               double min = std::numeric_limits<double>::lowest(),
                               double max = std::numeric_limits<double>::max());
  // A whole number below 2^32; 0 if absent.
  uint32_t Count(const char* key, Need need);
  // Calls read(KeyReader&) for each object of the array at `key`.
  template <typename Read>
  void Objects(const char* key, Read read);

  void Fail(std::string_view key, std::string_view problem);
  // OK, or InvalidArgument FIELD_INVALID with every problem.
  absl::Status status() const { return problems_.Result(); }

 private:
  const nlohmann::json* Find(const char* key, Need need);
  // nullptr if absent, or not an array.
  const nlohmann::json* Array(const char* key);

  const nlohmann::json& object_;
  const std::string prefix_;
  Problems problems_;
};

template <typename Read>
void KeyReader::Objects(const char* key, Read read) {
  const nlohmann::json* array = Array(key);
  if (array == nullptr) return;
  for (const nlohmann::json& item : *array) {
    if (!item.is_object()) return Fail(key, "must hold objects");
    KeyReader inner(item, prefix_ + key + ".");
    read(inner);
    problems_.Add(inner.problems_);
  }
}

}  // namespace nerf
