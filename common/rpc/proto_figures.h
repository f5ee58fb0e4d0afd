#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <string_view>

namespace nerf {

// Figures of a message by the names of their fields, so that code which only passes figures on
// does not name each of them. A figure is a field of type double or uint32.

// Sets the figure. Values outside of the range of a uint32 are clamped to it. Returns false, and
// changes nothing, if the message has no such figure.
bool SetFigure(std::string_view name, double value, google::protobuf::Message* message);

// The figures that are not 0, without `optional` ones.
std::map<std::string, double> Figures(const google::protobuf::Message& message);

}  // namespace nerf
