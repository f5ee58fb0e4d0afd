// An engine that starts only with a CUDA device: says hello once libcuda.so.1 has found one, and
// ends as nerf-engine does with exit code 2 otherwise. NERF_TEST_NEEDS names a file that it has to
// read, too.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/base/protocol/message_splitter.h"
#include "nerf/internal/engine.pb.h"

namespace {

constexpr int kWorkerFd = 3, kUsage = 2;

bool SayHello() {
  nerf::internal::EngineMessage message;
  message.mutable_hello()->set_version("1");
  message.mutable_hello()->set_device("cuda:0");
  message.mutable_hello()->set_description("a stand-in");
  message.mutable_hello()->set_threads(1);
  message.mutable_hello()->add_methods("ngp");
  const std::string bytes = nerf::Delimited(message.SerializeAsString());
  return write(kWorkerFd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

int Fail(const char* why) {
  std::fprintf(stderr, "device_engine: %s\n", why);
  return kUsage;
}

}  // namespace

int main() {
  const char* const needed = std::getenv("NERF_TEST_NEEDS");
  if (needed != nullptr && open(needed, O_RDONLY | O_CLOEXEC) < 0) return Fail(needed);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return Fail(dlerror());
  const auto init = reinterpret_cast<int (*)(unsigned int)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int n_devices = 0;
  if (init == nullptr || count == nullptr || init(0) != 0 || count(&n_devices) != 0 ||
      n_devices == 0) {
    return Fail("the driver finds no device");
  }
  if (!SayHello()) return 1;
  // Until the worker closes its end.
  char bytes[256];
  while (read(kWorkerFd, bytes, sizeof(bytes)) > 0) {
  }
  return 0;
}
