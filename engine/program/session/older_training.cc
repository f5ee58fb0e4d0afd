#include "engine/program/session/older_training.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/time/time.h"
#include "common/counted.h"
#include "common/first_names.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/files/tensor_file.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFiles[] = {"checkpoint.safetensors", "model.safetensors"};

// "ngp, step 3062, 40.0 M samples, of 2026-11-23 20:15"; without what the file does not say.
std::string Origin(const std::string& path) {
  std::string text;
  if (const auto file = ReadTensorFileHeader(path); file.ok()) {
    if (const auto stored = LoadTrainState(*file, path); stored.ok()) {
      const TrainState& state = stored->state;
      text = fmt::format("{}, step {}, {:.1f} M samples, ", state.config.method, state.step,
                         static_cast<double>(state.n_trained) / 1e6);
    }
  }
  struct stat file_stat = {};
  if (stat(path.c_str(), &file_stat) != 0) return text;
  return text + absl::FormatTime("of %Y-%m-%d %H:%M", absl::TimeFromTimespec(file_stat.st_mtim),
                                 absl::LocalTimeZone());
}

size_t CountPreviews(const std::string& folder) {
  std::error_code error;
  size_t n = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    n += name.starts_with("preview_") && name.ends_with(".png") ? 1 : 0;
  }
  return n;
}

}  // namespace

std::string OverwrittenTraining(const std::string& out, const std::string& resume) {
  std::vector<std::string> names;
  for (const char* name : kFiles) {
    const fs::path path = fs::path(out) / name;
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    if (!resume.empty() && fs::equivalent(path, resume, error)) return "";
    names.emplace_back(name);
  }
  if (names.empty()) return "";
  const size_t n_previews = CountPreviews(out);
  return fmt::format(
      "overwriting {} of an earlier training in {} ({}): {}; another --out keeps {}{}",
      Counted(names.size(), "file"), out, Origin(out + "/" + names.back()), FirstNames(names),
      names.size() == 1 ? "it" : "them",
      n_previews == 0 ? "" : fmt::format("; its previews stay ({})", n_previews));
}

}  // namespace nerf
