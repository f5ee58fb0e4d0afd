#include "server/rpc/convert/convert_worker.h"

#include <cmath>

#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

v1::Worker::State ToProtoWorkerState(WorkerState state) {
  switch (state) {
    case WorkerState::kIdle:
      return v1::Worker::IDLE;
    case WorkerState::kBusy:
      return v1::Worker::BUSY;
    case WorkerState::kDraining:
      return v1::Worker::DRAINING;
    case WorkerState::kLost:
      return v1::Worker::LOST;
    case WorkerState::kUnhealthy:
      return v1::Worker::UNHEALTHY;
  }
  return v1::Worker::STATE_UNSPECIFIED;
}

std::optional<double> IfFinite(bool has, double value) {
  return has && std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

}  // namespace

v1::Worker ToProto(const WorkerRecord& worker) {
  v1::Worker proto;
  proto.set_name(WorkerName(worker.description.id));
  proto.set_state(ToProtoWorkerState(worker.state));
  proto.set_state_message(worker.state_message);
  proto.set_drained(worker.drained);
  proto.set_device(worker.description.device);
  proto.set_device_description(worker.description.device_description);
  proto.set_version(worker.description.version);
  if (worker.job.has_value()) proto.set_job(JobName(*worker.job));
  *proto.mutable_last_seen_time() = ToProto(worker.last_seen);
  proto.set_host(worker.description.host);
  proto.set_colmap_version(worker.description.colmap_version);
  proto.set_ffmpeg_version(worker.description.ffmpeg_version);
  *proto.mutable_methods() = {worker.description.methods.begin(), worker.description.methods.end()};
  return proto;
}

WorkerDescription FromProto(const v1::WorkerHello& hello) {
  return {hello.worker_id(),
          hello.session_id(),
          hello.device(),
          hello.device_description(),
          hello.version(),
          hello.host(),
          {hello.methods().begin(), hello.methods().end()},
          {hello.features().begin(), hello.features().end()},
          hello.problem(),
          hello.colmap_version(),
          hello.ffmpeg_version()};
}

ServerMetrics::TrainReport FromProto(const v1::WorkerMetrics& metrics, absl::Time now) {
  return {static_cast<double>(metrics.train_steps()),
          static_cast<double>(metrics.train_rays()),
          metrics.step_seconds(),
          metrics.loss(),
          metrics.psnr(),
          absl::ToDoubleSeconds(now - absl::UnixEpoch()),
          IfFinite(metrics.has_stall_fraction(), metrics.stall_fraction())};
}

std::optional<ServerMetrics::GpuReadings> GpuReadingsOf(const v1::WorkerMetrics& metrics) {
  const ServerMetrics::GpuReadings readings = {
      .utilization = IfFinite(metrics.has_gpu_utilization(), metrics.gpu_utilization()),
      .memory_used_bytes = IfFinite(metrics.has_gpu_memory_used_bytes(),
                                    static_cast<double>(metrics.gpu_memory_used_bytes())),
      .memory_size_bytes = IfFinite(metrics.has_gpu_memory_size_bytes(),
                                    static_cast<double>(metrics.gpu_memory_size_bytes())),
      .temperature_celsius =
          IfFinite(metrics.has_gpu_temperature_celsius(), metrics.gpu_temperature_celsius()),
      .power_watts = IfFinite(metrics.has_gpu_power_watts(), metrics.gpu_power_watts())};
  if (readings == ServerMetrics::GpuReadings()) return std::nullopt;
  return readings;
}

}  // namespace nerf
