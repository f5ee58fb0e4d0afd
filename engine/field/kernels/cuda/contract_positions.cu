#include "engine/field/kernels/contract_positions.h"

#include "engine/field/kernels/cuda/device_range.cuh"
#include "engine/field/kernels/cuda/launch.cuh"

namespace nerf::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kBlock)
    ContractPositionsKernel(const __grid_constant__ ContractPositionsParams p) {
  const Elements elements = ElementsOf(p.range);
  for (uint32_t i = elements.begin + blockIdx.x * blockDim.x + threadIdx.x; i < elements.end;
       i += gridDim.x * blockDim.x) {
    p.positions[i] = p.space.ToUnit(p.origin + p.positions[i] * p.scale);
  }
}

}  // namespace

void ContractPositions(const ContractPositionsParams& params, Stream stream) {
  LaunchOver("contract_positions", ContractPositionsKernel, params.range.capacity, kBlock, stream,
             params);
}

}  // namespace nerf::kernels::cuda
