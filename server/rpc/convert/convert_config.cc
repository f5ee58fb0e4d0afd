#include "server/rpc/convert/convert_config.h"

#include <fmt/format.h>

#include "engine/base/config/start_rank.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {

std::optional<InitReference> ParseInit(std::string_view field, const v1::TrainingConfig& proto,
                                       RequestCheck& check) {
  if (!proto.has_init()) return std::nullopt;
  const v1::Init& init = proto.init();
  InitReference reference;
  if (init.has_model() && init.model() == kNoStart) {
    reference.kind = InitReference::Kind::kNone;
  } else if (init.has_model() && init.model() == kAutoStart) {
    reference.kind = InitReference::Kind::kAuto;
  } else if (init.has_model()) {
    reference.kind = InitReference::Kind::kModel;
    reference.source =
        TakeOr(ParseModelName(fmt::format("{}.init.model", field), init.model()), check);
  } else if (init.has_checkpoint()) {
    const std::string name = fmt::format("{}.init.checkpoint", field);
    reference.kind = InitReference::Kind::kCheckpoint;
    const CheckpointKey key = TakeOr(ParseCheckpointName(name, init.checkpoint()), check);
    reference.source = key.job;
    reference.step = key.step.value_or(0);
    check.Require(key.step.has_value() || key.job.id.empty(), name,
                  "must name a step, not the newest checkpoint");
  } else {
    check.Require(false, fmt::format("{}.init", field), "must name a model or a checkpoint");
  }
  check.Require(init.scope().empty() || init.scope() == "all", fmt::format("{}.init.scope", field),
                "must be all (or empty)");
  return reference;
}

}  // namespace nerf
