#include "client/flags/access.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "client/flags/context_file.h"
#include "common/error_reason.h"
#include "common/files/flag_file.h"
#include "common/process/local_server.h"
#include "common/rpc/channel.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

absl::StatusOr<std::string> FindToken(const GlobalFlags& flags) {
  if (!flags.token_file.empty()) {
    absl::StatusOr<std::string> token = ReadTokenFile(flags.token_file);
    if (token.ok()) return token;
    return FlagFileError("--token-file", token.status());
  }
  if (const char* token = std::getenv("NERFCTL_TOKEN"); token != nullptr && *token != '\0') {
    return CheckToken("NERFCTL_TOKEN", token);
  }
  if (!flags.context_token.empty()) {
    return CheckToken("the context's token", flags.context_token);
  }
  if (const auto data_dir = FindLocalServer(flags.server); data_dir.ok()) {
    const auto token = ReadTokenFile(*data_dir + "/admin.token");
    if (token.ok()) return token;
  }
  return std::string();
}

}  // namespace

absl::Status ApplyContext(bool server_is_given, GlobalFlags* flags) {
  absl::StatusOr<Contexts> contexts = ReadContexts(ContextPath());
  NERF_RETURN_IF_ERROR(contexts.status());
  auto found = contexts->by_name.find(contexts->current);
  if (!flags->context.empty()) {
    found = contexts->by_name.find(flags->context);
    if (found == contexts->by_name.end()) {
      return absl::InvalidArgumentError(fmt::format(
          "--context: there is no '{}'; `nerfctl context ls` lists them", flags->context));
    }
    if (server_is_given && found->second.server != flags->server) {
      return absl::InvalidArgumentError(fmt::format("--context {} is for {}, not for --server {}",
                                                    flags->context, found->second.server,
                                                    flags->server));
    }
  } else if (server_is_given &&
             (found == contexts->by_name.end() || found->second.server != flags->server)) {
    found = std::find_if(contexts->by_name.begin(), contexts->by_name.end(),
                         [&](const auto& entry) { return entry.second.server == flags->server; });
  }
  if (found == contexts->by_name.end()) return absl::OkStatus();
  const Context& context = found->second;
  flags->server = context.server;
  if (!flags->project_is_given) flags->project = context.project;
  if (!UsesTls(flags->tls)) flags->tls = {context.tls_cert, context.tls_key, context.ca};
  flags->insecure |= context.insecure;
  flags->context_token = context.token;
  return absl::OkStatus();
}

absl::StatusOr<std::string> ResolveToken(const GlobalFlags& flags) {
  NERF_ASSIGN_OR_RETURN(std::string token, FindToken(flags));
  if (token.empty() || flags.insecure || UsesTls(flags.tls) || IsLoopbackAddress(flags.server)) {
    return token;
  }
  return InvalidFieldsError(
      {{"", fmt::format("the token would travel to {} unencrypted: name the server's CA with --ca "
                        "(or --ca system), or say --insecure",
                        flags.server)}});
}

std::string ConnectTarget(const GlobalFlags& flags) {
  if (UsesTls(flags.tls)) return flags.server;
  const auto data_dir = FindLocalServer(flags.server);
  if (!data_dir.ok()) return flags.server;
  const std::string socket = *data_dir + "/nerfd.sock";
  return access(socket.c_str(), R_OK | W_OK) == 0 ? "unix:" + socket : flags.server;
}

}  // namespace nerf
