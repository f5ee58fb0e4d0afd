#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace nerf {

// Figures of a message by the names of their fields, so that code which only passes figures on
// does not name each of them. A figure is a field of type double, uint32 or uint64.

// Sets the figure. Values outside of the range of its field, up to 2^53, are clamped to it. Returns
// false, and changes nothing, if the message has no such figure.
bool SetFigure(std::string_view name, double value, google::protobuf::Message* message);

// Clears fields of type double that are NaN or infinite.
void DropNonFinite(google::protobuf::Message* message);

}  // namespace nerf
