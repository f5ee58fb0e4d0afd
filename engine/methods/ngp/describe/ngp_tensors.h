#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/base/config/method_description.h"

namespace nerf {

// Before the names of the proposal network's tensors and of their optimizer state.
inline constexpr const char* kProposalPrefix = "proposal.";

// The tensors of the ngp field. Every hash level has 2^log2_hashmap_size entries, also a coarse one
// that uses fewer, so that shapes follow from the config alone and not from the scene.
std::vector<TensorShape> NgpFieldTensors(const TrainConfig& config);

// MethodDescription::CheckStart of every way to train the ngp field: how fine the table's levels
// are and how dense an output of the MLP is follow from settings and from how far the scene
// reaches.
absl::Status CheckNgpStart(const TrainedAs& start, const TrainedAs& wanted);
// MethodDescription::AdaptToStart: the finer levels take part from the first step.
void AdaptNgpToStart(TrainConfig* config);

}  // namespace nerf
