#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "server/rpc/connections/connection_table.h"

namespace nerf {

// The HTTP/2 streams of a connection that gRPC keeps in memory: open ones, and ended ones whose
// call is not freed yet.
struct StreamCount {
  ConnectionTable::Peer peer;
  int64_t n_streams = 0;
  int64_t n_begun = 0;  // since the connection was made
};

// Counts the streams of every TCP connection to the gRPC servers of this process. Asks channelz,
// so it knows of calls that wait in gRPC for a thread. Takes some 10 us per connection.
std::vector<StreamCount> CountStreams();

// The number that a field of channelz's JSON has, as in "streamsStarted":"12"; 0 without the field.
int64_t FigureOf(std::string_view json, std::string_view field);

}  // namespace nerf
