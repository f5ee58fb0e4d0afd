#include "engine/scene/judge/judge_companions.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/counted.h"
#include "engine/base/picture_names.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 3;          // of folders that are looked into
constexpr size_t kMaxFiles = 50'000;  // that are looked at
constexpr std::array<std::string_view, 4> kMaskWords = {"mask", "matte", "segmentation",
                                                        "silhouette"};
constexpr std::array<std::string_view, 1> kDepthWords = {"depth"};

// Files that are masks or depths by their names.
struct Companions {
  std::vector<std::string> masks, depths;
};

// As a word of its own, also in the plural: "0001_mask.png", "masks", not "masked".
bool IsWordAt(const std::string& lower, size_t at, size_t length) {
  const auto is_letter = [&](size_t i) {
    return i < lower.size() && absl::ascii_isalpha(static_cast<unsigned char>(lower[i]));
  };
  size_t end = at + length;
  if (end < lower.size() && lower[end] == 's') ++end;
  return (at == 0 || !is_letter(at - 1)) && !is_letter(end);
}

template <size_t n>
bool HoldsWord(const std::string& lower, const std::array<std::string_view, n>& words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    const size_t at = lower.find(word);
    return at != std::string::npos && IsWordAt(lower, at, word.size());
  });
}

bool IsDepthEnding(const std::string& lower) {
  return absl::EndsWith(lower, ".png") || absl::EndsWith(lower, ".npy") ||
         absl::EndsWith(lower, ".exr") || absl::EndsWith(lower, ".tif") ||
         absl::EndsWith(lower, ".tiff") || absl::EndsWith(lower, ".pfm");
}

// Adds those of a folder. is_masks, is_depths: the folder's name or one above says so.
void Collect(const SceneFolder& folder, const std::string& in, int depth, bool is_masks,
             bool is_depths, size_t* n_files, Companions* found) {
  std::error_code error;
  for (fs::directory_iterator it(folder.PathOf(in), error), end; !error && it != end;
       it.increment(error)) {
    if (++*n_files > kMaxFiles) return;
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (name[0] == '.' || (it->is_symlink(ignored) && !folder.follows_links())) continue;
    const std::string path = in.empty() ? name : absl::StrCat(in, "/", name);
    const std::string lower = absl::AsciiStrToLower(name);
    if (it->is_directory(ignored)) {
      if (depth < kMaxDepth) {
        Collect(folder, path, depth + 1, is_masks || HoldsWord(lower, kMaskWords),
                is_depths || HoldsWord(lower, kDepthWords), n_files, found);
      }
      continue;
    }
    const bool is_picture = HasPhotographEnding(name) || HasOtherPictureEnding(name);
    if (is_picture && (is_masks || HoldsWord(lower, kMaskWords))) found->masks.push_back(path);
    // By the folder alone: pictures of depths for people lie among the photographs.
    if (is_depths && !is_masks && IsDepthEnding(lower)) found->depths.push_back(path);
  }
}

// Those that are not in `used`, sorted.
std::vector<std::string> Unused(std::vector<std::string> files, const std::set<std::string>& used) {
  std::erase_if(files, [&](const std::string& file) { return used.contains(file); });
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

void JudgeCompanions(const SceneFolder& folder, const SceneDescription& description,
                     Verdicts* verdicts) {
  std::set<std::string> used;
  size_t n_views = 0, n_masked = 0, n_inverted = 0, n_deep = 0;
  std::string first_inverted;
  for (const auto* views : {&description.train, &description.test}) {
    for (const ViewDescription& view : *views) {
      ++n_views;
      used.insert(view.file);
      used.insert(view.mask_file);
      used.insert(view.depth.file);
      n_masked += !view.mask_file.empty();
      n_deep += !view.depth.file.empty();
      if (view.mask_is_inverted && n_inverted++ == 0) first_inverted = view.mask_file;
    }
  }
  if (n_views == 0) return;
  if (n_inverted > 0) {
    verdicts->Warn({first_inverted, "",
                    absl::StrCat(Counted(n_inverted, "picture"),
                                 n_inverted == 1 ? " has a dynamic mask" : " have dynamic masks",
                                 " of instant-ngp's kind, used as it does"),
                    "white is left out"});
  }
  Companions found;
  size_t n_files = 0;
  Collect(folder, "", 0, false, false, &n_files, &found);
  const std::vector<std::string> masks = Unused(std::move(found.masks), used);
  const std::vector<std::string> depths = Unused(std::move(found.depths), used);
  // Masks of pictures that have no pose are no surprise.
  if (!masks.empty() && 2 * n_masked < n_views) {
    verdicts->Warn(
        {masks[0], "",
         absl::StrCat(Counted(masks.size(), "picture"),
                      masks.size() == 1 ? " looks like a mask and is" : " look like masks and are",
                      " not used"),
         "masks are masks/NAME.png beside images/NAME.jpg, or mask_path in a frame; "
         "white is what counts"});
  }
  // Polycam's raw captures have depths, which cannot be named.
  const bool may_name_depths = !absl::EndsWith(description.source, "(Polycam)");
  if (may_name_depths && !depths.empty() && 2 * n_deep < n_views) {
    verdicts->Warn({depths[0], "",
                    absl::StrCat(Counted(depths.size(), "file"),
                                 depths.size() == 1 ? " looks like depths and is"
                                                    : " look like depths and are",
                                 " not used"),
                    "depths are depth_file_path in a frame of transforms.json"});
  }
}

}  // namespace nerf
