#pragma once

#include <string>
#include <vector>

namespace nerf {

// Whether the folder, or its images/, holds pictures of any kind or films by their names.
bool HasPhotographs(const std::string& folder);

// Whether it is a file with the ending of a film.
bool IsFilm(const std::string& path);

// "photos-posed" for "photos", "photos/" and "photos.mp4"; the absolute path for "." and "..".
std::string PosedFolder(const std::string& folder);

// The photographs and films that nerf-engine pose would read, and the masks of photographs.
struct PhotographFiles {
  std::string folder;               // that all paths are relative to
  std::vector<std::string> files;   // "a.jpg", or "images/a.jpg" for all of them; sorted
  std::vector<std::string> masks;   // "masks/a.jpg.png"; sorted
  std::vector<std::string> unread;  // pictures of other kinds beside them; printable, sorted
};
// Of a folder, or of its images/ where it has no picture itself, or a film. Empty without any.
PhotographFiles FindPhotographFiles(const std::string& path);

// Whether it is a film, or a folder with pictures or films but no list of camera poses, be it of a
// program whose lists are not read.
bool IsUnposed(const std::string& folder);

// The data set to read for a folder or film that somebody named: its posed folder where it
// IsUnposed and that holds a data set, otherwise it itself.
std::string DatasetOf(const std::string& folder);

// The photographs and films of a folder that the report in its posed folder, pose.json, does not
// list: those that were added after poses were found. Printable, sorted; empty without a report
// that can be read.
std::vector<std::string> AddedPhotographs(const std::string& folder);

// "2 photographs of photos are not in photos-posed, so they are not used: a.jpg, b.jpg"; empty
// where AddedPhotographs is.
std::string AddedPhotographsText(const std::string& folder);

// "mv photos-posed photos-posed-old": the shell command after which poses are found anew. It names
// a folder that does not exist yet.
std::string SetPosedFolderAside(const std::string& folder);

}  // namespace nerf
