#include "engine/scene/files/media_boxes.h"

#include <algorithm>

namespace nerf {

uint64_t BigEndianOf(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::optional<std::vector<MediaBox>> MediaBoxesIn(std::string_view bytes) {
  std::vector<MediaBox> boxes;
  while (!bytes.empty()) {
    if (bytes.size() < 8 || boxes.size() >= kMaxMediaBoxes) return std::nullopt;
    uint64_t size = BigEndianOf(bytes, 0, 4), head = 8;
    if (size == 1) {
      if (bytes.size() < 16) return std::nullopt;
      size = BigEndianOf(bytes, 8, 8);
      head = 16;
    }
    if (size == 0) size = bytes.size();
    if (size < head || size > bytes.size()) return std::nullopt;
    boxes.push_back({bytes.substr(4, 4), bytes.substr(head, size - head)});
    bytes.remove_prefix(size);
  }
  return boxes;
}

bool IsRepeated(const std::vector<MediaBox>& boxes, std::initializer_list<std::string_view> types) {
  return std::any_of(types.begin(), types.end(), [&](std::string_view type) {
    return std::count_if(boxes.begin(), boxes.end(),
                         [&](const MediaBox& box) { return box.type == type; }) > 1;
  });
}

std::string_view ContentOf(const std::vector<MediaBox>& boxes, std::string_view type) {
  const auto found = std::find_if(boxes.begin(), boxes.end(),
                                  [&](const MediaBox& box) { return box.type == type; });
  return found == boxes.end() ? std::string_view() : found->content;
}

std::optional<uint64_t> PrimaryItem(std::string_view pitm) {
  if (pitm.size() < 4) return std::nullopt;
  const size_t width = pitm[0] == 0 ? 2 : 4;
  if (pitm.size() < 4 + width) return std::nullopt;
  return BigEndianOf(pitm, 4, width);
}

std::optional<std::vector<size_t>> PropertiesOfItem(uint64_t item, std::string_view ipma) {
  if (ipma.size() < 8) return std::nullopt;
  const size_t id_width = ipma[0] < 1 ? 2 : 4, number_width = (ipma[3] & 1) != 0 ? 2 : 1;
  const uint64_t n_items = BigEndianOf(ipma, 4, 4);
  std::vector<size_t> properties;
  size_t at = 8;
  for (uint64_t i = 0; i < n_items; ++i) {
    if (ipma.size() < at + id_width + 1) return std::nullopt;
    const uint64_t id = BigEndianOf(ipma, at, id_width);
    const auto n = static_cast<unsigned char>(ipma[at + id_width]);
    at += id_width + 1;
    if (ipma.size() < at + n * number_width) return std::nullopt;
    for (int k = 0; k < n && id == item; ++k) {
      const uint64_t number = BigEndianOf(ipma, at + k * number_width, number_width);
      properties.push_back(number & (number_width == 2 ? 0x7fff : 0x7f));
    }
    at += n * number_width;
  }
  return properties;
}

}  // namespace nerf
