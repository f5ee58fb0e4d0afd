#include "common/messages/proto_figures.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace nerf {

using google::protobuf::FieldDescriptor;

bool SetFigure(std::string_view name, double value, google::protobuf::Message* message) {
  const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr || field->is_repeated()) return false;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    message->GetReflection()->SetDouble(message, field, value);
    return true;
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    constexpr double kMax = std::numeric_limits<uint32_t>::max();
    const double clamped = value > 0 ? std::min(value, kMax) : 0;  // NaN becomes 0
    message->GetReflection()->SetUInt32(message, field, static_cast<uint32_t>(clamped));
    return true;
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
    constexpr double kMax = 9007199254740992.0;  // 2^53: doubles count exactly up to here
    const double clamped = value > 0 ? std::min(value, kMax) : 0;
    message->GetReflection()->SetUInt64(message, field, static_cast<uint64_t>(clamped));
    return true;
  }
  return false;
}

void DropNonFinite(google::protobuf::Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  const google::protobuf::Descriptor& descriptor = *message->GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) continue;
    if (!std::isfinite(reflection.GetDouble(*message, field)))
      reflection.ClearField(message, field);
  }
}

}  // namespace nerf
