#pragma once

#include <memory>
#include <string>

#include "engine/field/trained_model.h"
#include "engine/methods/ngp/field.h"
#include "engine/methods/ngp/network.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/scene/scene.h"

namespace nerf {

// The network of a config without its parameters, as proposal and field have it.
NgpNetwork ProposalSceneNetwork(const TrainConfig& config, const SceneGeometry& geometry);
// Whether first samples lie at even disparities.
bool UsesDisparity(const TrainConfig& config, const SceneGeometry& geometry);

std::unique_ptr<TrainedModel> NewNgpProposalModel(const TrainConfig& config,
                                                  const SceneGeometry& geometry,
                                                  NgpEvaluationParameters proposal,
                                                  NgpEvaluationParameters field);

// The tensors of a file whose names begin with `prefix`, without it; and the way back.
TensorFile WithoutPrefix(const TensorFile& file, const std::string& prefix);
void AddWithPrefix(const TensorFile& from, const std::string& prefix, TensorFile* file);

}  // namespace nerf
