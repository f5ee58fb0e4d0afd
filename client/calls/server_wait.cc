#include "client/calls/server_wait.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <chrono>

#include "client/calls/session.h"
#include "client/show/error_printer.h"
#include "common/access_reason.h"
#include "common/error_reason.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kPauseGrowth = 1.6;
constexpr double kMaxPauseFactor = 5;

// UNAVAILABLE without a reason comes from gRPC: no server has answered.
bool IsAway(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return false;
  const std::optional<ErrorReason> why = GetReason(status);
  return !why.has_value() || why->reason == reason::kDraining;
}

bool IsTokenMissing(const absl::Status& status) {
  const std::optional<ErrorReason> why = GetReason(status);
  return why.has_value() && why->reason == reason::kTokenMissing;
}

}  // namespace

bool ServerWait::MayTryAgain(const absl::Status& status) {
  // A server of this user tells where its token is only once it has started.
  const bool may_find_token =
      IsTokenMissing(status) && (n_tries_ > 0 || !session_.token().value_or("").empty());
  if (!IsAway(status) && !may_find_token) {
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) session_.NoteAnswer();
    return false;
  }
  const Io& io = session_.io();
  const SteadyTime now = io.clock->Now();
  if (n_tries_++ == 0) {
    start_ = now;
    pause_ = io.first_retry_delay;
  }
  const absl::Duration away = now - start_;
  if (away >= (session_.has_answer() ? io.restart_patience : io.contact_patience)) return false;
  if (away >= io.notice_delay && IsAway(status)) session_.SayAway(status);
  const absl::Duration pause = pause_;
  pause_ = std::min(pause * kPauseGrowth, io.first_retry_delay * kMaxPauseFactor);
  if (!session_.Sleep(pause)) return false;
  // While nobody waits for a connection, gRPC looks at an attempt's outcome once in 5 s.
  const auto most = absl::ToChronoMilliseconds(session_.TimeLeft(pause));
  session_.channel()->WaitForConnected(std::chrono::system_clock::now() + most);
  return true;
}

}  // namespace nerf
