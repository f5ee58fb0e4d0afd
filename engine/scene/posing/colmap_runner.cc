#include "engine/scene/posing/colmap_runner.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/process/child_failure.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

constexpr size_t kMinPhotosOfLens = 5;  // for four parameters of distortion
constexpr uint64_t kMaxWrittenBytes = uint64_t{64} << 30;
constexpr uint64_t kBytesPerPixel = 60;  // that extraction holds: a picture in all its scales

}  // namespace

absl::StatusOr<ChildProcessEnd> ColmapRunner::Run(
    const std::vector<std::string>& command,
    const std::function<void(std::string_view line)>& on_line) {
  ChildProcessSpec spec;
  spec.arguments = command;
  spec.environment = {{"QT_QPA_PLATFORM", "offscreen"},
                      {"OMP_NUM_THREADS", std::to_string(threads())}};
  spec.time_limit = options_.time_limit;
  spec.max_memory_bytes = options_.max_memory_bytes;
  spec.max_file_bytes = kMaxWrittenBytes;
  return RunChildProcess(
      spec, on_line, [this] { stages_.Repeat(); }, options_.stop);
}

absl::StatusOr<ChildProcessEnd> ColmapRunner::Run(ColmapStage stage,
                                                  const std::vector<std::string>& command,
                                                  int before, int of) {
  return Run(command, [&](std::string_view line) {
    const std::optional<ColmapProgress> progress = ParseProgress(stage, line);
    if (!progress.has_value()) return;
    if (stage == ColmapStage::kMatch) {  // blocks of pairs, while the stage counts photographs
      return stages_.AdvanceTo(static_cast<double>(progress->done) / std::max(progress->of, 1));
    }
    stages_.Advance(before + progress->done, of > 0 ? of : progress->of);
  });
}

absl::Status ColmapRunner::RunOrFail(ColmapStage stage, const std::vector<std::string>& command,
                                     int before, int of) {
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end, Run(stage, command, before, of));
  return FailureOf("colmap", StageName(stage), end);
}

absl::Status ColmapRunner::Extract(const std::vector<Photo>& photos, const ExtractTask& task) {
  std::map<int, std::vector<const Photo*>> by_lens;
  size_t n_photos = 0;
  for (const Photo& photo : photos) {
    if (photo.file.empty()) continue;
    by_lens[photo.lens].push_back(&photo);
    ++n_photos;
  }
  ExtractOptions extract;
  extract.database = task.database;
  extract.images = task.images;
  extract.masks = task.masks;
  extract.list = work_ / "list.txt";
  extract.max_image_side = task.side;
  extract.max_features = task.features;
  extract.doubled = task.doubled;
  size_t n_done = 0;
  for (const auto& [lens, of_lens] : by_lens) {
    std::string names;
    double largest = 0;
    for (const Photo* photo : of_lens) {
      absl::StrAppend(&names, photo->file, "\n");
      const double reduced =
          std::min(1.0, static_cast<double>(task.side) / std::max(photo->width, photo->height));
      largest = std::max(largest, reduced * reduced * photo->width * photo->height);
    }
    const double bytes = largest * (task.doubled ? 4 : 1) * static_cast<double>(kBytesPerPixel);
    extract.threads = threads();
    if (options_.max_memory_bytes > 0) {
      const double fits = static_cast<double>(options_.max_memory_bytes) / std::max(bytes, 1.0);
      extract.threads = std::clamp(static_cast<int>(std::min(fits, 1024.0)), 1, threads());
    }
    extract.simple_lens = of_lens.size() < kMinPhotosOfLens;
    const auto known = task.lenses.find(lens);
    extract.model = known == task.lenses.end() ? "" : known->second.model;
    extract.params = known == task.lenses.end() ? "" : known->second.params;
    NERF_RETURN_IF_ERROR(WriteFileAtomically(extract.list, names));
    NERF_RETURN_IF_ERROR(RunOrFail(ColmapStage::kExtract, ExtractCommand(tool_, extract),
                                   static_cast<int>(n_done), static_cast<int>(n_photos)));
    n_done += of_lens.size();
  }
  return absl::OkStatus();
}

absl::Status ColmapRunner::MatchAll(const std::string& database) {
  return RunOrFail(ColmapStage::kMatch, MatchCommand(tool_, database, "", threads()));
}

// The importer says nothing before it has matched all pairs of a list, so it gets them in parts.
absl::Status ColmapRunner::MatchPairs(const std::string& database,
                                      const std::vector<ColmapPair>& pairs, size_t per_list) {
  const std::string list = work_ / "pairs.txt";
  for (size_t begin = 0; begin < pairs.size(); begin += per_list) {
    const size_t end = std::min(pairs.size(), begin + per_list);
    std::string lines;
    for (size_t i = begin; i < end; ++i) {
      absl::StrAppend(&lines, pairs[i].first, " ", pairs[i].second, "\n");
    }
    NERF_RETURN_IF_ERROR(WriteFileAtomically(list, lines));
    const std::vector<std::string> command = MatchCommand(tool_, database, list, threads());
    NERF_ASSIGN_OR_RETURN(const ChildProcessEnd ended, Run(command, [](std::string_view) {}));
    NERF_RETURN_IF_ERROR(FailureOf("colmap", StageName(ColmapStage::kMatch), ended));
    stages_.AdvanceTo(static_cast<double>(end) / static_cast<double>(pairs.size()));
  }
  return absl::OkStatus();
}

}  // namespace nerf
