#include "engine/base/protocol/key_reader.h"

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

uint32_t KeyReader::Count(const char* key, Need need) {
  const double number = Number(key, need, 0, UINT32_MAX).value_or(0);
  if (number != std::floor(number)) return Fail(key, "must be a whole number"), 0;
  return static_cast<uint32_t>(number);
}

const nlohmann::json* KeyReader::Array(const char* key) {
  const nlohmann::json* value = Find(key, Need::kOptional);
  if (value == nullptr || value->is_array()) return value;
  return Fail(key, "must be an array"), nullptr;
}

void KeyReader::Fail(std::string_view key, std::string_view problem) {
  problems_.Add(prefix_ + std::string(key), problem);
}

}  // namespace nerf
