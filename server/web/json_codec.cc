#include "server/web/json_codec.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/messages/rpc_status.h"

namespace nerf {
namespace {

google::protobuf::Message* NewMessage(const google::protobuf::Descriptor& type,
                                      google::protobuf::Arena* arena) {
  return google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New(arena);
}

}  // namespace

absl::StatusOr<std::string> JsonToBinary(const google::protobuf::Descriptor& type,
                                         std::string_view json) {
  google::protobuf::Arena arena;
  google::protobuf::Message* message = NewMessage(type, &arena);
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), message);
  if (!parsed.ok()) {
    const std::string words(parsed.message().data(), parsed.message().size());
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat(
            "not a ", type.full_name(), " in JSON: ", ToUtf8(words.substr(0, words.find('\n'))))),
        reason::kFieldInvalid);
  }
  return message->SerializeAsString();
}

absl::StatusOr<std::string> BinaryToJson(const google::protobuf::Descriptor& type,
                                         std::string_view binary) {
  google::protobuf::Arena arena;
  google::protobuf::Message* message = NewMessage(type, &arena);
  if (!message->ParseFromArray(binary.data(), static_cast<int>(binary.size()))) {
    return absl::InternalError(absl::StrCat("not a ", type.full_name()));
  }
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(*message, &json, options);
  if (!printed.ok()) {
    return absl::InternalError(absl::StrCat("a ", type.full_name(), " cannot be written as JSON"));
  }
  return json;
}

}  // namespace nerf
