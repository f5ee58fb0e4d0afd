#include "client/flags/context_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/files/places.h"
#include "common/status_macros.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxFileBytes = 1 << 20;

absl::Status CheckOwner(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return absl::OkStatus();
  if (status.st_uid == geteuid() && (status.st_mode & 077) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} holds tokens, and others may read it: chmod 600 it", path));
}

std::string Text(const Json& object, const char* key, const std::string& fallback = "") {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : fallback;
}

}  // namespace

std::string ContextPath() { return DefaultConfigDir() + "/contexts.json"; }

absl::StatusOr<Contexts> ReadContexts(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(content.status())) return Contexts();
  NERF_RETURN_IF_ERROR(content.status());
  NERF_RETURN_IF_ERROR(CheckOwner(path));
  const Json json = Json::parse(*content, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("contexts") || !json["contexts"].is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("{} is damaged: remove it and log in again", path));
  }
  Contexts contexts;
  contexts.current = Text(json, "current");
  for (const auto& [name, object] : json["contexts"].items()) {
    if (!object.is_object()) continue;
    Context& context = contexts.by_name[name];
    context.server = Text(object, "server");
    context.project = Text(object, "project", "default");
    context.token = Text(object, "token");
    context.ca = Text(object, "ca");
    context.tls_cert = Text(object, "tls_cert");
    context.tls_key = Text(object, "tls_key");
    context.insecure = object.contains("insecure") && object["insecure"] == true;
  }
  return contexts;
}

absl::Status WriteContexts(const std::string& path, const Contexts& contexts) {
  Json json = {{"current", contexts.current}, {"contexts", Json::object()}};
  for (const auto& [name, context] : contexts.by_name) {
    json["contexts"][name] = {{"server", context.server},     {"project", context.project},
                              {"token", context.token},       {"ca", context.ca},
                              {"tls_cert", context.tls_cert}, {"tls_key", context.tls_key},
                              {"insecure", context.insecure}};
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return ErrnoToStatus(error.value(), "create the folder of " + path);
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  return WriteFileAtomically(path, text + "\n", 0600);
}

}  // namespace nerf
