#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/files/scene_files.h"

// Names that a data set's file lists, and the files on disk that they stand for. Tools write names
// that fit their own machine: with its folders, its case, its way to write an umlaut.
namespace nerf {

enum class NamedFiles {
  kPictures,    // any photograph of the data set may be meant
  kCompanions,  // masks and depths: only a file in a folder of the stated name
};

struct FoundFiles {
  // One for each name: the file, relative to the folder. NotFound: there is none.
  // FailedPrecondition: several fit (`conflict` tells). InvalidArgument: the name can't be used.
  std::vector<absl::StatusOr<std::string>> files;
  int n_other = 0;            // found under another name
  std::string example;        // "images/a.JPG for images/a.jpg", of those
  bool is_reduced = false;    // some are in images_2, images_4 or the like, in place of images
  size_t first_conflict = 0;  // index of the first name that several files fit
  std::string conflict;       // which files fit it, and what to do; empty: there is no conflict
};

// Finds the names as they are written; those that are not there are looked for in the whole folder
// under the names that differ in case, in Unicode's normal form, as .jpeg and .jpg, by folders
// before or missing from the path, by images_N for images, or by folders that became a part of the
// name ("flight 1/a.jpg" as "flight 1_a.jpg"). A name is found if exactly one file fits best. As
// long as a listed folder holds some of its files, the others are looked for in it alone: somebody
// removed them. Hidden files never fit, nor do masks and the like for pictures.
FoundFiles FindListedNames(const SceneFolder& folder, const std::vector<std::string>& names,
                           NamedFiles kind = NamedFiles::kPictures);

// "12 of 24 listed pictures were found under other names, e.g. ..."; empty if none was.
std::string OtherNamesWarning(const FoundFiles& found, std::string_view what);

// The text in lower case and in Unicode's normal form C, .jpeg as .jpg; equal for names that differ
// by these alone. Bytes that are no UTF-8 stay.
std::string FoldedName(std::string_view name);

}  // namespace nerf
