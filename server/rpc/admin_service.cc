#include "server/rpc/admin_service.h"

#include <algorithm>
#include <vector>

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
        for (size_t i = begin; i < end; ++i) *response->add_workers() = ToProto(workers[i]);
        if (end < workers.size()) {
          response->set_next_page_token(EncodePageToken("workers", "", end));
        }
        return absl::OkStatus();
      });
}

}  // namespace nerf
