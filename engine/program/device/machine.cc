#include "engine/program/device/machine.h"

#include <cstdlib>
#include <string_view>

#include "common/files/file_io.h"
#include "engine/field/kernels/simd_path.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {

std::string CpuModel() {
  constexpr char kKey[] = "model name";
  constexpr uint64_t kMaxBytes = 16 << 20;
  const absl::StatusOr<std::string> text = ReadFile("/proc/cpuinfo", kMaxBytes);
  if (text.ok()) {
    const size_t key = text->find(kKey);
    const size_t colon = key == std::string::npos ? key : text->find(": ", key);
    if (colon != std::string::npos) {
      return text->substr(colon + 2, text->find('\n', colon) - colon - 2);
    }
  }
  return "unknown processor";
}

std::string DeviceDescription() { return CpuModel() + ", " + kernels::cpu::SimdPath(); }

absl::Status TakeSimdPathOfEnvironment() {
  const char* name = std::getenv("NERF_SIMD");
  if (name == nullptr || *name == '\0') {
    kernels::cpu::SelectFastestSimdPath();
    return absl::OkStatus();
  }
  if (kernels::cpu::ForceSimdPath(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "NERF_SIMD: '{}' is not one of this machine's instruction sets: {}",
      std::string_view(name).substr(0, 32), fmt::join(kernels::cpu::SimdPaths(), ", ")));
}

}  // namespace nerf
