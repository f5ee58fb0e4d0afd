#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace prometheus {
class Registry;
}

namespace nerf {

enum class RpcType { kUnary, kClientStream, kServerStream, kBidiStream };

// The series of one gRPC method. Thread-safe.
class RpcMethodMetrics {
 public:
  virtual ~RpcMethodMetrics() = default;
  virtual void Started() = 0;
  virtual void MessageReceived() = 0;
  virtual void MessageSent() = 0;
  // `code` is the number of a gRPC status code; unknown numbers count as Unknown.
  virtual void Handled(int code, double seconds) = 0;
};

// The grpc_server_* families, named as in go-grpc-prometheus, so that existing dashboards work.
// Methods are added before the server starts; unknown ones count as "other". Counters of the codes
// that alerts read exist from the start, those of other codes from their first call.
class RpcMetrics {
 public:
  explicit RpcMetrics(prometheus::Registry& registry);  // outlives this
  ~RpcMetrics();

  // `service` is a full name such as nerf.v1.SceneService.
  void AddMethod(RpcType type, std::string_view service, std::string_view method);

  // `path` is "/service/method"; "other" when it was not added. Lives as long as this.
  RpcMethodMetrics* Find(std::string_view path) const;

 private:
  class Series;
  struct Families;
  const std::unique_ptr<Families> families_;
  std::map<std::string, std::unique_ptr<Series>, std::less<>> methods_;
  std::unique_ptr<Series> other_;
};

}  // namespace nerf
