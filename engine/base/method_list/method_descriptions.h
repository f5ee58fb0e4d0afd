#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/config/method_description.h"
#include "engine/base/config/tensor_shape.h"
#include "engine/base/config/train_config.h"

namespace nerf {

// The training methods that there are, for server, client and engine alike.

// All, in the order of method_list.inc.
std::vector<const MethodDescription*> MethodDescriptions();
// Null where there is no such method.
const MethodDescription* FindMethodDescription(std::string_view name);
// The description of config.method. Requires: ValidateConfig is OK.
const MethodDescription& MethodDescriptionOf(const TrainConfig& config);
// Adds a method that only a test has, for the rest of the process. Not thread-safe.
void AddMethodDescription(const MethodDescription* description);

// A config of `method` with its defaults. Errors: InvalidArgument that lists the methods.
absl::StatusOr<TrainConfig> DefaultConfig(std::string_view method);

// Sets one setting of config->method from text. Errors: InvalidArgument naming the key: not one of
// the method's (with the nearest that is), not a number, out of range.
absl::Status SetConfigField(std::string_view key, std::string_view value, TrainConfig* config);

// Every setting of the method as text that SetConfigField reads back to the same bits.
std::map<std::string, std::string> ConfigSettings(const TrainConfig& config);

// Checks what spans fields: method known, budget positive and finite, test_every, no setting
// changed that the method honors on no device. Errors: InvalidArgument that names the field.
absl::Status ValidateConfig(const TrainConfig& config);

// Whether config.method trains on `device` ("cpu" or "cuda:N") and that device honors every setting
// that differs from the method's default. Errors: InvalidArgument that names device or setting.
absl::Status CheckDeviceHonors(const TrainConfig& config, std::string_view device);

// The kind of devices on which workers of a server train the config together. Only there the files
// are those of one worker, whoever trains: CUDA devices with cuda_deterministic, else CPUs.
DeviceSet GangDevices(const TrainConfig& config);

// Whether up to `n_workers` workers with GangDevices can train the config together. Errors:
// Unimplemented or InvalidArgument that names the method or the setting.
absl::Status CheckGang(const TrainConfig& config, int n_workers);

// The tensors of the field that a config trains, as a model file (F16) holds them. They follow from
// the config alone.
std::vector<TensorShape> FieldTensorShapes(const TrainConfig& config);

// Checks that a file with tensors `held` can initialize a job with `config`: every tensor of
// FieldTensorShapes is there with a shape that fits, in F16 or F32. Errors: InvalidArgument that
// names the first tensor that does not fit, with both shapes.
absl::Status CheckInitFits(const TrainConfig& config, const std::vector<TensorShape>& held);

// Checks that a training as `wanted` can start from the field of a model that was trained as
// `start` and has the tensors `held`. Settings that are "auto" take the start's values. Errors:
// InvalidArgument with the first thing that does not fit.
absl::Status CheckFieldFits(const TrainedAs& start, const std::vector<TensorShape>& held,
                            const TrainedAs& wanted);

}  // namespace nerf
