#include "common/shell_word.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_replace.h"

namespace nerf {

std::string ShellWord(std::string_view path) {
  std::string word(path);
  if (word.starts_with('-')) word.insert(0, "./");
  const auto needs_none = [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ||
           std::string_view("/._-+:,@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), needs_none)) return word;
  return "'" + absl::StrReplaceAll(word, {{"'", "'\\''"}}) + "'";
}

}  // namespace nerf
