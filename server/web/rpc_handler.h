#pragma once

#include <memory>

#include "server/web/http_exchange.h"
#include "server/web/rpc_format.h"
#include "server/web/upstream_call.h"

namespace google::protobuf {
class MethodDescriptor;
}

namespace nerf {

// Forwards one unary call or server stream in Connect's protocol or gRPC-Web. Client streams, which
// browsers cannot send, end with unimplemented. `max_message_bytes` bounds the request's message.
// Exchange and upstream outlive the handler.
std::unique_ptr<HttpHandler> MakeRpcHandler(const google::protobuf::MethodDescriptor& method,
                                            const RpcFormat& format, size_t max_message_bytes,
                                            HttpExchange* exchange, Upstream* upstream);

}  // namespace nerf
