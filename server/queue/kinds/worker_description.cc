#include "server/queue/kinds/worker_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "server/queue/jobs/any_training.h"
#include "server/queue/jobs/export_features.h"
#include "server/queue/jobs/pose_spec.h"
#include "server/queue/kinds/render_work.h"

namespace nerf {

bool WorkerDescription::Has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

std::vector<std::string> WorkerDescription::Capabilities() const {
  std::vector<std::string> capabilities;
  if (Has(kPoseCapability)) {
    capabilities.emplace_back(kPoseCapability);
    if (!ffmpeg_version.empty()) capabilities.emplace_back(kFilmPoseCapability);
    if (Has(kPoseOptionsFeature)) {
      capabilities.emplace_back(kPoseOptionsCapability);
      if (!ffmpeg_version.empty()) capabilities.emplace_back(kFilmPoseOptionsCapability);
    }
    if (Has(kPoseMasksFeature)) {
      capabilities.emplace_back(kPoseMasksCapability);
      if (!ffmpeg_version.empty()) capabilities.emplace_back(kFilmPoseMasksCapability);
    }
  }
  if (Has(kPosesOnly)) {
    capabilities.emplace_back(kPosesOnly);  // not empty: that would offer everything
    return capabilities;
  }
  for (const std::string& method : methods) {
    capabilities.push_back(method);
    const auto add = [&](std::string_view work, std::initializer_list<std::string_view> features) {
      if (!Has(work)) return;
      capabilities.push_back(ModelCapability(work, "", method));
      for (const std::string_view feature : features) {
        if (Has(feature)) capabilities.push_back(ModelCapability(work, feature, method));
      }
    };
    add(kRenderFeature, {kStyleFeature, kRgbazFeature});
    add(kExportFeature, {kMoreExportsFeature, kPathExportsFeature, kBakedExportsFeature,
                         kSplatFilesFeature, kNanoVdbFeature});
    if (Has(kExtendFeature)) capabilities.push_back(fmt::format("{}{}", kExtendPrefix, method));
  }
  if (Has(kMovieCapability)) {
    capabilities.emplace_back(kMovieCapability);
    if (Has(kStyleFeature)) capabilities.emplace_back(kStyledMovieCapability);
  }
  for (const std::string& feature : features) {
    if (feature.starts_with(kMergePrefix)) capabilities.push_back(feature);
  }
  if (methods.empty() && !capabilities.empty()) capabilities.emplace_back(kAnyTraining);
  return capabilities;
}

bool NeedsAnnouncement(std::string_view capability) {
  // Every other one is the name of a method.
  return capability == kMovieCapability || capability == kPoseCapability ||
         capability.find_first_of("/+") != std::string_view::npos;
}

}  // namespace nerf
