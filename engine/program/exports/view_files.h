#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// Where a data set is written: a new folder, or an archive (.zip). Nothing is at its place before
// PutInPlace, and nothing is left behind without it.
class ViewFiles {
 public:
  // An archive that is there is replaced. Errors: InvalidArgument where a folder is there that is
  // not empty, or is named like an archive; those of ZipFile::Create and of making folders.
  static absl::StatusOr<std::unique_ptr<ViewFiles>> Make(const std::string& path);
  virtual ~ViewFiles() = default;

  // name: in the folders images or depths, or in none. Errors: those of writing.
  virtual absl::Status Write(const std::string& name, std::string_view bytes) = 0;
  virtual absl::Status PutInPlace() = 0;
};

// Whether such a path is an archive.
bool IsArchive(std::string_view path);

}  // namespace nerf
