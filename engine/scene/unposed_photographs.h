#pragma once

#include <string>

namespace nerf {

// Whether the folder, or its images/, holds photographs or films by their names.
bool HasPhotographs(const std::string& folder);

// "photos-posed" for "photos" and "photos/"; the absolute path for "." and "..".
std::string PosedFolder(const std::string& folder);

// Whether the folder holds photographs or films, but no list of camera poses.
bool IsUnposed(const std::string& folder);

}  // namespace nerf
