#include "worker/worker_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace nerf {
namespace {

constexpr double kMostCounted = 9007199254740992.0;  // 2^53: what a double counts exactly

}  // namespace

void WorkerMeter::Count(const std::string& job, const internal::Progress& progress) {
  const v1::Progress& now = progress.progress();
  if (job_ == job && now.step() >= last_.step()) {
    // Not negative; NaN is 0.
    const auto add = [](double later, double earlier) {
      return std::min(kMostCounted, std::max(0.0, later - earlier));
    };
    metrics_.set_train_steps(metrics_.train_steps() + (now.step() - last_.step()));
    metrics_.set_train_rays(metrics_.train_rays() + add(now.rays(), last_.rays()));
    metrics_.set_train_samples(metrics_.train_samples() + add(now.samples(), last_.samples()));
    step_seconds_sum_ += add(now.seconds(), last_.seconds());
  }
  metrics_.set_loss(std::isfinite(now.loss()) ? now.loss() : 0);
  metrics_.set_psnr(std::isfinite(now.psnr_train()) ? now.psnr_train() : 0);
  figures_ = progress.device();
  figures_.DiscardUnknownFields();
  // This meter counts them.
  figures_.clear_train_steps();
  figures_.clear_train_rays();
  figures_.clear_train_samples();
  figures_.clear_step_seconds();
  figures_.clear_loss();
  figures_.clear_psnr();
  figures_.clear_engine_restarts();
  job_ = job;
  last_ = now;
}

v1::WorkerMetrics WorkerMeter::Take(int n_restarts) {
  metrics_.set_engine_restarts(metrics_.engine_restarts() +
                               (n_restarts - std::exchange(counted_restarts_, n_restarts)));
  if (metrics_.train_steps() > 0) {
    metrics_.set_step_seconds(step_seconds_sum_ / metrics_.train_steps());
  }
  v1::WorkerMetrics taken = metrics_;
  taken.MergeFrom(figures_);
  figures_.Clear();
  in_flight_ = metrics_;
  in_flight_step_seconds_sum_ = std::exchange(step_seconds_sum_, 0);
  metrics_.set_train_steps(0);
  metrics_.set_train_rays(0);
  metrics_.set_train_samples(0);
  metrics_.set_engine_restarts(0);
  return taken;
}

void WorkerMeter::OnWritten() {
  in_flight_.Clear();
  in_flight_step_seconds_sum_ = 0;
}

void WorkerMeter::OnLost() {
  metrics_.set_train_steps(metrics_.train_steps() + in_flight_.train_steps());
  metrics_.set_train_rays(metrics_.train_rays() + in_flight_.train_rays());
  metrics_.set_train_samples(metrics_.train_samples() + in_flight_.train_samples());
  metrics_.set_engine_restarts(metrics_.engine_restarts() + in_flight_.engine_restarts());
  step_seconds_sum_ += in_flight_step_seconds_sum_;
  OnWritten();
}

}  // namespace nerf
