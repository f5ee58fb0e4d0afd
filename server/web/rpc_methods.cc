#include "server/web/rpc_methods.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <string>

namespace nerf {
namespace {

constexpr auto kServices = std::to_array<std::string_view>({
    "nerf.v1.AdminService",
    "nerf.v1.BlobService",
    "nerf.v1.ModelService",
    "nerf.v1.RenderJobService",
    "nerf.v1.RenderService",
    "nerf.v1.SceneService",
    "nerf.v1.TrainingService",
    "google.bytestream.ByteStream",
});

}  // namespace

const google::protobuf::MethodDescriptor* FindWebMethod(std::string_view path) {
  if (!path.starts_with('/')) return nullptr;
  path.remove_prefix(1);
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return nullptr;
  const std::string_view service_name = path.substr(0, slash);
  if (std::find(kServices.begin(), kServices.end(), service_name) == kServices.end()) {
    return nullptr;
  }
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      std::string(service_name));
  return service == nullptr ? nullptr
                            : service->FindMethodByName(std::string(path.substr(slash + 1)));
}

}  // namespace nerf
