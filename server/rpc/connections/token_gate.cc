#include "server/rpc/connections/token_gate.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>

#include <string>
#include <utility>

#include "common/mutex.h"

namespace nerf {
namespace {

constexpr char kPath[] = ":path";
constexpr char kAuthorization[] = "authorization";
// A property of the connection for each call that was forwarded. gRPC can add and read properties,
// not change them.
constexpr char kForwarded[] = "nerfd_forwarded";

// Guards the properties of connections, which gRPC leaves to its callers. Held for microseconds.
Mutex& PropertiesMutex() {
  static auto* const mu = new Mutex;
  return *mu;
}

bool NeedsNoToken(std::string_view path) { return path.starts_with("/grpc.health.v1.Health/"); }

// Whether the method's handler checks tokens itself.
bool ChecksTokens(std::string_view path) {
  return path.starts_with("/nerf.v1.") || path.starts_with("/google.bytestream.");
}

std::string_view Text(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// For credentials of gRPC's own.
class GateProcessor final : public grpc::AuthMetadataProcessor {
 public:
  explicit GateProcessor(std::shared_ptr<TokenGate> gate) : gate_(std::move(gate)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* connection,
                       OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) override {
    const auto value = [&](const char* key) {
      const auto found = metadata.find(key);
      return found == metadata.end() ? std::string_view()
                                     : std::string_view(found->second.data(), found->second.size());
    };
    const absl::Status status = gate_->Admit(value(kPath), value(kAuthorization), [&] {
      MutexLock lock(PropertiesMutex());
      if (connection->FindPropertyValues(kForwarded).size() >= TokenGate::kMaxForwarded) {
        return false;
      }
      connection->AddProperty(kForwarded, "1");
      return true;
    });
    return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
  }

 private:
  const std::shared_ptr<TokenGate> gate_;
};

size_t CountForwarded(const grpc_auth_context* connection) {
  grpc_auth_property_iterator it =
      grpc_auth_context_find_properties_by_name(connection, kForwarded);
  size_t n = 0;
  while (grpc_auth_property_iterator_next(&it) != nullptr) ++n;
  return n;
}

// The same for plaintext, whose credentials take no AuthMetadataProcessor in C++.
void ProcessPlaintext(void* state, grpc_auth_context* connection, const grpc_metadata* metadata,
                      size_t n_metadata, grpc_process_auth_metadata_done_cb done, void* user_data) {
  std::string_view path, authorization;
  for (size_t i = 0; i < n_metadata; ++i) {
    if (Text(metadata[i].key) == kPath) path = Text(metadata[i].value);
    if (Text(metadata[i].key) == kAuthorization) authorization = Text(metadata[i].value);
  }
  const TokenGate& gate = **static_cast<std::shared_ptr<TokenGate>*>(state);
  const absl::Status status = gate.Admit(path, authorization, [&] {
    MutexLock lock(PropertiesMutex());
    if (CountForwarded(connection) >= TokenGate::kMaxForwarded) return false;
    grpc_auth_context_add_cstring_property(connection, kForwarded, "1");
    return true;
  });
  done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
       status.ok() ? nullptr : std::string(status.message()).c_str());
}

class PlaintextCredentials final : public grpc::ServerCredentials {
 public:
  explicit PlaintextCredentials(std::shared_ptr<TokenGate> gate)
      : credentials_(grpc_insecure_server_credentials_create()) {
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_,
        {.process = ProcessPlaintext,
         .destroy = [](void* state) { delete static_cast<std::shared_ptr<TokenGate>*>(state); },
         .state = new std::shared_ptr<TokenGate>(std::move(gate))});
  }
  ~PlaintextCredentials() override { grpc_server_credentials_release(credentials_); }
  PlaintextCredentials(const PlaintextCredentials&) = delete;
  PlaintextCredentials& operator=(const PlaintextCredentials&) = delete;

  // The gate is the processor.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TokenGate::Guard(
    std::shared_ptr<TokenGate> gate, std::shared_ptr<grpc::ServerCredentials> credentials) {
  if (credentials == nullptr) return std::make_shared<PlaintextCredentials>(std::move(gate));
  credentials->SetAuthMetadataProcessor(std::make_shared<GateProcessor>(std::move(gate)));
  return credentials;
}

absl::Status TokenGate::Admit(std::string_view path, std::string_view authorization,
                              const std::function<bool()>& forward) const {
  if (NeedsNoToken(path)) return absl::OkStatus();
  absl::Status status = check_(authorization);
  if (status.ok() || (ChecksTokens(path) && forward())) return absl::OkStatus();
  on_refused_(status);
  return status;
}

}  // namespace nerf
