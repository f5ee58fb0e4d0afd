#include "engine/base/messages/crop_box.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/base/config/view_style_check.h"

namespace nerf {
namespace {

// `to` where there are as many numbers as it has.
template <size_t n>
void TakeNumbers(std::string field, const google::protobuf::RepeatedField<double>& from,
                 double (&to)[n], Problems* problems) {
  if (from.size() == static_cast<int>(n)) {
    std::copy(from.begin(), from.end(), to);
  } else {
    problems->Add(field, fmt::format("must be {} numbers", n));
  }
}

}  // namespace

OwnBox ReadCropBox(std::string_view field, const v1::CropBox& message, Problems* problems) {
  ViewStyle style;
  OwnBox& box = style.crop.emplace();
  TakeNumbers(fmt::format("{}.center", field), message.center(), box.center, problems);
  TakeNumbers(fmt::format("{}.size", field), message.size(), box.size, problems);
  if (!message.turn().empty())
    TakeNumbers(fmt::format("{}.turn", field), message.turn(), box.turn, problems);
  for (const Problem& problem : ProblemsOf(style))
    problems->Add(std::string(field) + problem.field.substr(problem.field.find('.')),
                  problem.message);
  return box;
}

v1::CropBox ToMessage(const OwnBox& box) {
  v1::CropBox message;
  *message.mutable_center() = {std::begin(box.center), std::end(box.center)};
  *message.mutable_size() = {std::begin(box.size), std::end(box.size)};
  const OwnBox level;
  if (!std::equal(std::begin(box.turn), std::end(box.turn), std::begin(level.turn)))
    *message.mutable_turn() = {std::begin(box.turn), std::end(box.turn)};
  return message;
}

std::string CropText(const v1::CropBox& box) {
  std::string text = fmt::format("{},{}", fmt::join(box.center(), ","), fmt::join(box.size(), ","));
  if (!box.turn().empty()) text += fmt::format(",{}", fmt::join(box.turn(), ","));
  return text;
}

}  // namespace nerf
