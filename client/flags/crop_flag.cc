#include "client/flags/crop_flag.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace nerf {

void AddKeptCropFlag(CLI::App& command, std::string* crop) {
  command
      .add_option("--crop", *crop,
                  "Show and export only what is in this box from now on: center\nand sides in the "
                  "data set's frame, with its turn behind them,\na quaternion x,y,z,w")
      ->type_name("X,Y,Z,SX,SY,SZ|none");
}

}  // namespace nerf
