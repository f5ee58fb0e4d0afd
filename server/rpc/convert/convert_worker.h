#pragma once

#include <optional>

#include "absl/time/time.h"
#include "nerf/v1/admin_service.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/leases/worker_table.h"

namespace nerf {

v1::Worker ToProto(const WorkerRecord& worker);
WorkerDescription FromProto(const v1::WorkerHello& hello);
ServerMetrics::TrainReport FromProto(const v1::WorkerMetrics& metrics, absl::Time now);
// nullopt without GPU readings. Non-finite readings are left out.
std::optional<ServerMetrics::GpuReadings> GpuReadingsOf(const v1::WorkerMetrics& metrics);

}  // namespace nerf
