#include "server/queue/jobs/model_source.h"

#include <fmt/format.h>

namespace nerf {

std::string ModelCapability(std::string_view work, std::string_view feature,
                            std::string_view method) {
  return fmt::format("{}{}{}/{}", work, feature.empty() ? "" : "+", feature, method);
}

bool UsesCrop(const ModelSource& source, const FoundModel& found) {
  return HasBox(found.crop) && !source.crop_feature.empty();
}

internal::JobModel ModelOfJob(std::string_view work, const ModelSource& source,
                              const FoundModel& found) {
  internal::JobModel model;
  *model.mutable_blob() = ToProto(found.blob);
  model.set_feature(UsesCrop(source, found) ? source.crop_feature : source.feature);
  model.set_capability(ModelCapability(work, model.feature(), found.method));
  return model;
}

}  // namespace nerf
