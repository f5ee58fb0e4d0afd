#include "engine/base/picture_names.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/base/folder_names.h"

namespace nerf {
namespace {

// Systems write hidden files beside pictures: "._a.jpg" is no photograph.
template <size_t n>
bool HasEnding(std::string_view name, const std::array<std::string_view, n>& endings) {
  const size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.starts_with('.')) return false;
  std::string ending(name.substr(dot));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

}  // namespace

bool HasPhotographEnding(std::string_view name) { return HasEnding(name, kPhotographEndings); }

bool HasFilmEnding(std::string_view name) { return HasEnding(name, kFilmEndings); }

bool HasOtherPictureEnding(std::string_view name) { return HasEnding(name, kOtherPictureEndings); }

}  // namespace nerf
