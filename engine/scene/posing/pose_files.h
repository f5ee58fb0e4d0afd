#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/posing/photographs/photographs.h"
#include "engine/scene/posing/pose_options.h"
#include "engine/scene/posing/pose_progress.h"
#include "engine/scene/posing/pose_report.h"
#include "engine/scene/posing/work_folder.h"

// What every search for poses reads first and writes last.
namespace nerf {

// Stages that ReadPictures begins.
int StagesOfReading(const PhotoSources& sources);
// Copies photographs, and frames of films, into work/images, which is made (PreparePhotos).
absl::StatusOr<std::vector<Photo>> ReadPictures(const PhotoSources& sources, const WorkFolder& work,
                                                const PoseOptions& options, PoseStages* stages);

// Writes pose.json, pose.txt and pose.png. `out`: the folder that the work folder will become.
absl::Status WriteReportFiles(const PoseReport& report, const PosedModel& model,
                              const WorkFolder& work, const std::string& out);

}  // namespace nerf
