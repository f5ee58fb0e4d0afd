#include "engine/program/commands/event_file.h"

#include <array>
#include <bit>

namespace nerf {
namespace {

constexpr uint32_t kCastagnoli = 0x82f63b78;  // reflected
constexpr uint32_t kMaskDelta = 0xa282ead8;   // of the checksums of records

// Wire types of protobuf.
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
// Fields of Event, Summary and Summary.Value.
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kTag = 1, kSimpleValue = 2;

constexpr std::array<uint32_t, 256> CrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    table[i] = crc;
  }
  return table;
}

void PutFixed(uint64_t value, int n_bytes, std::string* out) {
  for (int i = 0; i < n_bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void PutKey(uint32_t field, uint32_t wire_type, std::string* out) {
  PutVarint(field << 3 | wire_type, out);
}

void PutBytes(uint32_t field, std::string_view bytes, std::string* out) {
  PutKey(field, kBytes, out);
  PutVarint(bytes.size(), out);
  *out += bytes;
}

std::string EventAt(double wall_seconds) {
  std::string event;
  PutKey(kWallTime, kFixed64, &event);
  PutFixed(std::bit_cast<uint64_t>(wall_seconds), 8, &event);
  return event;
}

void PutChecksum(std::string_view bytes, std::string* out) {
  PutFixed(std::rotr(Crc32c(bytes), 15) + kMaskDelta, 4, out);
}

std::string Record(std::string_view event) {
  std::string record;
  PutFixed(event.size(), 8, &record);
  PutChecksum(record, &record);
  record += event;
  PutChecksum(event, &record);
  return record;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = CrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 255];
  return ~crc;
}

std::string EventFileHead(double wall_seconds) {
  std::string event = EventAt(wall_seconds);
  PutBytes(kFileVersion, "brain.Event:2", &event);
  return Record(event);
}

std::string ScalarRecord(double wall_seconds, int64_t step, std::string_view tag, float value) {
  std::string entry, summary;
  PutBytes(kTag, tag, &entry);
  PutKey(kSimpleValue, kFixed32, &entry);
  PutFixed(std::bit_cast<uint32_t>(value), 4, &entry);
  PutBytes(kSummaryValue, entry, &summary);
  std::string event = EventAt(wall_seconds);
  PutKey(kStep, kVarint, &event);
  PutVarint(static_cast<uint64_t>(step), &event);
  PutBytes(kSummary, summary, &event);
  return Record(event);
}

}  // namespace nerf
