#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/field/radiance_field.h"
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

// Has a model with proposals evaluate its networks by other fields, for so many rays at a time.
// Returns false if `model` is another. new_field: of a network, which outlives the call alone.
using NewProposalField = std::function<std::unique_ptr<RadianceField>(const NgpField& network)>;
bool EvaluateProposalsBy(const NewProposalField& new_field, int rays_at_once, TrainedModel* model);

// The tensors of a file whose names begin with `prefix`, without it; and the way back.
TensorFile WithoutPrefix(const TensorFile& file, const std::string& prefix);
void AddWithPrefix(const TensorFile& from, const std::string& prefix, TensorFile* file);

}  // namespace nerf
