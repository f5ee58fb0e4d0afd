#include "server/rpc/admin_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/status_macros.h"
#include "server/rpc/convert_worker.h"
#include "server/rpc/paging.h"
#include "server/rpc/unary_call.h"

namespace nerf {

grpc::ServerUnaryReactor* AdminService::ListWorkers(grpc::CallbackServerContext* context,
                                                    const v1::ListWorkersRequest* request,
                                                    v1::ListWorkersResponse* response) {
  return AnswerUnary(
      services_, "nerf.v1.AdminService/ListWorkers", context, [=, this]() -> absl::Status {
        RequestCheck check;
        const size_t size = TakeOr(EffectivePageSize(request->page_size()), check);
        // The token is the number of workers on earlier pages, which is exact enough: workers are
        // few and rarely change.
        const uint64_t token = TakeOr(ParsePageToken("workers", "", request->page_token()), check);
        NERF_RETURN_IF_ERROR(check.Result());
        const std::vector<WorkerRecord> workers = services_.workers.List();
        const size_t begin =
            request->page_token().empty() ? 0 : std::min<size_t>(token, workers.size());
        const size_t end = std::min(begin + size, workers.size());
        for (size_t i = begin; i < end; ++i) {
          v1::Worker* worker = response->add_workers();
          *worker = ToProto(workers[i]);
          const std::optional<ResourceKey>& job = workers[i].job;
          if (job.has_value() && services_.queue.Get(*job, JobKind::kRender).ok()) {
            worker->set_training_job(RenderJobName(*job));
          }
        }
        if (end < workers.size()) {
          response->set_next_page_token(EncodePageToken("workers", "", end));
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::BackupStore(grpc::CallbackServerContext* context,
                                                    const v1::BackupStoreRequest* request,
                                                    v1::BackupStoreResponse* response) {
  return AnswerUnary(
      services_, "nerf.v1.AdminService/BackupStore", context, [=, this]() -> absl::Status {
        RequestCheck check;
        check.RequireId("backup_id", request->backup_id(), /*may_be_empty=*/true);
        NERF_RETURN_IF_ERROR(check.Result());
        if (!services_.backup) return absl::UnimplementedError("this server makes no backups");
        const std::string id =
            request->backup_id().empty()
                ? absl::FormatTime("b%Y%m%d-%H%M%S", services_.clock.WallNow(), absl::UTCTimeZone())
                : request->backup_id();
        NERF_ASSIGN_OR_RETURN(const BackupSummary backup, services_.backup(id));
        response->set_path(backup.path);
        response->set_blobs(static_cast<double>(backup.n_blobs));
        response->set_blob_bytes(static_cast<double>(backup.blob_bytes));
        return absl::OkStatus();
      });
}

}  // namespace nerf
