#pragma once

#include <string>
#include <vector>

namespace nerf {

// What a path that a user names is. It is looked at once; who goes on with it gets this answer.
struct Source {
  enum class Kind {
    kMissing,
    kFile,         // no film
    kFilm,         // a file with the ending of one
    kPhotographs,  // a folder with pictures or films and no list of poses, not even one of a
                   // program whose lists are not read
    kFolder,       // any other: a data set, as far as its reader can tell
  };
  std::string path;  // as named
  Kind kind = Kind::kMissing;
  // Of a film and of photographs: where their poses are kept, "photos-posed" for "photos",
  // "photos/" and "photos.mp4" (the absolute path for "." and ".."), and whether that holds a data
  // set.
  std::string posed = {};
  bool was_posed = false;

  bool HasNoPoses() const { return kind == Kind::kFilm || kind == Kind::kPhotographs; }
  bool MustBePosed() const { return HasNoPoses() && !was_posed; }
  // The data set to read: the posed folder where it holds one, else the path itself.
  const std::string& Dataset() const { return was_posed ? posed : path; }
};
Source SourceAt(const std::string& path);

// The photographs and films of a folder that the report in its posed folder, pose.json, does not
// list: those that were added after poses were found. Printable, sorted; empty without a report
// that can be read.
std::vector<std::string> AddedPhotographs(const Source& photographs);

// "2 photographs of photos are not in photos-posed, so they are not used: a.jpg, b.jpg"; empty
// where AddedPhotographs is.
std::string AddedPhotographsText(const Source& photographs);

// "mv photos-posed photos-posed-old": the shell command after which poses are found anew. It names
// a folder that does not exist yet.
std::string SetPosedFolderAside(const Source& photographs);

}  // namespace nerf
