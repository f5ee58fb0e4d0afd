#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace nerf {

// Writes keys and values as packed strings (common/packed_strings.h), each key once. Empty values
// are left out.
class RecordWriter {
 public:
  void Put(std::string_view key, std::string_view value);
  void PutNumber(std::string_view key, uint64_t value);
  void PutDouble(std::string_view key, double value);    // exact, also NaN and infinities
  void PutTime(std::string_view key, absl::Time value);  // whole microseconds
  void PutList(std::string_view key, const std::vector<std::string>& values);
  void PutMap(std::string_view key, const std::map<std::string, std::string>& values);
  std::string Finish() const;

 private:
  std::vector<std::string> strings_;
};

// Reads what RecordWriter wrote. Missing keys give the default. The first unreadable value, or
// a key that comes twice, sets the status.
class RecordReader {
 public:
  explicit RecordReader(std::string_view record);

  bool Has(std::string_view key) const { return values_.contains(key); }
  std::vector<std::string> Keys() const;  // in alphabetical order
  std::string Get(std::string_view key) const;
  template <typename Integer>
  Integer GetNumber(std::string_view key, Integer default_value = 0);
  double GetDouble(std::string_view key);
  absl::Time GetTime(std::string_view key);
  std::vector<std::string> GetList(std::string_view key);
  std::map<std::string, std::string> GetMap(std::string_view key);
  // Parses a name with a function such as ParseJobState.
  template <typename Value, typename Parse>
  Value GetNamed(std::string_view key, Parse parse);

  void Fail(std::string_view key);
  void Take(const absl::Status& status) { status_.Update(status); }
  // OK, or DataLoss STORE_CORRUPT naming the first bad key.
  const absl::Status& status() const { return status_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  absl::Status status_;
};

template <typename Integer>
Integer RecordReader::GetNumber(std::string_view key, Integer default_value) {
  const auto found = values_.find(key);
  if (found == values_.end()) return default_value;
  const std::string& text = found->second;
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) Fail(key);
  return value;
}

template <typename Value, typename Parse>
Value RecordReader::GetNamed(std::string_view key, Parse parse) {
  auto value = parse(Get(key));
  if (value.ok()) return *value;
  Fail(key);
  return Value{};
}

}  // namespace nerf
