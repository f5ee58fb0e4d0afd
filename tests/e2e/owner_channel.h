#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "common/process/local_server.h"
#include "common/rpc/channel.h"
#include "tests/testing/token_channel.h"

namespace nerf {

// The admin's token of the running nerfd at an address; empty for an address without one.
inline std::string OwnerToken(const std::string& address) {
  const auto data_dir = FindLocalServer(address);
  if (!data_dir.ok()) return "";
  return ReadTokenFile(*data_dir + "/admin.token").value_or("");
}

// A channel whose calls carry it, as nerfctl's do.
inline std::shared_ptr<grpc::Channel> OwnerChannel(const std::string& address) {
  return TokenChannel(address, OwnerToken(address));
}

}  // namespace nerf
