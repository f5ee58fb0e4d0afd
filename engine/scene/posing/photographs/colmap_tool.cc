#include "engine/scene/posing/photographs/colmap_tool.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/error_reason.h"
#include "common/process/child_failure.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/posing/photographs/photographs.h"

namespace nerf {
namespace {

constexpr absl::Duration kHelpLimit = absl::Seconds(30);
// Pairs of 8 x 8 photographs: a line of progress after each. COLMAP's own 50 x 50 take minutes.
constexpr int kMatchBlock = 8;

// What CommandsForCopying prints once the photographs are in OUT/images.
constexpr char kColmapByHand[] =
    R"(  colmap feature_extractor --database_path OUT/database.db --image_path OUT/images \
      --ImageReader.single_camera 1 --ImageReader.camera_model OPENCV \
      --SiftExtraction.use_gpu 0 --SiftExtraction.max_image_size 2000
  colmap exhaustive_matcher --database_path OUT/database.db --SiftMatching.use_gpu 0 \
      --ExhaustiveMatching.block_size 8
  colmap mapper --database_path OUT/database.db --image_path OUT/images --output_path OUT/models
  for m in OUT/models/*; do echo "$m"; colmap model_analyzer --path "$m" 2>&1 |
      grep Registered; done
  colmap bundle_adjuster --input_path OUT/models/0 --output_path OUT/sparse/0 \
      --BundleAdjustment.refine_principal_point 1   # models/N with the most images
)";

absl::string_view AsAbsl(std::string_view text) { return {text.data(), text.size()}; }

absl::StatusOr<std::string> HelpOf(const std::string& program, const std::string& command) {
  ChildProcessSpec spec;
  spec.arguments = {program, command, "-h"};
  if (command.empty()) spec.arguments = {program, "-h"};
  spec.time_limit = kHelpLimit;
  std::string help;
  const auto keep = [&](std::string_view line) { help.append(line).append("\n"); };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end, RunChildProcess(spec, keep, nullptr, {}));
  if (end.kind != ChildProcessEnd::Kind::kExited) {
    return FailureOf(program, "saying which flags it has", end);
  }
  return help;
}

// Which of two prefixes the flag has in this version.
absl::StatusOr<std::string> PrefixIn(const std::string& help, const std::string& program,
                                     const std::string& version, const char* old_prefix,
                                     const char* new_prefix) {
  for (const char* prefix : {old_prefix, new_prefix}) {
    if (help.find(absl::StrCat("--", prefix, ".use_gpu")) != std::string::npos) return prefix;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      program, ": COLMAP ", version, " has neither --", old_prefix, ".use_gpu nor --", new_prefix,
      ".use_gpu; 3.8 is the version that was tried, newer ones up to 3.12 should work"));
}

bool Says(const std::string& output, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* w) { return output.find(w) != std::string::npos; });
}

// "[3/50" of "Processed file [3/50]".
std::optional<ColmapProgress> FractionAfter(std::string_view line, std::string_view prefix) {
  const size_t at = line.find(prefix);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + prefix.size());
  const size_t slash = rest.find('/');
  const size_t end = rest.find_first_of("],", slash == std::string_view::npos ? 0 : slash);
  ColmapProgress progress;
  if (slash == std::string_view::npos || end == std::string_view::npos ||
      !absl::SimpleAtoi(AsAbsl(rest.substr(0, slash)), &progress.done) ||
      !absl::SimpleAtoi(AsAbsl(rest.substr(slash + 1, end - slash - 1)), &progress.of) ||
      progress.done < 0 || progress.of < progress.done) {
    return std::nullopt;
  }
  return progress;
}

}  // namespace

absl::StatusOr<ColmapTool> FindColmap(const std::string& program) {
  ColmapTool tool;
  const absl::StatusOr<std::string> path = FindProgram(program);
  if (!path.ok()) {
    return WithReason(absl::UnimplementedError(absl::StrCat(
                          program,
                          " is not installed, and it finds where photographs were taken: apt-get "
                          "install colmap")),
                      reason::kFeatureNotBuilt);
  }
  tool.program = *path;
  NERF_ASSIGN_OR_RETURN(const std::string help, HelpOf(tool.program, ""));
  const size_t at = help.find("COLMAP ");
  if (at == std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat(tool.program, ": is not COLMAP: its help does not name it"));
  }
  const size_t begin = at + std::strlen("COLMAP ");
  tool.version =
      Printable(help.substr(begin, std::min<size_t>(help.find_first_of(" \n", begin) - begin, 32)));
  NERF_ASSIGN_OR_RETURN(const std::string extraction, HelpOf(tool.program, "feature_extractor"));
  NERF_ASSIGN_OR_RETURN(tool.extraction_prefix, PrefixIn(extraction, tool.program, tool.version,
                                                         "SiftExtraction", "FeatureExtraction"));
  NERF_ASSIGN_OR_RETURN(const std::string matching, HelpOf(tool.program, "exhaustive_matcher"));
  NERF_ASSIGN_OR_RETURN(tool.matching_prefix, PrefixIn(matching, tool.program, tool.version,
                                                       "SiftMatching", "FeatureMatching"));
  NERF_ASSIGN_OR_RETURN(const std::string mapping, HelpOf(tool.program, "mapper"));
  for (std::string* flag : {&tool.fix_existing, &tool.snapshots_every}) {
    const std::string since_rigs = absl::StrReplaceAll(*flag, {{"images", "frames"}});
    if (absl::StrContains(mapping, "--" + since_rigs)) *flag = since_rigs;
  }
  return tool;
}

std::string_view StageName(ColmapStage stage) {
  switch (stage) {
    case ColmapStage::kExtract:
      return "extracting features";
    case ColmapStage::kMatch:
      return "matching features";
    case ColmapStage::kMap:
      return "placing cameras";
    case ColmapStage::kRefine:
      return "refining cameras";
  }
  return "";
}

std::vector<std::string> ExtractCommand(const ColmapTool& tool, const ExtractOptions& options) {
  std::vector<std::string> command = {tool.program, "feature_extractor"};
  const auto add = [&](const std::string& flag, const std::string& value) {
    command.push_back("--" + flag);
    command.push_back(value);
  };
  add("database_path", options.database);
  add("image_path", options.images);
  add("image_list_path", options.list);
  add("ImageReader.single_camera", "1");
  const char* unknown = options.simple_lens ? "SIMPLE_RADIAL" : "OPENCV";
  add("ImageReader.camera_model", options.model.empty() ? unknown : options.model);
  if (!options.params.empty()) add("ImageReader.camera_params", options.params);
  if (!options.masks.empty()) add("ImageReader.mask_path", options.masks);
  // Its GPU code needs a display, and ends with signal 6 where there is none.
  add(tool.extraction_prefix + ".use_gpu", "0");
  add(tool.extraction_prefix + ".num_threads", std::to_string(options.threads));
  add(tool.extraction_prefix + ".max_image_size", std::to_string(options.max_image_side));
  add("SiftExtraction.max_num_features", std::to_string(options.max_features));
  if (!options.doubled) add("SiftExtraction.first_octave", "0");
  return command;
}

std::vector<std::string> MatchCommand(const ColmapTool& tool, const std::string& database,
                                      const std::string& pairs, int threads) {
  std::vector<std::string> command = {tool.program,
                                      pairs.empty() ? "exhaustive_matcher" : "matches_importer",
                                      "--database_path", database};
  if (pairs.empty()) {
    command.insert(command.end(), {"--ExhaustiveMatching.block_size", std::to_string(kMatchBlock)});
  } else {
    command.insert(command.end(), {"--match_list_path", pairs, "--match_type", "pairs"});
  }
  command.insert(command.end(),
                 {"--" + tool.matching_prefix + ".use_gpu", "0",
                  "--" + tool.matching_prefix + ".num_threads", std::to_string(threads)});
  return command;
}

std::vector<std::string> MapCommand(const ColmapTool& tool, const MapOptions& options) {
  std::vector<std::string> command = {tool.program,
                                      "mapper",
                                      "--database_path",
                                      options.database,
                                      "--image_path",
                                      options.images,
                                      "--output_path",
                                      options.out,
                                      "--Mapper.num_threads",
                                      std::to_string(options.threads),
                                      "--Mapper.extract_colors",
                                      "1"};
  if (options.relaxed) {
    command.insert(
        command.end(),
        {"--Mapper.min_num_matches", "10", "--Mapper.init_min_tri_angle", "6",
         "--Mapper.init_min_num_inliers", "50", "--Mapper.abs_pose_min_num_inliers", "15",
         "--Mapper.abs_pose_min_inlier_ratio", "0.15", "--Mapper.max_reg_trials", "6"});
  }
  if (!options.in.empty()) {
    command.insert(command.end(), {"--input_path", options.in, "--" + tool.fix_existing, "1",
                                   "--Mapper.max_extra_param", std::to_string(kMaxExtraParam)});
  }
  if (!options.snapshots.empty()) {
    command.insert(command.end(),
                   {"--Mapper.snapshot_path", options.snapshots, "--" + tool.snapshots_every,
                    std::to_string(options.snapshot_every)});
  }
  if (options.known_lenses) {
    command.insert(command.end(), {"--Mapper.ba_refine_focal_length", "0",
                                   "--Mapper.ba_refine_extra_params", "0"});
  }
  return command;
}

std::vector<std::string> TriangulateCommand(const ColmapTool& tool, const std::string& database,
                                            const std::string& images, const std::string& in,
                                            const std::string& out) {
  return {tool.program,      "point_triangulator",
          "--database_path", database,
          "--image_path",    images,
          "--input_path",    in,
          "--output_path",   out};
}

std::vector<std::string> RefineRigCommand(const ColmapTool& tool, const std::string& in,
                                          const std::string& out, const std::string& config) {
  return {tool.program,
          "rig_bundle_adjuster",
          "--input_path",
          in,
          "--output_path",
          out,
          "--rig_config_path",
          config,
          "--estimate_rig_relative_poses",
          "0",
          "--RigBundleAdjustment.refine_relative_poses",
          "0",
          "--BundleAdjustment.refine_focal_length",
          "0",
          "--BundleAdjustment.refine_extra_params",
          "0",
          "--BundleAdjustment.max_num_iterations",
          std::to_string(kMaxRefinements)};
}

std::vector<std::string> RefineCommand(const ColmapTool& tool, const std::string& in,
                                       const std::string& out) {
  return {tool.program,
          "bundle_adjuster",
          "--input_path",
          in,
          "--output_path",
          out,
          "--BundleAdjustment.refine_principal_point",
          "1",
          "--BundleAdjustment.max_num_iterations",
          std::to_string(kMaxRefinements)};
}

std::string CommandsForCopying(const std::string& source, const std::string& out) {
  const std::string to = ShellWord(out);
  std::string commands =
      absl::StrCat("  mkdir -p ", to, "/images ", to, "/models ", to, "/sparse/0\n");
  const absl::StatusOr<PhotoSources> sources = ListPhotoSources(source);
  if (sources.ok()) {
    // "photos/*.jpg": one word for each folder and ending, as it is spelled.
    std::set<std::string> patterns;
    for (const PhotoSources::Picture& picture : sources->pictures) {
      const std::filesystem::path path = picture.path;
      patterns.insert(
          absl::StrCat(ShellWord(path.parent_path().string()), "/*", path.extension().string()));
    }
    if (!patterns.empty()) {
      absl::StrAppend(&commands, "  cp ", absl::StrJoin(patterns, " "), " ", to, "/images/\n");
    }
    for (const std::string& film : sources->films) {
      const std::string frames =
          absl::StrCat(out, "/images/", std::filesystem::path(film).stem().string(), "_");
      absl::StrAppend(&commands, "  ffmpeg -i ", ShellWord(film), " -vf fps=2 -q:v 2 ",
                      ShellWord(frames), "%04d.jpg\n");
    }
  }
  absl::StrAppend(&commands, absl::StrReplaceAll(kColmapByHand, {{"OUT/", to + "/"}}),
                  "  nerfctl train ", to, "\n");
  return commands;
}

std::optional<ColmapProgress> ParseProgress(ColmapStage stage, std::string_view line) {
  switch (stage) {
    case ColmapStage::kExtract:
      return FractionAfter(line, "Processed file [");
    case ColmapStage::kMatch: {
      // "Matching block [2/7, 3/7]" of all pairs, "Matching block [2/7]" of a list. Newer versions
      // say "Processing block".
      std::optional<ColmapProgress> outer = FractionAfter(line, "Matching block [");
      if (!outer.has_value()) outer = FractionAfter(line, "Processing block [");
      if (!outer.has_value()) return std::nullopt;
      const size_t comma = line.find(", ");
      if (comma == std::string_view::npos) return outer;
      const std::optional<ColmapProgress> inner = FractionAfter(line.substr(comma), ", ");
      if (!inner.has_value() || inner->of != outer->of || outer->done < 1) return outer;
      return ColmapProgress{(outer->done - 1) * outer->of + inner->done, outer->of * outer->of};
    }
    case ColmapStage::kMap: {
      // "Registering image #12 (5)": the fifth of the model. Since 3.12 "(num_reg_frames=4)": four
      // are in the model.
      const std::string_view kPrefix = "Registering image #", kFrames = "num_reg_frames=";
      const size_t at = line.find(kPrefix);
      if (at == std::string_view::npos) return std::nullopt;
      const size_t open = line.find('(', at), close = line.find(')', at);
      if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
        return std::nullopt;
      }
      std::string_view number = line.substr(open + 1, close - open - 1);
      if (number.starts_with(kFrames)) number.remove_prefix(kFrames.size());
      ColmapProgress progress;
      if (!absl::SimpleAtoi(AsAbsl(number), &progress.done) || progress.done < 0) {
        return std::nullopt;
      }
      return progress;
    }
    case ColmapStage::kRefine: {
      // "  12  1.234e+04 ...": a row of the solver's table.
      const absl::string_view text = absl::StripLeadingAsciiWhitespace(AsAbsl(line));
      const size_t end = text.find(' ');
      ColmapProgress progress;
      if (end == absl::string_view::npos ||
          !absl::SimpleAtoi(text.substr(0, end), &progress.done) || progress.done < 0) {
        return std::nullopt;
      }
      return progress;
    }
  }
  return std::nullopt;
}

bool FoundNoPoints(const ChildProcessEnd& end) {
  return !end.ok() && Says(end.last_output, {"Check failed: bundle_adjuster.Solve"});
}

bool FoundNoModel(const ChildProcessEnd& end) {
  return end.kind == ChildProcessEnd::Kind::kExited && end.code != 0 &&
         Says(end.last_output, {"failed to create sparse model", "No good initial image pair"});
}

}  // namespace nerf
