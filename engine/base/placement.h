#pragma once

#include <optional>

namespace nerf {

constexpr int kMaxBoxes = 8;  // nested; the outermost box is then 128 times the level-0 one

// A cube in the data set's own frame and unit.
struct OwnCube {
  double center[3] = {0, 0, 0};
  double side = 0;
  bool operator==(const OwnCube&) const = default;
};

// How a data set is placed in the training frame, as far as the user says so.
struct Placement {
  std::optional<OwnCube> box;  // what becomes the level-0 box; none: chosen by the reader
  int n_boxes = 0;             // nested boxes, the level-0 box included; 0: the scene's own number
  // The own axis that points up: 0, 1, 2 are x, y, z and 3, 4, 5 their opposites; -1: the mean of
  // the cameras' up.
  int up_axis = -1;
  bool operator==(const Placement&) const = default;
};

}  // namespace nerf
