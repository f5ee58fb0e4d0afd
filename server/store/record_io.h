#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/queue/resources/blob_ref.h"

namespace google::protobuf {
class MessageLite;
}

namespace nerf {

// The fields of a record are named once, by a function for both directions:
//   constexpr auto kSceneFields = [](auto& fields, auto& scene) {
//     fields("display_name", scene.display_name);
//     ...
//   };
// `fields` is a RecordWriter and `scene` const, or `fields` a RecordReader and `scene` not. Both
// have the same calls, which RecordReader's comment explains.

// False unless all of `text` is a number.
template <typename Number>
bool ParseNumber(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// Writes keys and values as packed strings (common/packed_strings.h), each key once. Empty values
// are left out.
class RecordWriter {
 public:
  static constexpr bool kReads = false;

  void operator()(std::string_view key, const std::string& value) { Put(key, value); }
  void operator()(std::string_view key, bool value) { Put(key, value ? "1" : "0"); }
  template <std::integral Integer>
  void operator()(std::string_view key, Integer value) {
    Put(key, std::to_string(value));
  }
  void operator()(std::string_view key, double value) { PutDouble(key, value); }
  void operator()(std::string_view key, absl::Time value);
  void operator()(std::string_view key, absl::Duration value);
  void operator()(std::string_view key, const std::vector<std::string>& values);
  void operator()(std::string_view key, const std::map<std::string, std::string>& values);
  void operator()(std::string_view key, const BlobRef& blob);
  template <typename Value>
  void operator()(std::string_view key, const std::optional<Value>& value) {
    if (value.has_value()) (*this)(key, *value);
  }
  void Message(std::string_view key, const google::protobuf::MessageLite& message);
  void Deadline(std::string_view key, absl::Time value);
  template <typename Enum>
  void AsNumber(std::string_view key, Enum value, Enum /*last*/) {
    (*this)(key, static_cast<uint32_t>(value));
  }
  template <typename Value, typename Name, typename Parse>
  void Named(std::string_view key, Value value, Name name, Parse /*parse*/) {
    Put(key, name(value));
  }
  template <typename Record, typename Fields>
  void Nested(std::string_view key, const Record& record, Fields fields) {
    Put(key, Packed(record, fields));
  }
  template <typename Record, typename Fields>
  void Nested(std::string_view key, const std::optional<Record>& record, Fields fields) {
    if (record.has_value()) Nested(key, *record, fields);
  }
  template <typename Record, typename Fields>
  void Records(std::string_view key, const std::vector<Record>& records, Fields fields) {
    std::vector<std::string> packed;
    for (const Record& record : records) packed.push_back(Packed(record, fields));
    (*this)(key, packed);
  }
  template <typename Item, typename Codec>
  void Rows(std::string_view key, const std::vector<Item>& items, Codec /*codec*/) {
    std::vector<std::string> strings;
    for (const Item& item : items) {
      const typename Codec::Cells cells = Codec::Of(item);
      strings.insert(strings.end(), cells.begin(), cells.end());
    }
    (*this)(key, strings);
  }
  bool Group(std::string_view /*key*/, bool is_there) const { return is_there; }

  void Put(std::string_view key, std::string_view value);
  void PutDouble(std::string_view key, double value);  // exact, also NaN and infinities
  std::string Finish() const;

 private:
  template <typename Record, typename Fields>
  static std::string Packed(const Record& record, Fields fields) {
    RecordWriter writer;
    fields(writer, record);
    return writer.Finish();
  }

  std::vector<std::string> strings_;
};

// Reads what RecordWriter wrote. The first unreadable value, or a key that comes twice, sets the
// status. Missing keys give an empty text or list, 0, the infinite past, an infinite duration,
// nullopt.
class RecordReader {
 public:
  static constexpr bool kReads = true;

  explicit RecordReader(std::string_view record);

  void operator()(std::string_view key, std::string& value) const { value = Get(key); }
  void operator()(std::string_view key, bool& value) { value = GetNumber<uint32_t>(key) != 0; }
  template <std::integral Integer>
  void operator()(std::string_view key, Integer& value) {
    value = GetNumber<Integer>(key);
  }
  void operator()(std::string_view key, double& value);
  void operator()(std::string_view key, absl::Time& value);  // whole microseconds
  void operator()(std::string_view key, absl::Duration& value);
  void operator()(std::string_view key, std::vector<std::string>& values);
  void operator()(std::string_view key, std::map<std::string, std::string>& values);
  void operator()(std::string_view key, BlobRef& blob);
  template <typename Value>
  void operator()(std::string_view key, std::optional<Value>& value) {
    const bool is_blob = std::same_as<Value, BlobRef>;
    value.reset();
    if (Has(is_blob ? std::string(key) + ".sha256" : std::string(key))) {
      (*this)(key, value.emplace());
    }
  }
  void Message(std::string_view key, google::protobuf::MessageLite& message);
  // A time in the infinite future is left out.
  void Deadline(std::string_view key, absl::Time& value);
  // An enumerator by its number; above `last` none is known.
  template <typename Enum>
  void AsNumber(std::string_view key, Enum& value, Enum last) {
    const auto number = GetNumber<uint32_t>(key);
    if (number > static_cast<uint32_t>(last)) return Fail(key);
    value = static_cast<Enum>(number);
  }
  // A value by its name, with functions such as JobStateName and ParseJobState.
  template <typename Value, typename Name, typename Parse>
  void Named(std::string_view key, Value& value, Name /*name*/, Parse parse) {
    auto parsed = parse(Get(key));
    if (!parsed.ok()) return Fail(key);
    value = *std::move(parsed);
  }
  // A record within the record.
  template <typename Record, typename Fields>
  void Nested(std::string_view key, Record& record, Fields fields) {
    Unpack(Get(key), record, fields);
  }
  template <typename Record, typename Fields>
  void Nested(std::string_view key, std::optional<Record>& record, Fields fields) {
    if (Has(key)) Nested(key, record.emplace(), fields);
  }
  template <typename Record, typename Fields>
  void Records(std::string_view key, std::vector<Record>& records, Fields fields) {
    for (const std::string& packed : GetList(key)) Unpack(packed, records.emplace_back(), fields);
  }
  // Items as Codec::Cells, an array of strings, one after another: Codec::Of(item) makes them,
  // Codec::Read(cells, &item) is false for cells that it does not make.
  template <typename Item, typename Codec>
  void Rows(std::string_view key, std::vector<Item>& items, Codec /*codec*/) {
    typename Codec::Cells cells;
    std::vector<std::string> strings = GetList(key);
    for (size_t i = 0; i + cells.size() <= strings.size(); i += cells.size()) {
      std::move(strings.begin() + i, strings.begin() + i + cells.size(), cells.begin());
      if (!Codec::Read(cells, &items.emplace_back())) Fail(key);
    }
  }
  // Whether keys that are written only if `is_there` are to be read; `key` is one of them.
  bool Group(std::string_view key, bool /*is_there*/) const { return Has(key); }

  bool Has(std::string_view key) const { return values_.contains(key); }
  std::vector<std::string> Keys() const;  // in alphabetical order
  std::string Get(std::string_view key) const;
  void Fail(std::string_view key);
  // OK, or DataLoss STORE_CORRUPT naming the first bad key.
  const absl::Status& status() const { return status_; }

 private:
  template <typename Number>
  Number GetNumber(std::string_view key) {
    Number value = 0;
    const auto found = values_.find(key);
    if (found != values_.end() && !ParseNumber(found->second, &value)) Fail(key);
    return value;
  }
  std::vector<std::string> GetList(std::string_view key);
  template <typename Record, typename Fields>
  void Unpack(std::string_view packed, Record& record, Fields fields) {
    RecordReader reader(packed);
    fields(reader, record);
    status_.Update(reader.status());
  }

  std::map<std::string, std::string, std::less<>> values_;
  absl::Status status_;
};

}  // namespace nerf
