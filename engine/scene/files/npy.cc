#include "engine/scene/files/npy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr uint32_t kMaxHeaderBytes = 65536;

// The value of a key in the header of an .npy file, a Python dictionary: up to the next comma
// outside of parentheses.
std::string HeaderValue(const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "'");
  const size_t colon = at == std::string::npos ? at : header.find(':', at);
  if (colon == std::string::npos) return "";
  std::string value;
  int depth = 0;
  for (size_t i = colon + 1; i < header.size(); ++i) {
    const char c = header[i];
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (depth <= 0 && (c == ',' || c == '}')) break;
    if (c != ' ') value += c;
  }
  return value;
}

// False unless the type is one of numbers: "'<f4'".
bool ReadType(const std::string& type, NpyArray* array) {
  if (type.size() != 5 || type[0] != '\'' || type[4] != '\'') return false;
  array->is_big_endian = type[1] == '>';
  array->kind = type[2];
  array->width = static_cast<size_t>(type[3] - '0');
  const bool has_order = type[1] == '<' || type[1] == '>' || type[1] == '=' || type[1] == '|';
  const bool is_number = array->kind == 'f' || array->kind == 'i' || array->kind == 'u';
  const size_t w = array->width;
  return has_order && is_number && (w == 2 || w == 4 || w == 8 || (w == 1 && array->kind != 'f'));
}

// False unless it is a tuple of lengths: "(20,17)".
bool ReadShape(const std::string& text, NpyArray* array) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return false;
  for (const absl::string_view part :
       absl::StrSplit(text.substr(1, text.size() - 2), ',', absl::SkipEmpty())) {
    uint64_t length = 0;
    if (!absl::SimpleAtoi(part, &length) || length > std::numeric_limits<uint32_t>::max())
      return false;
    array->shape.push_back(length);
  }
  while (array->shape.size() > 2 && array->shape.back() == 1) array->shape.pop_back();
  while (array->shape.size() > 2 && array->shape.front() == 1)
    array->shape.erase(array->shape.begin());
  return !array->shape.empty();
}

// *end: where the header ends.
absl::StatusOr<NpyArray> ParseHeaderOf(std::string_view bytes, size_t* end) {
  if (bytes.size() < 12 || bytes.substr(0, kNpyMagic.size()) != kNpyMagic)
    return absl::InvalidArgumentError("is no .npy file");
  const size_t length_bytes = bytes[6] >= 2 ? 4 : 2, begin = 8 + length_bytes;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  if (length > kMaxHeaderBytes || bytes.size() - begin < length)
    return absl::InvalidArgumentError("ends within its header");
  const std::string header(bytes.substr(begin, length));
  NpyArray array;
  if (!ReadType(HeaderValue(header, "descr"), &array)) {
    return absl::InvalidArgumentError(
        "must hold numbers, such as float32 or float64; this holds something else");
  }
  const std::string order = HeaderValue(header, "fortran_order");
  array.by_columns = order == "True";
  if ((order != "True" && order != "False") || !ReadShape(HeaderValue(header, "shape"), &array))
    return absl::InvalidArgumentError("has a header without shape or order");
  *end = begin + length;
  return array;
}

template <typename T>
double NumberAt(const NpyArray& array, size_t index) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, array.bytes.data() + index * sizeof(T), sizeof(T));
  if (array.is_big_endian) std::reverse(bytes, bytes + sizeof(T));
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

// Of a float of 16 bits.
double HalfAt(const NpyArray& array, size_t index) {
  const auto half = static_cast<uint32_t>(NumberAt<uint16_t>(array, index));
  const int exponent = static_cast<int>(half >> 10 & 31);
  const double sign = (half & 0x8000) != 0 ? -1 : 1, mantissa = half & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent < 31) return sign * std::ldexp(mantissa + 1024, exponent - 25);
  return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double NpyArray::At(size_t row, size_t column) const {
  const size_t index = by_columns ? column * shape[0] + row : row * shape[1] + column;
  if (kind == 'f') {
    return width == 2   ? HalfAt(*this, index)
           : width == 4 ? NumberAt<float>(*this, index)
                        : NumberAt<double>(*this, index);
  }
  if (kind == 'i') {
    return width == 1   ? NumberAt<int8_t>(*this, index)
           : width == 2 ? NumberAt<int16_t>(*this, index)
           : width == 4 ? NumberAt<int32_t>(*this, index)
                        : NumberAt<int64_t>(*this, index);
  }
  return width == 1   ? NumberAt<uint8_t>(*this, index)
         : width == 2 ? NumberAt<uint16_t>(*this, index)
         : width == 4 ? NumberAt<uint32_t>(*this, index)
                      : NumberAt<uint64_t>(*this, index);
}

absl::StatusOr<NpyArray> ParseNpyHeader(std::string_view beginning) {
  size_t end = 0;
  return ParseHeaderOf(beginning, &end);
}

absl::StatusOr<NpyArray> ParseNpy(std::string_view bytes) {
  size_t end = 0;
  NERF_ASSIGN_OR_RETURN(NpyArray array, ParseHeaderOf(bytes, &end));
  array.bytes = bytes.substr(end);
  const size_t n_numbers = array.bytes.size() / array.width;
  size_t n = 1;
  for (const size_t length : array.shape) {
    if (length > 0 && n > n_numbers / length) n = n_numbers + 1;  // more than there are
    n = n > n_numbers ? n : n * length;
  }
  if (n != n_numbers || n * array.width != array.bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("states another size than its ", array.bytes.size(), " bytes of numbers"));
  }
  return array;
}

std::string NpyOf(size_t height, size_t width, std::span<const float> numbers) {
  constexpr size_t kAlignment = 64, kVersionAndLength = 4;
  std::string header = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (", height,
                                    ", ", width, "), }");
  const size_t before = kNpyMagic.size() + kVersionAndLength;
  while ((before + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  std::string bytes(kNpyMagic);
  bytes += {1, 0, static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  return bytes;
}

}  // namespace nerf
