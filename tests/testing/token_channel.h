#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nerf {

// Adds a token to every call that carries none.
class TokenInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(std::string token) : value_("Bearer " + std::move(token)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA)) {
      auto* metadata = methods->GetSendInitialMetadata();
      if (metadata->count("authorization") == 0) metadata->emplace("authorization", value_);
    }
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class TokenInterceptorFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptorFactory(std::string token) : token_(std::move(token)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new TokenInterceptor(token_);
  }

 private:
  const std::string token_;
};

inline std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
TokenInterceptors(const std::string& token) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<TokenInterceptorFactory>(token));
  return interceptors;
}

// A plain channel to a server on this machine, whose calls carry a token.
inline std::shared_ptr<grpc::Channel> TokenChannel(const std::string& address,
                                                   const std::string& token) {
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, grpc::InsecureChannelCredentials(), {}, TokenInterceptors(token));
}

}  // namespace nerf
