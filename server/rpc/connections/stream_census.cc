#include "server/rpc/connections/stream_census.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>

namespace nerf {
namespace {

constexpr intptr_t kSocketsPerPage = 1000;

// What channelz returned, which is null for an object that is gone.
std::string Take(char* json) {
  std::string text = json == nullptr ? "" : json;
  gpr_free(json);
  return text;
}

// Calls `handle` with the rest of `json` from each value of a text field on.
template <typename Handle>
void ForEach(std::string_view json, std::string_view field, Handle handle) {
  const std::string key = '"' + std::string(field) + "\":\"";
  for (size_t at = json.find(key); at != json.npos; at = json.find(key, at + 1)) {
    handle(json.substr(at + key.size()));
  }
}

int64_t ToNumber(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void CountStreamsOf(int64_t server, std::vector<StreamCount>* counts) {
  int64_t next = 0;
  while (true) {
    const std::string page = Take(
        grpc_channelz_get_server_sockets(server, static_cast<intptr_t>(next), kSocketsPerPage));
    std::vector<int64_t> sockets;
    ForEach(page, "socketId", [&](std::string_view rest) { sockets.push_back(ToNumber(rest)); });
    for (const int64_t socket : sockets) {
      const std::string state = Take(grpc_channelz_get_socket(static_cast<intptr_t>(socket)));
      std::optional<ConnectionTable::Peer> peer;
      ForEach(state, "name", [&](std::string_view rest) {  // "chttp2 ipv4:127.0.0.1:4711"
        const std::string_view name = rest.substr(0, rest.find('"'));
        if (!peer.has_value()) peer = ConnectionTable::ParsePeer(name.substr(name.find(' ') + 1));
      });
      if (!peer.has_value()) continue;
      const int64_t n_begun = FigureOf(state, "streamsStarted");
      const int64_t n_ended =
          FigureOf(state, "streamsSucceeded") + FigureOf(state, "streamsFailed");
      counts->push_back({*peer, n_begun - n_ended, n_begun});
    }
    if (sockets.size() < kSocketsPerPage) return;
    next = sockets.back() + 1;
  }
}

}  // namespace

int64_t FigureOf(std::string_view json, std::string_view field) {
  int64_t figure = 0;
  ForEach(json, field, [&](std::string_view rest) { figure = ToNumber(rest); });
  return figure;
}

std::vector<StreamCount> CountStreams() {
  std::vector<StreamCount> counts;
  const std::string servers = Take(grpc_channelz_get_servers(0));
  ForEach(servers, "serverId",
          [&](std::string_view rest) { CountStreamsOf(ToNumber(rest), &counts); });
  return counts;
}

}  // namespace nerf
