#include "engine/field/parameters/start_scope.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/edit_distance.h"
#include "common/status_macros.h"
#include "engine/base/config/start_shape.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

constexpr std::string_view kNames[] = {"all", "field", "mlp", "occupancy"};
constexpr std::string_view kBits = "occupancy.bits";
// Of the field, but no layers of an MLP.
constexpr std::string_view kTables[] = {"field.hash_table", "field.voxels", "field.bricks"};

// Without the prefix of the proposal network, whose tensors belong to the field, too.
std::string_view Unprefixed(std::string_view tensor) {
  constexpr std::string_view kProposal = "proposal.";
  if (tensor.starts_with(kProposal)) tensor.remove_prefix(kProposal.size());
  return tensor;
}

absl::Status Missing(std::string_view tensor) {
  return absl::InvalidArgumentError(fmt::format("tensor {} is missing", tensor));
}

absl::Status CheckShape(const Tensor& held, const TensorShape& wanted) {
  if (ShapeFitsStart(held.shape, wanted)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("tensor {} is [{}], the config wants [{}]",
                                                wanted.name, fmt::join(held.shape, ", "),
                                                fmt::join(wanted.shape, ", ")));
}

}  // namespace

std::string_view StartScopeName(StartScope scope) { return kNames[static_cast<int>(scope)]; }

absl::StatusOr<StartScope> ParseStartScope(std::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) return static_cast<StartScope>(found - std::begin(kNames));
  return absl::InvalidArgumentError(NotOneOf(name, kNames));
}

bool IsInScope(StartScope scope, std::string_view tensor) {
  const std::string_view name = Unprefixed(tensor);
  const bool of_field = name.starts_with("field.");
  const bool of_table =
      std::find(std::begin(kTables), std::end(kTables), name) != std::end(kTables);
  switch (scope) {
    case StartScope::kAll:
      return of_field || tensor == kBits;
    case StartScope::kField:
      return of_field;
    case StartScope::kMlp:
      return of_field && !of_table;
    case StartScope::kOccupancy:
      return tensor == kBits;
  }
  return false;
}

absl::Status CheckScopeFits(StartScope scope, const std::vector<TensorShape>& wanted,
                            const TensorFile& start, const TensorFile& fresh) {
  int n_found = 0;
  for (const TensorShape& tensor : wanted) {
    if (!IsInScope(scope, tensor.name)) continue;
    const auto held = start.tensors.find(tensor.name);
    if (held == start.tensors.end()) return Missing(tensor.name);
    NERF_RETURN_IF_ERROR(CheckShape(held->second, tensor));
    ++n_found;
  }
  if (scope == StartScope::kOccupancy) {
    const std::string bits(kBits);
    const auto held = start.tensors.find(bits), here = fresh.tensors.find(bits);
    if (here != fresh.tensors.end()) {
      if (held == start.tensors.end()) return Missing(kBits);
      NERF_RETURN_IF_ERROR(CheckShape(held->second, {bits, "", here->second.shape}));
      ++n_found;
    }
  }
  if (n_found > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the method has nothing in the scope {}", StartScopeName(scope)));
}

TensorFile TakeScope(StartScope scope, TensorFile start, TensorFile fresh) {
  if (scope == StartScope::kAll) return start;
  for (auto& [name, tensor] : start.tensors) {
    if (IsInScope(scope, name)) fresh.tensors[name] = std::move(tensor);
  }
  // Where a field is stored with more than its tensors.
  if (scope == StartScope::kField) fresh.metadata = std::move(start.metadata);
  return fresh;
}

}  // namespace nerf
