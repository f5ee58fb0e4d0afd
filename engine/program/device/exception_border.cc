#include "engine/program/device/exception_border.h"

#include <exception>
#include <new>

#include "common/error_reason.h"
#include "engine/field/kernels/cuda/device.h"

namespace nerf {

absl::Status Guarded(const std::function<absl::Status()>& body) {
  try {
    return body();
  } catch (const kernels::cuda::CudaOutOfMemory& e) {  // derives from bad_alloc: comes first
    return WithReason(absl::ResourceExhaustedError(e.what()), reason::kGpuOutOfMemory);
  } catch (const kernels::cuda::CudaError& e) {
    return WithReason(absl::InternalError(e.what()), reason::kGpuFailed);
  } catch (const std::bad_alloc&) {
    return WithReason(absl::ResourceExhaustedError("out of memory"), reason::kOutOfMemory);
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  } catch (...) {
    return absl::InternalError("unknown exception");
  }
}

}  // namespace nerf
