#include "server/rpc/authorizer.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>

#include "google/bytestream/bytestream.pb.h"
#include "nerf/v1/admin_service.pb.h"
#include "nerf/v1/blob_service.pb.h"
#include "nerf/v1/worker_service.pb.h"

namespace nerf {
namespace {

// A new method without a policy must not be open by accident.
TEST(AuthorizerTest, EveryMethodOfTheContractHasAPolicyAndUnknownOnesAreClosed) {
  v1::SynchronizeRequest::descriptor();
  v1::FindMissingBlobsRequest::descriptor();
  v1::ListWorkersRequest::descriptor();
  google::bytestream::ReadRequest::descriptor();
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  int n_methods = 0;
  for (const char* file : {"nerf/v1/scene_service.proto", "nerf/v1/blob_service.proto",
                           "nerf/v1/training_service.proto", "nerf/v1/model_service.proto",
                           "nerf/v1/render_service.proto", "nerf/v1/admin_service.proto",
                           "nerf/v1/worker_service.proto", "google/bytestream/bytestream.proto"}) {
    const auto* descriptor = pool->FindFileByName(file);
    ASSERT_NE(descriptor, nullptr) << file;
    for (int i = 0; i < descriptor->service_count(); ++i) {
      const auto* service = descriptor->service(i);
      for (int k = 0; k < service->method_count(); ++k, ++n_methods) {
        const std::string method = service->full_name() + "/" + service->method(k)->name();
        const bool for_workers = service->name() == "WorkerService";
        EXPECT_EQ(AccessOf(method), for_workers ? Access::kWorkerToken : Access::kEverybody)
            << method;
      }
    }
  }
  EXPECT_GE(n_methods, 20);
  EXPECT_EQ(AccessOf("nerf.v1.QuotaService/SetQuota"), Access::kNobody);
  EXPECT_EQ(AccessOf("nerf.v1.SceneServiceX/GetScene"), Access::kNobody);
  EXPECT_EQ(AccessOf(""), Access::kNobody);
}

}  // namespace
}  // namespace nerf
