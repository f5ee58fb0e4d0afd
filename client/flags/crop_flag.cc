#include "client/flags/crop_flag.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iterator>

namespace nerf {

v1::CropBox ToProto(const OwnBox& box) {
  v1::CropBox proto;
  *proto.mutable_center() = {std::begin(box.center), std::end(box.center)};
  *proto.mutable_size() = {std::begin(box.size), std::end(box.size)};
  const OwnBox level;
  if (!std::equal(std::begin(box.turn), std::end(box.turn), std::begin(level.turn)))
    *proto.mutable_turn() = {std::begin(box.turn), std::end(box.turn)};
  return proto;
}

std::string CropText(const v1::CropBox& box) {
  std::string text = fmt::format("{},{}", fmt::join(box.center(), ","), fmt::join(box.size(), ","));
  if (!box.turn().empty()) text += fmt::format(",{}", fmt::join(box.turn(), ","));
  return text;
}

void AddKeptCropFlag(CLI::App& command, std::string* crop) {
  command
      .add_option("--crop", *crop,
                  "Show and export only what is in this box from now on: center\nand sides in the "
                  "data set's frame, with its turn behind them,\na quaternion x,y,z,w")
      ->type_name("X,Y,Z,SX,SY,SZ|none");
}

}  // namespace nerf
