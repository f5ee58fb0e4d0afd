#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text as editors, shells and exporters leave it.
namespace nerf {

// The text without a byte order mark, in UTF-8 where its mark says UTF-16.
std::string DecodedText(std::string_view bytes);

// JSON that a parser takes.
struct RepairedJson {
  std::string text;
  size_t n_no_numbers = 0;  // NaN, infinities and numbers beyond a double
  int first_line = 0;       // of the first of them
};

// Begins the text that stands for such a number, which it holds as it was written.
inline constexpr char kNoNumber[] = "\x01";

// DecodedText, with texts in place of numbers that JSON cannot express, so that they are errors
// only where a number is read; without commas before a closing bracket; bytes that are no UTF-8 are
// read as Latin-1. Comments stay.
RepairedJson RepairJson(std::string_view bytes);

}  // namespace nerf
