#pragma once

#include <string>
#include <vector>

namespace nerf {

// Whether the name has the ending of a picture that is read (JPEG, PNG, HEIC, AVIF, WebP), or of a
// film that ffmpeg may read, and is not that of a hidden file.
bool HasPhotographEnding(const std::string& name);
bool HasFilmEnding(const std::string& name);

// Whether it has the ending of a picture that has to be saved as JPEG or PNG first, as of a
// camera's raw files.
bool HasOtherPictureEnding(const std::string& name);

// Whether the folder, or its images/, holds pictures of any kind or films by their names.
bool HasPhotographs(const std::string& folder);

// Whether it is a file with the ending of a film.
bool IsFilm(const std::string& path);

// "photos-posed" for "photos", "photos/" and "photos.mp4"; the absolute path for "." and "..".
std::string PosedFolder(const std::string& folder);

// Whether it is a film, or a folder with pictures or films but no list of camera poses.
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
