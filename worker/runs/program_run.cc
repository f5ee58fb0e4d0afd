#include "worker/runs/program_run.h"

#include <memory>
#include <utility>

#include "common/access_reason.h"
#include "common/error_reason.h"

namespace nerf {

void ProgramRun::Work(std::function<CallResult()> work,
                      std::function<void(const CallResult&)> done) {
  busy_ = true;
  next_step_ = nullptr;
  auto result = std::make_shared<CallResult>();
  context_.tasks.Run(
      Lane::kFetch, [result, work = std::move(work)] { *result = work(); },
      [self = weak_from_this(), this, result, done = std::move(done)] {
        const auto run = self.lock();
        if (run == nullptr) return;
        busy_ = false;
        if (ending()) return OnEngineFree();
        done(*result);
      });
}

void ProgramRun::EndFailed(const CallResult& failure) {
  const absl::Status error = ToStatus(failure);
  if (failure.reason == reason::kEngineCrashed) {
    FinishCrashed(failure.message, /*shared_engine=*/false);
  } else if (failure.reason == reason::kWorkerExhausted) {
    ReleaseWithoutRoom(error);
  } else {
    Fail(error);
  }
}

void ProgramRun::TryAgain(const CallResult& failure, std::function<void()> step) {
  if (failure.reason == reason::kQuotaExceeded) return Fail(ToStatus(failure));
  const auto pause = PauseAfter(failure);
  if (!pause.has_value()) return;
  next_try_ = context_.clock.Now() + *pause;
  next_step_ = std::move(step);
}

void ProgramRun::Tick() {
  TakeNews();
  if (next_step_ == nullptr || busy_ || ending() || context_.clock.Now() < next_try_) return;
  const std::function<void()> step = next_step_;  // it sets the next one
  step();
}

}  // namespace nerf
