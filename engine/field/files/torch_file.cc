#include "engine/field/files/torch_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "common/status_macros.h"
#include "engine/field/files/unpickler.h"
#include "engine/field/files/zip_entries.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// A legacy file is five pickles: this number, this version, facts about the writer's machine, the
// object, and the keys of its storages in the order in which they follow.
constexpr std::string_view kMagicPickle =
    "\x80\x02\x8a\x0a"
    "l\xfc\x9c"
    "F\xf9 j\xa8P\x19.";
constexpr int64_t kProtocolVersion = 1001;
constexpr std::string_view kPickleName = "/data.pkl";  // in an archive

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
constexpr size_t kMaxTorchTensors = 4096;
constexpr size_t kMaxVisits = 1 << 17;  // a value may be in several places
constexpr int kMaxDepth = 16;

using Storages = std::map<std::string, std::string_view, std::less<>>;

// The storages behind the last pickle: for each key a count of 8 bytes, then as many floats.
absl::StatusOr<Storages> ReadStorages(const PickledValue& keys, Unpickler* file) {
  if (keys.kind != PickledKind::kList) return WrongPickle(file->place(), "no list of storages");
  Storages storages;
  for (const PickledValue* key : keys.items) {
    const std::string_view rest = file->rest();
    uint64_t n = 0;
    if (rest.size() < sizeof(n)) return WrongPickle(file->place(), "the file ends early");
    std::memcpy(&n, rest.data(), sizeof(n));
    if (key->kind != PickledKind::kText || n > (rest.size() - sizeof(n)) / sizeof(float))
      return WrongPickle(file->place(), "a storage that is larger than the file");
    const std::string_view floats = rest.substr(sizeof(n), n * sizeof(float));
    if (!storages.emplace(key->text, floats).second)
      return WrongPickle(file->place(), "two storages of one key");
    file->Skip(sizeof(n) + floats.size());
  }
  return storages;
}

class Collector {
 public:
  Collector(const Storages& storages, std::map<std::string, Tensor>* tensors)
      : storages_(storages), tensors_(*tensors) {}

  absl::Status Visit(const PickledValue& value, const std::string& name, int depth) {
    if (++n_visits_ > kMaxVisits || depth > kMaxDepth)
      return absl::InvalidArgumentError("the object is nested too deeply or too large");
    if (value.kind == PickledKind::kTensor) return Add(value, name);
    if (value.kind != PickledKind::kDictionary) return absl::OkStatus();
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const PickledValue& key = *value.items[i];
      if (key.kind != PickledKind::kText || key.text.size() > 256) continue;
      NERF_RETURN_IF_ERROR(Visit(*value.items[i + 1],
                                 name.empty() ? key.text : fmt::format("{}.{}", name, key.text),
                                 depth + 1));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Add(const PickledValue& value, const std::string& name) {
    const auto wrong = [&](std::string_view what) {
      return absl::InvalidArgumentError(fmt::format("tensor {}: {}", name, what));
    };
    const auto found = storages_.find(value.storage->text);
    if (found == storages_.end()) return wrong("its storage is missing");
    const auto held = static_cast<int64_t>(found->second.size() / sizeof(float));
    Tensor tensor;
    int64_t n = 1;
    for (size_t i = value.sizes.size(); i-- > 0;) {
      if (value.sizes[i] > 1 && value.strides[i] != n) return wrong("it is not contiguous");
      if (value.sizes[i] == 0 || value.sizes[i] > held / n) return wrong("larger than its storage");
      n *= value.sizes[i];
    }
    if (value.number < 0 || value.number > held - n) return wrong("larger than its storage");
    n_bytes_ += n * sizeof(float);
    if (tensors_.size() >= kMaxTorchTensors || n_bytes_ > kMaxFileBytes)
      return wrong("too many tensors");
    for (const int64_t side : value.sizes) tensor.shape.push_back(static_cast<uint32_t>(side));
    const char* const first = found->second.data() + value.number * sizeof(float);
    tensor.bytes.assign(first, first + n * sizeof(float));
    tensors_[name] = std::move(tensor);
    return absl::OkStatus();
  }

  const Storages& storages_;
  std::map<std::string, Tensor>& tensors_;
  size_t n_visits_ = 0;
  uint64_t n_bytes_ = 0;
};

// An archive has the object in FOLDER/data.pkl and storages in FOLDER/data/KEY.
absl::StatusOr<std::map<std::string, Tensor>> ParseArchive(std::string_view bytes) {
  NERF_ASSIGN_OR_RETURN(const ZipEntries entries, StoredZipEntries(bytes));
  const auto pickle = std::find_if(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.first.ends_with(kPickleName);
  });
  if (pickle == entries.end())
    return absl::InvalidArgumentError("not a file of torch.save: the archive has no data.pkl");
  const std::string folder = pickle->first.substr(0, pickle->first.size() - kPickleName.size() + 1);
  const auto order = entries.find(folder + "byteorder");
  if (order != entries.end() && order->second != "little")
    return absl::InvalidArgumentError("its numbers are not little-endian");
  Storages storages;
  const std::string storage_folder = folder + "data/";
  for (auto entry = entries.lower_bound(storage_folder);
       entry != entries.end() && entry->first.starts_with(storage_folder); ++entry) {
    storages.emplace(entry->first.substr(storage_folder.size()), entry->second);
  }
  Unpickler file(pickle->second);
  NERF_ASSIGN_OR_RETURN(const PickledValue* const object, file.Next());
  std::map<std::string, Tensor> tensors;
  NERF_RETURN_IF_ERROR(Collector(storages, &tensors).Visit(*object, "", 0));
  return tensors;
}

