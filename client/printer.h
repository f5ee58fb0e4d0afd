#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/repeated_field.h>

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/global_flags.h"

namespace nerf {

// Where results go and how they look.
struct Printer {
  std::ostream& out;
  OutputFormat format = OutputFormat::kTable;
  bool color = false;
  absl::Time now;  // for ages
};

// The protobuf JSON mapping, fields with default values included; on one line unless `pretty`. No
// newline at the end.
std::string ToJson(const google::protobuf::Message& message, bool pretty);

// One message as JSON where the format asks for that. Returns false where it does not.
bool PrintJson(const Printer& printer, const google::protobuf::Message& message);

// Messages as a JSON array (json; "[]" when there are none) or one a line (jsonl). Returns false
// where the format asks for neither.
bool PrintJsonList(const Printer& printer,
                   const std::vector<const google::protobuf::Message*>& messages);

template <typename Message>
bool PrintJsonList(const Printer& printer, const std::vector<Message>& messages) {
  std::vector<const google::protobuf::Message*> pointers;
  pointers.reserve(messages.size());
  for (const Message& message : messages) pointers.push_back(&message);
  return PrintJsonList(printer, pointers);
}

}  // namespace nerf
