#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/files/file_io.h"

namespace nerf {

// How ranks meet before they have a group: they tell each other short texts. This one is a star of
// sockets around rank 0, not encrypted; others override Gather. Not thread-safe.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  Rendezvous(Rendezvous&&) = default;
  Rendezvous& operator=(Rendezvous&&) = default;

  // Rank 0 listens at `host`:`port` until the n_ranks - 1 others have come, each with a number of
  // its own; who says something else is sent away. Then nobody listens any more.
  // Errors: InvalidArgument for an address that is not of this machine; DeadlineExceeded naming the
  // ranks that are missing; what the system says.
  static absl::StatusOr<Rendezvous> Host(const std::string& host, int port, int n_ranks,
                                         absl::Duration time_limit);
  // Another rank calls there, again and again until rank 0 listens. Errors as above.
  static absl::StatusOr<Rendezvous> Join(const std::string& host, int port, int rank, int n_ranks,
                                         absl::Duration time_limit);
  // Over stream sockets that are connected already: rank 0 has one to each other rank, in their
  // order; every other rank has one to rank 0.
  Rendezvous(int rank, int n_ranks, std::vector<UniqueFd> sockets, absl::Duration time_limit);

  int rank() const { return rank_; }
  int n_ranks() const { return n_ranks_; }

  // Every rank's text, in their order. Called by all ranks. Errors: Unavailable naming the rank
  // that is gone, DeadlineExceeded.
  virtual absl::StatusOr<std::vector<std::string>> Gather(std::string_view mine);

 private:
  int rank_, n_ranks_;
  std::vector<UniqueFd> sockets_;
  absl::Duration time_limit_;
};

// "HOST:PORT", HOST a name, an IPv4 address or an IPv6 address in brackets. InvalidArgument.
absl::StatusOr<std::pair<std::string, int>> ParseRendezvous(std::string_view text);

// Whether the name stands for this machine alone: localhost, 127.0.0.0/8, ::1.
bool IsLoopback(const std::string& host);

}  // namespace nerf
