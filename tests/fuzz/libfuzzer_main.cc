// libFuzzer's entry points of the target NERF_FUZZ_TARGET. With NERF_FUZZ_SEEDS, a folder, the
// seeds are written there before it starts.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* const folder = std::getenv("NERF_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  int n = 0;
  for (const std::string& seed : nerf::NERF_FUZZ_TARGET.seeds())
    std::ofstream(std::string(folder) + "/seed" + std::to_string(n++), std::ios::binary) << seed;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer quiet;  // of what is no UTF-8
  const std::string wrong =
      nerf::NERF_FUZZ_TARGET.check({reinterpret_cast<const char*>(data), size});
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}
