#pragma once

#include <iosfwd>
#include <stop_token>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"

namespace nerf {

class Interrupt;

// Streams, terminal, clock and interrupts of a command. All pointers are borrowed and outlive the
// command; tests pass their own.
struct Io {
  std::ostream* out = nullptr;  // results only
  std::ostream* err = nullptr;  // everything else
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  int columns = 80;           // of the terminal behind err
  bool unicode = false;       // the terminal shows UTF-8
  bool dumb_terminal = true;  // no colors, no cursor movement
  const Clock* clock = nullptr;
  RandomSource* random = nullptr;
  const Interrupt* interrupt = nullptr;
  // First pause before a call is retried; grows up to 25 times that.
  absl::Duration first_retry_delay = absl::Milliseconds(200);
  // A command that has waited this long says what for: a render, which then checks again at this
  // interval, or a server that is away.
  absl::Duration notice_delay = absl::Seconds(2);
  // How often a watch counts down the rest of an evaluation.
  absl::Duration tick = absl::Seconds(1);
  // How long a job that finds no worker is asked about again before a warning: nerfd's own worker
  // connects within two seconds of its start.
  absl::Duration worker_patience = absl::Seconds(3);
  // How long calls to a server that is away are repeated: before its first answer to this command,
  // and after it, since it probably restarts.
  absl::Duration contact_patience = absl::Seconds(4);
  absl::Duration restart_patience = absl::Seconds(30);
};

}  // namespace nerf
