#include "server/web/rpc_methods.h"

#include <google/protobuf/descriptor.h>

#include <string>

namespace nerf {
namespace {

// Every service of the API but that of workers, and ByteStream. What a caller may do is decided
// behind the gateway, as for any client.
bool IsForBrowsers(std::string_view service) {
  return service == "google.bytestream.ByteStream" ||
         (service.starts_with("nerf.v1.") && service != "nerf.v1.WorkerService");
}

}  // namespace

const google::protobuf::MethodDescriptor* FindWebMethod(std::string_view path) {
  if (!path.starts_with('/')) return nullptr;
  path.remove_prefix(1);
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return nullptr;
  const std::string_view service_name = path.substr(0, slash);
  if (!IsForBrowsers(service_name)) return nullptr;
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      std::string(service_name));
  return service == nullptr ? nullptr
                            : service->FindMethodByName(std::string(path.substr(slash + 1)));
}

}  // namespace nerf
