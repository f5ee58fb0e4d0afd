#pragma once

#include <string>
#include <vector>

#include "engine/scene/image.h"

namespace nerf {

// Points joined by a line, in the order of x.
struct PlotSeries {
  std::string name;  // for the legend
  std::vector<double> x, y;
};

struct PlotOptions {
  std::string title, x_label, y_label;  // letters, digits and simple punctuation; shown in capitals
  int width = 960, height = 600;        // pixels
};

// An RGB picture of the series: x on a logarithmic axis with a tick at each distinct value, y on a
// linear axis with round ticks, points labeled with their values. Values of x are positive; points
// that are not finite are omitted.
ImageU8 DrawLinePlot(const PlotOptions& options, const std::vector<PlotSeries>& series);

// At most max_ticks multiples of 1, 2 or 5 times a power of ten, the first at or below `low` and
// the last at or above `high`. If high <= low, low + 1 is used instead.
std::vector<double> RoundTicks(double low, double high, int max_ticks);

}  // namespace nerf
