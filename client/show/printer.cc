#include "client/show/printer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <nlohmann/json.hpp>
#include <ostream>

namespace nerf {

namespace {

// With the keys of maps in order.
std::string SortedBytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializePartialToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.add_whitespace = pretty;
  // Not MessageToJsonString, which prints the keys of maps in another order each time.
  const std::string prefix = "type.googleapis.com";
  static auto* const types = google::protobuf::util::NewTypeResolverForDescriptorPool(
      prefix, google::protobuf::DescriptorPool::generated_pool());
  std::string json;
  // Fails only for messages of types that we do not send (Any without its type).
  if (!google::protobuf::util::BinaryToJsonString(
           types, prefix + "/" + message.GetDescriptor()->full_name(), SortedBytes(message), &json,
           options)
           .ok()) {
    return "{}";
  }
  while (!json.empty() && json.back() == '\n') json.pop_back();
  return json;
}

bool PrintJson(const Printer& printer, const google::protobuf::Message& message) {
  if (printer.format != OutputFormat::kJson && printer.format != OutputFormat::kJsonLines) {
    return false;
  }
  printer.out << ToJson(message, printer.format == OutputFormat::kJson) << '\n';
  return true;
}

bool PrintJson(const Printer& printer, const nlohmann::ordered_json& value) {
  const auto print = [&](const nlohmann::ordered_json& part, int indent) {
    printer.out << part.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  };
  if (printer.format == OutputFormat::kJson) {
    print(value, 2);
  } else if (printer.format == OutputFormat::kJsonLines && value.is_array()) {
    for (const nlohmann::ordered_json& element : value) print(element, -1);
  } else if (printer.format == OutputFormat::kJsonLines) {
    print(value, -1);
  } else {
    return false;
  }
  return true;
}

bool PrintJsonList(const Printer& printer,
                   const std::vector<const google::protobuf::Message*>& messages,
                   const std::string& unlisted) {
  const auto text_of = [&](const google::protobuf::Message& message) {
    std::string text = ToJson(message, false);
    if (unlisted.empty()) return text;
    auto value = nlohmann::ordered_json::parse(text);
    value.erase(unlisted);
    return value.dump();
  };
  if (printer.format == OutputFormat::kJsonLines) {
    for (const auto* message : messages) printer.out << text_of(*message) << '\n';
    return true;
  }
  if (printer.format != OutputFormat::kJson) return false;
  printer.out << '[';
  for (size_t i = 0; i < messages.size(); ++i) {
    printer.out << (i == 0 ? "\n" : ",\n") << text_of(*messages[i]);
  }
  printer.out << (messages.empty() ? "]\n" : "\n]\n");
  return true;
}

}  // namespace nerf
