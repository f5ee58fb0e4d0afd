#pragma once

#include <cstddef>
#include <functional>

#include "engine/field/kernels/stream.h"

// There are two devices, which several threads may use at the same time.
namespace nerf::cuda_emulation {

// Runs the work now, or records it if the stream records a graph.
void Submit(kernels::Stream stream, std::function<void()> work);

// Bytes of device memory in use and in total: an allocation beyond the total fails as on a device.
size_t DeviceBytesInUse();
void SetDeviceBytes(size_t byte_size);

// How many graphs have been recorded since the process began.
int GraphsRecorded();

}  // namespace nerf::cuda_emulation