absl::StatusOr<std::map<std::string, Tensor>> Parse(std::string_view bytes) {
  if (bytes.starts_with("PK")) return ParseArchive(bytes);
  if (bytes.substr(0, kMagicPickle.size()) != kMagicPickle)
    return absl::InvalidArgumentError("not a file of torch.save");
  Unpickler file(bytes);
  file.Skip(kMagicPickle.size());
  NERF_ASSIGN_OR_RETURN(const PickledValue* const version, file.Next());
  if (version->kind != PickledKind::kNumber || version->number != kProtocolVersion)
    return absl::InvalidArgumentError("not version 1001 of the legacy format");
  NERF_RETURN_IF_ERROR(file.Next().status());  // facts about the machine
  NERF_ASSIGN_OR_RETURN(const PickledValue* const object, file.Next());
  NERF_ASSIGN_OR_RETURN(const PickledValue* const keys, file.Next());
  NERF_ASSIGN_OR_RETURN(const Storages storages, ReadStorages(*keys, &file));
  std::map<std::string, Tensor> tensors;
  NERF_RETURN_IF_ERROR(Collector(storages, &tensors).Visit(*object, "", 0));
  return tensors;
}

}  // namespace

absl::StatusOr<std::map<std::string, Tensor>> ParseTorchFile(std::string_view bytes,
                                                             const std::string& path_for_errors) {
  absl::StatusOr<std::map<std::string, Tensor>> tensors = Parse(bytes);
  if (tensors.ok()) return tensors;
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", path_for_errors, std::string(tensors.status().message())));
}

absl::StatusOr<std::map<std::string, Tensor>> ReadTorchFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return absl::InvalidArgumentError(fmt::format("{}: is a folder; a file is needed", path));
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(fmt::format("{}: cannot be opened", path));
  const auto size = static_cast<int64_t>(file.tellg());
  if (size < 0 || static_cast<uint64_t>(size) > kMaxFileBytes)
    return absl::InvalidArgumentError(
        fmt::format("{}: cannot be read, or is larger than 1 GiB", path));
  std::string bytes(size, '\0');
  file.seekg(0);
  if (!file.read(bytes.data(), size))
    return absl::InvalidArgumentError(fmt::format("{}: cannot be read", path));
  return ParseTorchFile(bytes, path);
}

}  // namespace nerf
