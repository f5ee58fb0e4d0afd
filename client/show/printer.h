#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/repeated_field.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/flags/global_flags.h"
#include "client/flags/text_format.h"

namespace nerf {

// Where results are printed, and in which format.
struct Printer {
  std::ostream& out;
  OutputFormat format = OutputFormat::kTable;
  bool color = false;
  absl::Time now;  // for ages
};

// The protobuf JSON mapping, including fields with default values, the keys of maps in order; on
// one line unless `pretty`. No trailing newline.
std::string ToJson(const google::protobuf::Message& message, bool pretty);

// Prints a message as JSON. Returns false, and prints nothing, for other formats.
bool PrintJson(const Printer& printer, const google::protobuf::Message& message);

// The same for what is no message of the API. As lines, each element of an array has its own.
bool PrintJson(const Printer& printer, const nlohmann::ordered_json& value);

// Prints messages as a JSON array (json; "[]" for none) or one per line (jsonl). Returns false, and
// prints nothing, for other formats. `unlisted` is a field, as JSON names it, that the server
// leaves out of lists: it is not printed, because an empty one would not be true. Empty: there is
// none.
bool PrintJsonList(const Printer& printer,
                   const std::vector<const google::protobuf::Message*>& messages,
                   const std::string& unlisted = "");

template <typename Message>
bool PrintJsonList(const Printer& printer, const std::vector<Message>& messages,
                   const std::string& unlisted = "") {
  std::vector<const google::protobuf::Message*> pointers;
  pointers.reserve(messages.size());
  for (const Message& message : messages) pointers.push_back(&message);
  return PrintJsonList(printer, pointers, unlisted);
}

// What programs read of resources: with --output name their names, else their JSON, as PrintJson
// and PrintJsonList print it. Return false, and print nothing, for tables.
template <typename Message>
bool PrintForPrograms(const Printer& printer, const Message& message) {
  if (printer.format != OutputFormat::kName) return PrintJson(printer, message);
  printer.out << PlainText(message.name()) << '\n';
  return true;
}
template <typename Message>
bool PrintListForPrograms(const Printer& printer, const std::vector<Message>& messages,
                          const std::string& unlisted = "") {
  if (printer.format != OutputFormat::kName) return PrintJsonList(printer, messages, unlisted);
  for (const Message& message : messages) PrintForPrograms(printer, message);
  return true;
}

}  // namespace nerf
