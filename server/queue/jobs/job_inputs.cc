#include "server/queue/jobs/job_inputs.h"

#include <fmt/format.h>

#include "server/queue/jobs/job.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

std::vector<JobInput> InputsOf(const Job& job, const SceneRecord* scene) {
  std::vector<JobInput> inputs;
  if (job.kind == JobKind::kRender) {
    inputs.push_back({job.render.model_blob, "its model"});
    for (size_t i = 0; i < job.render_work.frames.size(); ++i) {
      for (const BlobRef& image : job.render_work.frames[i].images) {
        inputs.push_back({image, fmt::format("frame {}", i)});
      }
    }
    return inputs;
  }
  if (job.kind == JobKind::kExport) return {{job.exporting.model_blob, "its model"}};
  if (scene != nullptr) {
    for (const SceneFileRecord& file : scene->files) inputs.push_back({file.blob, file.path});
  }
  if (!job.checkpoints.empty()) return inputs;
  for (const BlobRef& model : job.part_models) inputs.push_back({model, "the model of a part"});
  const auto& init = job.training.init;
  if (job.part_models.empty() && init.has_value()) {
    inputs.push_back({init->blob, "the model that it starts from"});
  }
  return inputs;
}

std::string LackText(std::span<const JobInput> lacking) {
  if (lacking.empty()) return "";
  if (lacking.size() == 1) {
    return fmt::format("{} is damaged or missing on the server: upload it again", lacking[0].name);
  }
  return fmt::format(
      "{} and {} more of its files are damaged or missing on the server: upload "
      "them again",
      lacking[0].name, lacking.size() - 1);
}

}  // namespace nerf
