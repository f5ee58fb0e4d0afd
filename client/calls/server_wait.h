#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace nerf {

class Session;

// Decides whether a call that failed is repeated because the server is away, for example while it
// restarts: nothing listens, the connection broke, or it is shutting down. Lasts for one call.
class ServerWait {
 public:
  // `session` outlives the wait.
  explicit ServerWait(Session& session) : session_(session) {}

  // After a try that failed with `status`. True: a pause is over, try again. False: the server has
  // answered, the time is over or Ctrl-C was pressed. Io has the times.
  bool MayTryAgain(const absl::Status& status);

 private:
  Session& session_;
  int n_tries_ = 0;
  SteadyTime start_;  // of the first try that failed
  absl::Duration pause_;
};

}  // namespace nerf
