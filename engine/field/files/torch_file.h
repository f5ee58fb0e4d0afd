#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/field/files/tensor_file.h"

namespace nerf {

// Reads the float tensors of a file that torch.save wrote: a pickle that names storages, and the
// storages, one after another (before PyTorch 1.6) or as the files of a zip archive. Pickles are
// programs; this reader knows only the instructions that build dictionaries, lists, numbers, texts
// and tensors, and calls nothing: of the functions that a pickle may name it knows
// collections.OrderedDict and torch._utils._rebuild_tensor_v2. Anything else is refused by name.
// Memory stays within a small multiple of the file's size.
//
// A tensor at key a of the dictionary at key b has the name "b.a". What is no tensor is left out.
// Errors: NotFound; InvalidArgument naming the path, the place in bytes and what is wrong there.
absl::StatusOr<std::map<std::string, Tensor>> ReadTorchFile(const std::string& path);
absl::StatusOr<std::map<std::string, Tensor>> ParseTorchFile(std::string_view bytes,
                                                             const std::string& path_for_errors);

}  // namespace nerf
