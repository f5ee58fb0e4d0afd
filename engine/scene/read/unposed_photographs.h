#pragma once

#include <string>
#include <vector>

namespace nerf {

// Whether the folder, or its images/, holds pictures of any kind or films by their names.
bool HasPhotographs(const std::string& folder);

// Whether it is a file with the ending of a film.
bool IsFilm(const std::string& path);

// The photographs and films that nerf-engine pose would read, and the masks of photographs.
struct PhotographFiles {
  std::string folder;               // that all paths are relative to
  std::vector<std::string> files;   // "a.jpg", or "images/a.jpg" for all of them; sorted
  std::vector<std::string> masks;   // "masks/a.jpg.png"; sorted
  std::vector<std::string> unread;  // pictures of other kinds beside them; printable, sorted
};
// Of a folder, or of its images/ where it has no picture itself, or a film. Empty without any.
PhotographFiles FindPhotographFiles(const std::string& path);

}  // namespace nerf
