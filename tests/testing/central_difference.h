#pragma once

namespace nerf {

// (loss(x + step) - loss(x - step)) / (2 step) for x = *variable, which keeps its value.
template <typename Value, typename Loss>
double CentralDifference(Value* variable, double step, const Loss& loss) {
  const Value value = *variable;
  *variable = static_cast<Value>(value + step);
  const double above = loss();
  *variable = static_cast<Value>(value - step);
  const double below = loss();
  *variable = value;
  return (above - below) / (2 * step);
}

}  // namespace nerf
