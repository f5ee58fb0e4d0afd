#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace nerf {

// An array of an .npy file, as NumPy writes it: numbers of 1 to 8 bytes, in either byte order, by
// rows or by columns. Source: NumPy Enhancement Proposal 1.
struct NpyArray {
  std::vector<size_t> shape;
  bool by_columns = false;  // Fortran's order
  char kind = 'f';          // f: float, i: signed, u: unsigned
  size_t width = 4;         // bytes of a number
  bool is_big_endian = false;
  std::string_view bytes;  // of all numbers

  // Number of a matrix. Requires: shape has two axes; the indices are within them.
  double At(size_t row, size_t column) const;
};

// The array in the file's content, which it refers to. Axes of length 1 beyond the second are left
// out. Errors: InvalidArgument that says what is wrong: no .npy file, cut off, of texts or objects.
absl::StatusOr<NpyArray> ParseNpy(std::string_view bytes);

// The same without the numbers (bytes is empty), from the beginning of a file.
absl::StatusOr<NpyArray> ParseNpyHeader(std::string_view beginning);

// The content of an .npy file with the numbers as floats, [height][width]. Requires: as many
// numbers.
std::string NpyOf(size_t height, size_t width, std::span<const float> numbers);

}  // namespace nerf
