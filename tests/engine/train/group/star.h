#pragma once

#include <sys/socket.h>

#include <utility>
#include <vector>

#include "engine/train/group/rendezvous.h"
#include "gtest/gtest.h"

namespace nerf {

// The star of sockets that rank 0 makes for its children, as one rendezvous per rank.
inline std::vector<Rendezvous> Star(int n_ranks) {
  std::vector<UniqueFd> of_host;
  std::vector<Rendezvous> star;
  for (int rank = 1; rank < n_ranks; ++rank) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    of_host.emplace_back(fds[0]);
    std::vector<UniqueFd> own;
    own.emplace_back(fds[1]);
    star.emplace_back(rank, n_ranks, std::move(own), absl::Seconds(60));
  }
  star.emplace(star.begin(), 0, n_ranks, std::move(of_host), absl::Seconds(60));
  return star;
}

}  // namespace nerf
