#include "engine/scene/read/listed_names.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/folder_names.h"
#include "engine/base/picture_names.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxFolderDepth = 8;
constexpr size_t kMaxListedFiles = 300'000;

using Parts = std::vector<std::string>;

// The part of a path without blanks around it and without the percent signs of URLs.
std::string PlainPart(absl::string_view part) {
  part = absl::StripAsciiWhitespace(part);
  std::string plain;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '%' && i + 2 < part.size() && absl::ascii_isxdigit(part[i + 1]) &&
        absl::ascii_isxdigit(part[i + 2])) {
      plain += absl::HexStringToBytes(part.substr(i + 1, 2));
      i += 2;
    } else {
      plain += part[i];
    }
  }
  return plain;
}

// The folded folders and name of a path. "." and empty parts count for nothing; ".." takes back the
// part before it, if there is one: where a tool ran is not known.
Parts PartsOf(std::string_view name) {
  std::string slashed(name);
  std::replace(slashed.begin(), slashed.end(), '\\', '/');
  if (slashed.size() > 1 && slashed[1] == ':' && absl::ascii_isalpha(slashed[0]))
    slashed.erase(0, 2);
  Parts parts;
  for (const absl::string_view part : absl::StrSplit(slashed, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(FoldedName(PlainPart(part)));
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  return parts;
}

std::string FolderOf(const Parts& parts) {
  return parts.empty() ? "" : absl::StrJoin(parts.begin(), parts.end() - 1, "/");
}

// Whether the name is absolute or leaves the folder, so that it is of another machine.
bool IsFromElsewhere(std::string_view name) {
  std::string slashed(name);
  std::replace(slashed.begin(), slashed.end(), '\\', '/');
  const bool has_drive = slashed.size() > 2 && slashed[1] == ':' && slashed[2] == '/';
  if (slashed.empty() || slashed.find('\0') != std::string::npos) return false;
  if (slashed[0] == '/' || has_drive) return true;
  int depth = 0;
  for (const absl::string_view part : absl::StrSplit(slashed, '/')) {
    if (part.empty() || part == ".") continue;
    depth += part == ".." ? -1 : 1;
    if (depth < 0) return true;
  }
  return false;
}

// Whether the file or folder is hidden, or one that systems make beside what people keep, such as
// __MACOSX, @eaDir and $RECYCLE.BIN.
bool IsOfTheSystem(const std::string& name) {
  return name[0] == '.' || name[0] == '@' || name[0] == '$' || name == "__MACOSX";
}

bool IsCompanionFolder(const std::string& part) {
  return std::any_of(
      kCompanionFolders.begin(), kCompanionFolders.end(),
      [&](std::string_view word) { return absl::StartsWith(part, std::string(word)); });
}

// N of images_N, 1 of images; 0 of any other folder.
int ReductionOf(const std::string& folder) {
  constexpr std::string_view kPrefix = "images_";
  if (folder == "images") return 1;
  int factor = 0;
  if (!absl::StartsWith(folder, "images_") ||
      !absl::SimpleAtoi(folder.substr(kPrefix.size()), &factor) || factor < 2) {
    return 0;
  }
  return factor;
}

struct DiskFile {
  std::string path;  // relative to the data set's folder
  Parts parts;       // folded
};

// Every file of the folder that may be meant by a name, by its folded name.
class DiskFiles {
 public:
  DiskFiles(const SceneFolder& folder, NamedFiles kind) : folder_(folder), kind_(kind) {
    List("", 0);
    std::sort(files_.begin(), files_.end(),
              [](const DiskFile& a, const DiskFile& b) { return a.path < b.path; });
    for (size_t i = 0; i < files_.size(); ++i) {
      const Parts& parts = files_[i].parts;
      by_name_[parts.back()].push_back(i);
      by_stem_[StemOf(parts.back())].push_back(i);
      // Folders that the tool made a part of the name.
      for (size_t n = 2; n <= parts.size() && n <= 3; ++n)
        by_name_joined_[absl::StrJoin(parts.end() - static_cast<std::ptrdiff_t>(n), parts.end(),
                                      "_")]
            .push_back(i);
    }
  }

  const DiskFile& operator[](size_t i) const { return files_[i]; }

  // Files of that folded name; if it has no ending of a picture, with any.
  std::vector<size_t> Named(const std::string& name) const {
    std::vector<size_t> found = Find(by_name_, name);
    const bool has_ending = kind_ == NamedFiles::kPictures
                                ? HasPhotographEnding(name) || HasOtherPictureEnding(name)
                                : name.find('.') != std::string::npos;
    if (found.empty() && !has_ending) found = Find(by_stem_, name);
    return found;
  }

  // Files whose name holds folders of the listed one, or the other way round.
  std::vector<size_t> Flattened(const Parts& parts) const {
    for (size_t n = parts.size(); n >= 2; --n) {
      for (const char* between : {"_", "-", "__", " "}) {
        std::vector<size_t> found = Named(
            absl::StrJoin(parts.end() - static_cast<std::ptrdiff_t>(n), parts.end(), between));
        if (!found.empty()) return found;
      }
    }
    return Find(by_name_joined_, parts.back());
  }

 private:
  using Index = std::unordered_map<std::string, std::vector<size_t>>;

  static std::vector<size_t> Find(const Index& index, const std::string& key) {
    const auto found = index.find(key);
    return found == index.end() ? std::vector<size_t>() : found->second;
  }

  static std::string StemOf(const std::string& name) { return name.substr(0, name.rfind('.')); }

  void List(const std::string& folder, int depth) {
    std::error_code error;
    for (fs::directory_iterator it(folder_.PathOf(folder), error), end; !error && it != end;
         it.increment(error)) {
      if (files_.size() >= kMaxListedFiles) return;
      std::error_code ignored;
      const std::string name = it->path().filename().string();
      if (IsOfTheSystem(name)) continue;
      const std::string path = folder.empty() ? name : absl::StrCat(folder, "/", name);
      if (it->is_directory(ignored)) {
        const bool is_own = folder_.follows_links() || !it->is_symlink(ignored);
        if (is_own && depth < kMaxFolderDepth) List(path, depth + 1);
      } else if (kind_ == NamedFiles::kCompanions || HasPhotographEnding(name)) {
        files_.push_back({path, PartsOf(path)});
      }
    }
  }

  const SceneFolder& folder_;
  const NamedFiles kind_;
  std::vector<DiskFile> files_;
  Index by_name_, by_stem_, by_name_joined_;
};

// How many folders before their names are the same, the names included.
size_t CommonEnd(const Parts& a, const Parts& b) {
  size_t n = 1;  // the names fit, flattened or without an ending
  while (n < a.size() && n < b.size() && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  return n;
}

// Matches the names that were not found as they are written.
class NameMatcher {
 public:
  NameMatcher(const SceneFolder& folder, const std::vector<std::string>& names, NamedFiles kind,
              FoundFiles* found)
      : folder_(folder), names_(names), kind_(kind), found_(*found), disk_(folder, kind) {}

  void Match(const std::vector<size_t>& open) {
    for (size_t i = 0; i < names_.size(); ++i) {
      parts_.push_back(PartsOf(names_[i]));
      if (!found_.files[i].ok()) continue;
      taken_.emplace(*found_.files[i], i);
      settled_.insert(FolderOf(parts_[i]));
    }
    std::map<size_t, std::vector<size_t>> fitting;  // by name
    for (const size_t i : open) {
      if (parts_[i].empty()) continue;
      fitting[i] = InPlace(i);
      if (!fitting[i].empty()) settled_.insert(FolderOf(parts_[i]));
    }
    // How well the files of a folder fit that lies elsewhere: one that fits worse is another file.
    std::map<std::string, size_t> best_of_folder;
    for (auto& [i, files] : fitting) {
      const std::string folder = FolderOf(parts_[i]);
      if (settled_.contains(folder)) continue;
      files = Anywhere(i);
      if (files.empty()) continue;
      size_t& best = best_of_folder[folder];
      best = std::max(best, CommonEnd(parts_[i], disk_[files[0]].parts));
    }
    for (const auto& [i, files] : fitting) {
      const auto best = best_of_folder.find(FolderOf(parts_[i]));
      if (files.empty() || (best != best_of_folder.end() &&
                            CommonEnd(parts_[i], disk_[files[0]].parts) < best->second)) {
        continue;
      }
      MatchOne(i, files);
    }
  }

 private:
  // Files of the listed folder itself.
  std::vector<size_t> InPlace(size_t i) const {
    if (parts_[i].empty()) return {};
    std::vector<size_t> files = disk_.Named(parts_[i].back());
    const std::string folder = FolderOf(parts_[i]);
    std::erase_if(files, [&](size_t file) { return FolderOf(disk_[file].parts) != folder; });
    return files;
  }

  // Files that fit best anywhere.
  std::vector<size_t> Anywhere(size_t i) const {
    const Parts& parts = parts_[i];
    std::vector<size_t> files = disk_.Named(parts.back());
    std::erase_if(files, [&](size_t file) { return !MayBeMeant(parts, disk_[file].parts); });
    if (files.empty() && kind_ == NamedFiles::kPictures) {
      files = disk_.Flattened(parts);
      std::erase_if(files, [&](size_t file) { return !MayBeMeant(parts, disk_[file].parts); });
    }
    size_t best = 0;
    for (const size_t file : files) best = std::max(best, CommonEnd(parts, disk_[file].parts));
    std::erase_if(files, [&](size_t file) { return CommonEnd(parts, disk_[file].parts) < best; });
    return LeastReduced(std::move(files));
  }

  bool MayBeMeant(const Parts& name, const Parts& file) const {
    if (kind_ == NamedFiles::kCompanions)
      return name.size() < 2 || (file.size() > 1 && name[name.size() - 2] == file[file.size() - 2]);
    for (size_t i = 0; i + 1 < file.size(); ++i) {
      if (IsCompanionFolder(file[i]) && std::find(name.begin(), name.end(), file[i]) == name.end())
        return false;
    }
    return true;
  }

  // Of a picture in several of images, images_2, ... the one in the largest.
  std::vector<size_t> LeastReduced(std::vector<size_t> files) const {
    std::map<int, size_t> by_factor;
    for (const size_t file : files) {
      const Parts& parts = disk_[file].parts;
      const int factor = parts.size() < 2 ? 0 : ReductionOf(parts[parts.size() - 2]);
      if (factor == 0 || !by_factor.emplace(factor, file).second) return files;
    }
    if (by_factor.empty()) return files;
    return {by_factor.begin()->second};
  }

  void MatchOne(size_t i, const std::vector<size_t>& files) {
    if (files.size() > 1) {
      return Conflict(i, absl::StrCat("\"", Printable(names_[i]), "\" is not there, and ",
                                      files.size(), " files fit: ", Printable(disk_[files[0]].path),
                                      " and ", Printable(disk_[files[1]].path)));
    }
    const DiskFile& match = disk_[files[0]];
    const absl::StatusOr<std::string> file = folder_.FindFile(match.path);
    if (!file.ok()) return;
    const auto [first, is_new] = taken_.emplace(*file, i);
    if (!is_new && parts_[first->second] != parts_[i]) {
      return Conflict(
          i, absl::StrCat(Printable(*file), " fits two names: \"", Printable(names_[first->second]),
                          "\" and \"", Printable(names_[i]), "\""));
    }
    if (found_.n_other++ == 0)
      found_.example = absl::StrCat(Printable(*file), " for ", Printable(names_[i]));
    found_.is_reduced = found_.is_reduced || IsReduced(parts_[i], match.parts);
    found_.files[i] = *file;
  }

  static bool IsReduced(const Parts& name, const Parts& file) {
    if (file.size() < 2) return false;
    const std::string& folder = file[file.size() - 2];
    return ReductionOf(folder) > 1 && (name.size() < 2 || name[name.size() - 2] != folder);
  }

  void Conflict(size_t i, const std::string& message) {
    if (found_.conflict.empty()) {
      found_.first_conflict = i;
      found_.conflict = message;
    }
    found_.files[i] = absl::FailedPreconditionError(message);
  }

  const SceneFolder& folder_;
  const std::vector<std::string>& names_;
  const NamedFiles kind_;
  FoundFiles& found_;
  const DiskFiles disk_;
  std::vector<Parts> parts_;
  std::set<std::string> settled_;        // folders that hold some of their files
  std::map<std::string, size_t> taken_;  // files that were found, and their first name
};

}  // namespace

std::string FoldedName(std::string_view name) {
  std::string folded(name);
  utf8proc_uint8_t* mapped = nullptr;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
  const utf8proc_ssize_t n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(name.data()),
                   static_cast<utf8proc_ssize_t>(name.size()), &mapped, options);
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owned(mapped, std::free);
  if (n >= 0) {
    folded.assign(reinterpret_cast<const char*>(mapped), static_cast<size_t>(n));
  } else {
    absl::AsciiStrToLower(&folded);
  }
  if (absl::EndsWith(folded, ".jpeg")) folded.erase(folded.size() - 2, 1);
  return folded;
}

FoundFiles FindListedNames(const SceneFolder& folder, const std::vector<std::string>& names,
                           NamedFiles kind) {
  FoundFiles found;
  std::vector<size_t> open;
  for (size_t i = 0; i < names.size(); ++i) {
    found.files.push_back(folder.FindImage(names[i]));
    const absl::Status& status = found.files[i].status();
    if (absl::IsNotFound(status) || (!status.ok() && IsFromElsewhere(names[i]))) open.push_back(i);
  }
  if (!open.empty()) NameMatcher(folder, names, kind, &found).Match(open);
  if (!found.conflict.empty()) {
    const auto n = std::count_if(found.files.begin(), found.files.end(), [](const auto& file) {
      return absl::IsFailedPrecondition(file.status());
    });
    if (n > 1) absl::StrAppend(&found.conflict, "; so for ", n - 1, " more");
  }
  return found;
}

std::string OtherNamesWarning(const FoundFiles& found, std::string_view what) {
  if (found.n_other == 0) return "";
  return absl::StrCat(found.n_other, " of ", found.files.size(), " listed ", std::string(what),
                      " were found under other names, e.g. ", found.example,
                      found.is_reduced ? "; intrinsics are scaled to the pictures' size" : "");
}

}  // namespace nerf
