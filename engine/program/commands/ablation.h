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

// What the runs of a variant come to, one of each seed.
struct AblationRow {
  std::string name;
  // Means over the seeds.
  double samples = 0, seconds = 0;  // of training
  double cpu_seconds = 0;           // of the whole process
  double peak_rss_bytes = 0;        // largest
  std::vector<double> psnrs;        // dB, of each seed; NaN without test views
  // Seconds of training to the PSNR that is asked for, of each seed; NaN where it is not reached.
  std::vector<double> seconds_to_psnr;
  std::string failure;  // empty: none

  double MeanPsnr() const;           // NaN without any
  double MeanSecondsToPsnr() const;  // NaN without any, or where a seed does not reach it
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

// Takes the run of one seed in.
void AddToRow(const TrainSummary& summary, double cpu_seconds, AblationRow* row);

// The table's head, and a row of it; baseline_psnr is the PSNR that others are compared with,
// target_psnr the one to which seconds are counted (0: none).
std::string AblationHead(double target_psnr);
std::string AblationLine(const AblationRow& row, double baseline_psnr);
// The same as an object of --json, without `event`.
void SetAblationRow(const AblationRow& row, JsonObject* object);

}  // namespace nerf
