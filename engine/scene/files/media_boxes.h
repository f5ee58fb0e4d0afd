#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

// Boxes of the ISO base media file format (ISO/IEC 14496-12) and of pictures in it (23008-12).
namespace nerf {

constexpr int kMaxMediaBoxes = 4096;  // side by side

struct MediaBox {
  std::string_view type, content;
};

// The number of `width` bytes at `at`. Requires: they are there.
uint64_t BigEndianOf(std::string_view bytes, size_t at, size_t width);

// The boxes that lie one after the other in `bytes`; nullopt if they do not fit into it, or are
// more than kMaxMediaBoxes.
std::optional<std::vector<MediaBox>> MediaBoxesIn(std::string_view bytes);
// Whether a type of these is there twice.
bool IsRepeated(const std::vector<MediaBox>& boxes, std::initializer_list<std::string_view> types);
// Of the first box of the type; empty if there is none.
std::string_view ContentOf(const std::vector<MediaBox>& boxes, std::string_view type);

// The id of the primary picture, by the content of the box `pitm`; nullopt if it is damaged.
std::optional<uint64_t> PrimaryItem(std::string_view pitm);
// Numbers, from 1, of the properties of the item, in their order, by the content of the box `ipma`;
// nullopt if it is damaged.
std::optional<std::vector<size_t>> PropertiesOfItem(uint64_t item, std::string_view ipma);

}  // namespace nerf
