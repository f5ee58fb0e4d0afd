#include "server/store/record_io.h"

#include <fmt/format.h>
#include <google/protobuf/message_lite.h>

#include "common/error_reason.h"
#include "common/messages/deterministic_bytes.h"
#include "common/packed_strings.h"

namespace nerf {

void RecordWriter::Put(std::string_view key, std::string_view value) {
  if (value.empty()) return;
  strings_.emplace_back(key);
  strings_.emplace_back(value);
}

void RecordWriter::PutDouble(std::string_view key, double value) {
  Put(key, fmt::format("{}", value));  // the shortest text that reads back to the same bits
}

void RecordWriter::operator()(std::string_view key, absl::Time value) {
  if (value != absl::InfinitePast()) Put(key, std::to_string(absl::ToUnixMicros(value)));
}

void RecordWriter::operator()(std::string_view key, absl::Duration value) {
  PutDouble(key, absl::ToDoubleSeconds(value));
}

void RecordWriter::operator()(std::string_view key, const std::vector<std::string>& values) {
  Put(key, PackStrings(values));
}

void RecordWriter::operator()(std::string_view key,
                              const std::map<std::string, std::string>& values) {
  std::vector<std::string> strings;
  for (const auto& [name, value] : values) {
    strings.push_back(name);
    strings.push_back(value);
  }
  (*this)(key, strings);
}

void RecordWriter::operator()(std::string_view key, const BlobRef& blob) {
  Put(fmt::format("{}.sha256", key), blob.sha256);
  Put(fmt::format("{}.size", key), std::to_string(blob.byte_size));
}

void RecordWriter::Message(std::string_view key, const google::protobuf::MessageLite& message) {
  Put(key, DeterministicBytes(message));
}

void RecordWriter::Deadline(std::string_view key, absl::Time value) {
  if (value != absl::InfiniteFuture()) (*this)(key, value);
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

void RecordReader::operator()(std::string_view key, double& value) {
  value = GetNumber<double>(key);
}

void RecordReader::operator()(std::string_view key, absl::Time& value) {
  value = Has(key) ? absl::FromUnixMicros(GetNumber<int64_t>(key)) : absl::InfinitePast();
}

void RecordReader::operator()(std::string_view key, absl::Duration& value) {
  value = Has(key) ? absl::Seconds(GetNumber<double>(key)) : absl::InfiniteDuration();
}

void RecordReader::operator()(std::string_view key, std::vector<std::string>& values) {
  values = GetList(key);
}

void RecordReader::operator()(std::string_view key, std::map<std::string, std::string>& values) {
  const std::vector<std::string> strings = GetList(key);
  if (strings.size() % 2 != 0) Fail(key);
  values.clear();
  for (size_t i = 0; i + 1 < strings.size(); i += 2) values[strings[i]] = strings[i + 1];
}

void RecordReader::operator()(std::string_view key, BlobRef& blob) {
  blob = {Get(fmt::format("{}.sha256", key)), GetNumber<uint64_t>(fmt::format("{}.size", key))};
}

void RecordReader::Message(std::string_view key, google::protobuf::MessageLite& message) {
  if (!message.ParseFromString(Get(key))) Fail(key);
}

void RecordReader::Deadline(std::string_view key, absl::Time& value) {
  value = absl::InfiniteFuture();
  if (Has(key)) (*this)(key, value);
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

std::vector<std::string> RecordReader::GetList(std::string_view key) {
  auto strings = UnpackStrings(Get(key));
  if (strings.has_value()) return *std::move(strings);
  Fail(key);
  return {};
}

void RecordReader::Fail(std::string_view key) {
  status_.Update(
      WithReason(absl::DataLossError(fmt::format("the store holds an unreadable value of {}", key)),
                 reason::kStoreCorrupt));
}

}  // namespace nerf
