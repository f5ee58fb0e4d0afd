// The services that gRPC itself provides, health and reflection, over a real socket. Debian does
// not ship their generated messages, so the tests read and write fields by number.
#include "server/rpc/services/rpc_server.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/error_reason.h"
#include "server/rpc/connections/token_gate.h"
#include "tests/server/rpc/rpc_test_server.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::IsEmpty;
using testing::IsSupersetOf;

const std::vector<std::string> kServices = {"nerf.v1.SceneService",         "nerf.v1.BlobService",
                                            "google.bytestream.ByteStream", "nerf.v1.ModelService",
                                            "nerf.v1.RenderService",        "nerf.v1.AdminService",
                                            "nerf.v1.WorkerService",        "nerf.v1.JobService"};

// An encoded message with one length-delimited field: a string or a submessage.
std::string Field(int number, const std::string& content) {
  google::protobuf::Empty message;
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(number, content);
  return message.SerializeAsString();
}

// The contents of the length-delimited fields with that number, in order.
std::vector<std::string> FieldsOf(const std::string& bytes, int number) {
  google::protobuf::Empty message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  std::vector<std::string> contents;
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i).number() == number) contents.push_back(fields.field(i).length_delimited());
  }
  return contents;
}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string FromBuffer(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

class RpcServerTest : public testing::Test {
 protected:
  // Sends one message on a new stream and returns the one answer. Without a token by the bare
  // channel.
  absl::StatusOr<std::string> Ask(const std::string& method, const std::string& request,
                                  bool is_bare = false) {
    grpc::GenericStub stub(is_bare ? server_.bare_channel : server_.channel);
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), "", &context);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, method, &queue);
    const auto wait = [&] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    call->StartCall(nullptr);
    wait();
    call->WriteLast(ToBuffer(request), grpc::WriteOptions(), nullptr);
    wait();  // fails if the call has ended already
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    const bool answered = wait();
    grpc::Status status;
    call->Finish(&status, nullptr);
    wait();
    if (!status.ok()) return FromGrpcStatus(status);
    EXPECT_TRUE(answered);
    return FromBuffer(answer);
  }

  // HealthCheckRequest{service = 1}; HealthCheckResponse{status = 1}.
  absl::StatusOr<std::string> Health(const std::string& service) {
    return Ask("/grpc.health.v1.Health/Check", Field(1, service));
  }
  // ServerReflectionRequest{file_containing_symbol = 4, list_services = 7}.
  std::string Reflect(const std::string& request) {
    const auto answer =
        Ask("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", request);
    EXPECT_THAT(answer, IsOk());
    return answer.ok() ? *answer : "";
  }

  RpcTestServer server_{/*over_socket=*/true};
};

TEST_F(RpcServerTest, HealthSaysNotServingOfEveryServiceWhileDrainingAndCallsAreStillAnswered) {
  const std::string serving = "\x08\x01", not_serving = "\x08\x02";
  std::vector<std::string> asked = kServices;
  asked.push_back("");
  for (const bool is_serving : {true, false, true}) {
    server_.rpc->SetServing(is_serving);
    for (const std::string& service : asked) {
      EXPECT_THAT(Health(service), IsOkAndHolds(is_serving ? serving : not_serving)) << service;
    }
    v1::ListWorkersResponse workers;
    EXPECT_THAT(RpcTestServer::Call(*server_.admin_stub, &v1::AdminService::Stub::ListWorkers,
                                    v1::ListWorkersRequest(), &workers),
                IsOk());
  }
  EXPECT_THAT(Health("nerf.v1.NoSuchService"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(RpcServerTest, ReflectionListsEveryServiceAndDescribesIt) {
  std::vector<std::string> names;
  // ServerReflectionResponse{list_services_response = 6 {service = 1 {name = 1}}}.
  for (const std::string& list : FieldsOf(Reflect(Field(7, "*")), 6)) {
    for (const std::string& service : FieldsOf(list, 1)) {
      for (const std::string& name : FieldsOf(service, 1)) names.push_back(name);
    }
  }
  EXPECT_THAT(names, IsSupersetOf(kServices));

  for (const std::string& service : kServices) {
    const std::string answer = Reflect(Field(4, service));
    EXPECT_THAT(FieldsOf(answer, 7), IsEmpty()) << "an error, for " << service;
    bool found = false;
    // {file_descriptor_response = 4 {file_descriptor_proto = 1}}.
    for (const std::string& files : FieldsOf(answer, 4)) {
      for (const std::string& bytes : FieldsOf(files, 1)) {
        google::protobuf::FileDescriptorProto file;
        ASSERT_TRUE(file.ParseFromString(bytes));
        for (const auto& described : file.service()) {
          found |=
              file.package() + "." + described.name() == service && described.method_size() > 0;
        }
      }
    }
    EXPECT_TRUE(found) << service;
  }
}

TEST_F(RpcServerTest, ReflectionNeedsATokenAndHealthDoesNot) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(
        Ask("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Field(7, "*"), true),
        StatusIs(absl::StatusCode::kUnauthenticated, "needs a token"));
    EXPECT_THAT(Ask("/grpc.health.v1.Health/Check", Field(1, ""), true), IsOk());
  }
  EXPECT_THAT(Ask("/grpc.health.v2.Other/Check", "", true),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(Ask("/grpc.health.v2.Other/Check", ""), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST_F(RpcServerTest, FirstRefusedCallsOfAConnectionSayWhyAndLaterOnesAreRefusedUnread) {
  const std::string list = "/nerf.v1.AdminService/ListWorkers";
  // An unfinished message: its handler is not called, so only the gate can answer.
  const auto ask_unfinished = [&] {
    grpc::GenericStub stub(server_.bare_channel);
    grpc::ClientContext context;
    PrepareCall(absl::Milliseconds(300), "", &context);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, list, &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return FromGrpcStatus(status);
  };
  EXPECT_THAT(ask_unfinished(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  for (size_t i = 1; i < TokenGate::kMaxForwarded; ++i) {
    EXPECT_THAT(Ask(list, "", true).status(),
                FailsWith(absl::StatusCode::kUnauthenticated, reason::kTokenMissing))
        << i;
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(ask_unfinished(), StatusIs(absl::StatusCode::kUnauthenticated, "needs a token"));
  }
  EXPECT_THAT(Ask(list, ""), IsOk()) << "with a token";
}

}  // namespace
}  // namespace nerf
