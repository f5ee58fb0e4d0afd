#include "engine/scene/files/json_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace nerf {
namespace {

void AppendUtf8(int32_t character, std::string* text) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t n = utf8proc_encode_char(character, bytes);
  text->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

std::string FromUtf16(std::string_view bytes, bool is_big) {
  const auto unit = [&](size_t i) {
    const auto first = static_cast<unsigned char>(bytes[i]),
               second = static_cast<unsigned char>(bytes[i + 1]);
    return is_big ? first << 8 | second : second << 8 | first;
  };
  constexpr int kHigh = 0xd800, kLow = 0xdc00, kEnd = 0xe000, kReplacement = 0xfffd;
  std::string text;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    int32_t character = unit(i);
    if (character >= kHigh && character < kLow && i + 3 < bytes.size() && unit(i + 2) >= kLow &&
        unit(i + 2) < kEnd) {
      character = 0x10000 + ((character - kHigh) << 10) + (unit(i + 2) - kLow);
      i += 2;
    } else if (character >= kHigh && character < kEnd) {
      character = kReplacement;
    }
    AppendUtf8(character, &text);
  }
  return text;
}

// With each byte that begins no character of UTF-8 as the character of Latin-1.
std::string WithoutInvalidUtf8(std::string text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::string repaired;
  utf8proc_ssize_t done = 0;
  for (utf8proc_ssize_t i = 0; i < size;) {
    utf8proc_int32_t ignored = 0;
    const utf8proc_ssize_t n =
        bytes[i] < 0x80 ? 1 : utf8proc_iterate(bytes + i, size - i, &ignored);
    if (n > 0) {
      i += n;
      continue;
    }
    repaired.append(text, static_cast<size_t>(done), static_cast<size_t>(i - done));
    AppendUtf8(bytes[i], &repaired);
    done = ++i;
  }
  if (done == 0) return text;
  return repaired.append(text, static_cast<size_t>(done), std::string::npos);
}

// Whether the word is one that programs write for a number that JSON cannot express: NaN,
// -Infinity, inf, -nan(ind), 1e999.
bool IsNoNumber(absl::string_view word) {
  double value = 0;
  if (!word.empty() && absl::ascii_isdigit(word.back())) {
    const bool may_be_large = word.size() > 300 || word.find_first_of("eE") != word.npos;
    return may_be_large && absl::SimpleAtod(word, &value) && !std::isfinite(value);
  }
  std::string lower = absl::AsciiStrToLower(word);
  if (absl::StartsWith(lower, "-") || absl::StartsWith(lower, "+")) lower.erase(0, 1);
  return lower == "nan" || lower == "inf" || lower == "infinity" || lower == "nan(ind)";
}

// The end of the token that begins at text[i]: a text, a comment, a word, or one character.
size_t EndOfToken(std::string_view text, size_t i) {
  size_t end = i + 1;
  const bool may_be_comment = text[i] == '/' && end < text.size();
  if (text[i] == '"') {
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
  }
  if (may_be_comment && text[end] == '/') return std::min(text.find('\n', i), text.size());
  if (may_be_comment && text[end] == '*') {
    end = text.find("*/", i + 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  if (absl::ascii_isalnum(text[i]) || text[i] == '-' || text[i] == '+') {
    while (end < text.size() &&
           (absl::ascii_isalnum(text[end]) ||
            std::string_view("+-.()").find(text[end]) != std::string_view::npos))
      ++end;
  }
  return end;
}

}  // namespace

std::string DecodedText(std::string_view bytes) {
  if (bytes.substr(0, 3) == "\xef\xbb\xbf") return std::string(bytes.substr(3));
  if (bytes.substr(0, 2) == "\xff\xfe") return FromUtf16(bytes.substr(2), /*is_big=*/false);
  if (bytes.substr(0, 2) == "\xfe\xff") return FromUtf16(bytes.substr(2), /*is_big=*/true);
  return std::string(bytes);
}

RepairedJson RepairJson(std::string_view bytes) {
  const std::string owned = WithoutInvalidUtf8(DecodedText(bytes));
  const std::string_view text = owned;
  RepairedJson repaired;
  std::string& result = repaired.text;
  result.reserve(text.size());
  constexpr size_t kNone = std::string::npos;
  size_t comma = kNone;  // in the result, if nothing but blanks and comments follow it
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const size_t end = EndOfToken(text, i);
    const std::string_view token = text.substr(i, end - i);
    line += static_cast<int>(std::count(token.begin(), token.end(), '\n'));
    const bool is_comment = token[0] == '/' && token.size() > 1;
    if ((token == "]" || token == "}") && comma != kNone) result[comma] = ' ';
    if (!is_comment && !absl::ascii_isspace(token[0])) comma = token == "," ? result.size() : kNone;
    if (token[0] != '"' && !is_comment && IsNoNumber({token.data(), token.size()})) {
      absl::StrAppend(&result, "\"\\u0001", std::string(token), "\"");
      if (repaired.n_no_numbers++ == 0) repaired.first_line = line;
    } else {
      result.append(token);
    }
    i = end;
  }
  return repaired;
}

}  // namespace nerf
