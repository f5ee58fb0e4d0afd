#include "engine/protocol/key_reader.h"

#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kMaxKeyInMessage = 64;

}  // namespace

const nlohmann::json* KeyReader::Find(const char* key, Need need) {
  const auto found = object_.find(key);
  if (found != object_.end() && !found->is_null()) return &*found;
  if (need == Need::kRequired) Fail(key, "is missing");
  return nullptr;
}

std::string KeyReader::Text(const char* key, Need need) {
  const nlohmann::json* value = Find(key, need);
  if (value == nullptr) return "";
  if (!value->is_string()) return Fail(key, "must be a string"), "";
  auto text = value->get<std::string>();
  if (need == Need::kRequired && text.empty()) Fail(key, "must not be empty");
  if (text.find('\0') != std::string::npos) return Fail(key, "must not contain NUL"), "";
  return text;
}

bool KeyReader::OneOf(const char* key, const char* yes, const char* no, Need need) {
  const std::string text = Text(key, need);
  if (!text.empty() && text != yes && text != no) {
    Fail(key, fmt::format("must be {} or {}", yes, no));
  }
  return text == yes;
}

std::vector<std::string> KeyReader::Texts(const char* key) {
  std::vector<std::string> texts;
  const nlohmann::json* array = Array(key);
  if (array == nullptr) return texts;
  for (const nlohmann::json& item : *array) {
    if (!item.is_string()) return Fail(key, "must hold strings"), texts;
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::map<std::string, std::string> KeyReader::TextMap(const char* key, Need need) {
  std::map<std::string, std::string> texts;
  const nlohmann::json* object = Object(key, need);
  if (object == nullptr) return texts;
  for (const auto& [name, item] : object->items()) {
    if (item.is_string()) {
      texts.emplace(name, item.get<std::string>());
    } else {
      Fail(fmt::format("{}.{}", key, name.substr(0, kMaxKeyInMessage)), "must be a string");
    }
  }
  return texts;
}

std::optional<bool> KeyReader::Flag(const char* key, Need need) {
  const nlohmann::json* value = Find(key, need);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return Fail(key, "must be true or false"), std::nullopt;
  return value->get<bool>();
}

std::optional<double> KeyReader::Number(const char* key, Need need, double min, double max) {
  const nlohmann::json* value = Find(key, need);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return Fail(key, "must be a number"), std::nullopt;
  const auto number = value->get<double>();
  if (!std::isfinite(number)) return Fail(key, "must be finite"), std::nullopt;
  if (number < min || number > max) {
    Fail(key, fmt::format("{} is not between {} and {}", number, min, max));
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> KeyReader::Whole(const char* key, Need need, int64_t min, int64_t max) {
  const std::optional<double> number =
      Number(key, need, static_cast<double>(min), static_cast<double>(max));
  if (!number.has_value()) return std::nullopt;
  if (*number != std::floor(*number)) return Fail(key, "must be a whole number"), std::nullopt;
  return static_cast<int64_t>(*number);
}

uint32_t KeyReader::Count(const char* key, Need need) {
  return static_cast<uint32_t>(Whole(key, need, 0, UINT32_MAX).value_or(0));
}

const nlohmann::json* KeyReader::Object(const char* key, Need need) {
  const nlohmann::json* value = Find(key, need);
  if (value == nullptr || value->is_object()) return value;
  return Fail(key, "must be an object"), nullptr;
}

const nlohmann::json* KeyReader::Array(const char* key) {
  const nlohmann::json* value = Find(key, Need::kOptional);
  if (value == nullptr || value->is_array()) return value;
  return Fail(key, "must be an array"), nullptr;
}

void KeyReader::Fail(std::string_view key, std::string_view problem) {
  violations_.push_back({prefix_ + std::string(key), std::string(problem)});
}

void KeyReader::Merge(const KeyReader& inner) {
  violations_.insert(violations_.end(), inner.violations_.begin(), inner.violations_.end());
}

absl::Status KeyReader::status() const {
  return violations_.empty() ? absl::OkStatus() : InvalidFieldsError(violations_);
}

}  // namespace nerf
