#include "server/store/record_io.h"

#include <fmt/format.h>

#include "common/error_reason.h"
#include "common/packed_strings.h"

namespace nerf {

void RecordWriter::Put(std::string_view key, std::string_view value) {
  if (value.empty()) return;
  strings_.emplace_back(key);
  strings_.emplace_back(value);
}

void RecordWriter::PutNumber(std::string_view key, uint64_t value) {
  Put(key, std::to_string(value));
}

void RecordWriter::PutDouble(std::string_view key, double value) {
  Put(key, fmt::format("{}", value));  // the shortest text that reads back to the same bits
}

void RecordWriter::PutTime(std::string_view key, absl::Time value) {
  if (value != absl::InfinitePast()) Put(key, std::to_string(absl::ToUnixMicros(value)));
}

void RecordWriter::PutList(std::string_view key, const std::vector<std::string>& values) {
  Put(key, PackStrings(values));
}

void RecordWriter::PutMap(std::string_view key, const std::map<std::string, std::string>& values) {
  std::vector<std::string> strings;
  for (const auto& [name, value] : values) {
    strings.push_back(name);
    strings.push_back(value);
  }
  PutList(key, strings);
}

std::string RecordWriter::Finish() const { return PackStrings(strings_); }

RecordReader::RecordReader(std::string_view record) {
  auto strings = UnpackStrings(record);
  if (!strings.has_value() || strings->size() % 2 != 0) {
    Fail("record");
    return;
  }
  for (size_t i = 0; i < strings->size(); i += 2) {
    const auto [value, is_new] = values_.try_emplace((*strings)[i], std::move((*strings)[i + 1]));
    if (!is_new) Fail(value->first);
  }
}

std::vector<std::string> RecordReader::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

std::string RecordReader::Get(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string() : found->second;
}

double RecordReader::GetDouble(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return 0;
  const std::string& text = found->second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) Fail(key);
  return value;
}

absl::Time RecordReader::GetTime(std::string_view key) {
  if (!Has(key)) return absl::InfinitePast();
  return absl::FromUnixMicros(GetNumber<int64_t>(key));
}

std::vector<std::string> RecordReader::GetList(std::string_view key) {
  auto strings = UnpackStrings(Get(key));
  if (strings.has_value()) return *std::move(strings);
  Fail(key);
  return {};
}

std::map<std::string, std::string> RecordReader::GetMap(std::string_view key) {
  const std::vector<std::string> strings = GetList(key);
  if (strings.size() % 2 != 0) Fail(key);
  std::map<std::string, std::string> values;
  for (size_t i = 0; i + 1 < strings.size(); i += 2) values[strings[i]] = strings[i + 1];
  return values;
}

void RecordReader::Fail(std::string_view key) {
  status_.Update(
      WithReason(absl::DataLossError(fmt::format("the store holds an unreadable value of {}", key)),
                 reason::kStoreCorrupt));
}

}  // namespace nerf
