#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/protocol/json.h"
#include "engine/base/protocol/progress.h"

namespace nerf {

// What a run of `nerf-engine ablate` varies: a key with its values. Keys are those of `train --set`
// and also method, init, init_scope, batches_ahead, threads and simd (NERF_SIMD).
struct AblationSwitch {
  std::string key;
  std::vector<std::string> values;
};

// Reads "KEY=VALUE,VALUE". Errors: InvalidArgument naming what is missing.
absl::StatusOr<AblationSwitch> ParseAblationSwitch(std::string_view text);

// A training of the ablation, apart from its seed.
struct AblationVariant {
  std::string name;                    // "baseline", or what it changes: "half_table=0 near=1"
  std::vector<std::string> arguments;  // of `nerf-engine train`
  std::vector<std::pair<std::string, std::string>> environment;  // of its process
};

// The baseline, which changes nothing, then one variant for each value of each switch or, with
// `cross`, for each combination of switches that are set to one of their values or left alone.
std::vector<AblationVariant> AblationVariants(const std::vector<AblationSwitch>& switches,
                                              bool cross);

// The name of each variant's folder: its own, without what folders cannot have. All differ.
std::vector<std::string> FolderNames(const std::vector<AblationVariant>& variants);

// A training of a variant.
struct AblationRun {
  int seed = 1;
  TrainSummary summary;
  double cpu_seconds = 0;  // of its process
  // Of training to the PSNR that is asked for; NaN where it is not reached, or not asked for.
  double seconds_to_psnr = kUnknownFigure;
  std::string folder;
};

// The trainings of a variant, one of each seed.
struct AblationRow {
  std::string name;
  std::vector<AblationRun> runs;
  std::string failure;  // of the seed after them; empty: none

  double MeanPsnr() const;  // dB; NaN without any
};

// Which columns a table has besides those of every table.
struct AblationColumns {
  double target_psnr = 0;  // dB to which seconds are counted; 0: none
  bool has_lpips = false;
};

// A training with a budget of its own: its schedule ends with it.
struct BudgetResult {
  double seconds = 0;  // of training
  double psnr = 0;     // dB
};

// Seconds to `target` dB between results of growing budgets, the first of which that reaches it is
// the last: on a line of PSNR by log(seconds). The only result's seconds if that is the first; NaN
// if none reaches it.
double SecondsToPsnr(const std::vector<BudgetResult>& results, double target);

// The table's head, and a row of it: means over the seeds, the largest memory, and the spread of
// the PSNR, "-" of one seed. baseline_psnr is the PSNR that others are compared with.
std::string AblationHead(const AblationColumns& columns);
std::string AblationLine(const AblationRow& row, double baseline_psnr,
                         const AblationColumns& columns);
// The same as an object of --json, without `event`.
void SetAblationRow(const AblationRow& row, const AblationColumns& columns, JsonObject* object);

// The table as CSV with a line for each training; figures that are not known are empty.
std::string AblationCsv(const std::vector<AblationRow>& rows);

}  // namespace nerf
