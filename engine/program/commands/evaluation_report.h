#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/made_folder.h"
#include "engine/base/config/train_config.h"
#include "engine/base/protocol/json.h"
#include "engine/program/console/command.h"
#include "engine/views/measure/evaluation.h"
#include "engine/views/measure/lpips.h"

namespace nerf {

// Flags of `train` and `eval` that say what an evaluation does besides PSNR and SSIM.
struct ScoreFlags {
  std::vector<std::string> lpips;  // files of weights
  std::string images;              // folder
};
void AddScoreOptions(CLI::App* command, ScoreFlags* flags);

// What the flags name: weights that are loaded, a folder that is made.
class ScoreOutput {
 public:
  // Errors: those of Lpips::Load and MadeFolder::Make.
  static absl::StatusOr<ScoreOutput> Open(const ScoreFlags& flags);

  const Lpips* lpips() const { return lpips_.has_value() ? &*lpips_ : nullptr; }
  // Writes the rendered view as FOLDER/NAME.png and what it is compared with as
  // FOLDER/photographs/NAME.png; nothing without --images. The name is the photograph's, with _2
  // and so on where it is taken. has_mask: alpha is a mask.
  absl::Status WriteView(const View& view, const ImageU8& rendered, Background background,
                         bool has_mask);

 private:
  std::optional<Lpips> lpips_;
  std::string images_;
  std::optional<MadeFolder> folder_;
  std::set<std::string> names_;  // written
};

// Views without a PSNR, of which every pixel is masked, come last.
void SortWorstFirst(std::vector<ImageScore>* images);

// The result as keys of --json and eval.json.
void SetEvaluation(const EvaluationResult& result, Background background, bool has_lpips,
                   JsonObject* object);

// Writes the object as FOLDER/eval.json.
absl::Status WriteEvaluation(const JsonObject& object, const std::string& folder);

}  // namespace nerf
