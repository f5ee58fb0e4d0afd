#include "engine/files/torch_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/files/zip_entries.h"
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
constexpr size_t kMaxValues = 1 << 20;
constexpr size_t kMaxTorchTensors = 4096;
constexpr size_t kMaxVisits = 1 << 17;  // a value may be in several places
constexpr int kMaxDepth = 16;
constexpr size_t kMaxTorchDimensions = 8;

struct Value {
  enum class Kind {
    kNone,
    kNumber,
    kText,
    kTuple,
    kList,
    kDictionary,
    kFunction,
    kStorage,
    kTensor
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;         // of whole numbers; the offset of a tensor; elements of a storage
  std::string text;           // of texts, names of functions, keys of storages
  std::vector<Value*> items;  // keys and values in turn for a dictionary
  const Value* storage = nullptr;       // of a tensor
  std::vector<int64_t> sizes, strides;  // of a tensor
};
using Kind = Value::Kind;

absl::Status Wrong(size_t place, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("at byte {}: {}", place, what));
}

// Runs pickles of one file, one after another. Source of the instructions: Python's documentation
// of pickletools.
class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : bytes_(bytes) {}

  size_t place() const { return at_; }
  std::string_view rest() const { return bytes_.substr(at_); }
  void Skip(size_t n) { at_ += n; }

  // The object of the next pickle; lives as long as this.
  absl::StatusOr<const Value*> Next() {
    stack_.clear();
    marks_.clear();
    memo_.clear();
    for (;;) {
      const size_t begin = at_;
      NERF_ASSIGN_OR_RETURN(const uint64_t code, Unsigned(1));
      if (code == '.') {
        if (stack_.size() != 1) return Wrong(begin, "a pickle that leaves no one object");
        return stack_.back();
      }
      const absl::Status status = Run(static_cast<char>(code));
      if (!status.ok()) return Wrong(begin, std::string(status.message()));
    }
  }

 private:
  static absl::Status Bad(std::string_view what) {
    return absl::InvalidArgumentError(std::string(what));
  }

  absl::StatusOr<std::string_view> Bytes(uint64_t n) {
    if (n > bytes_.size() - at_) return Bad("the file ends early");
    const std::string_view taken = bytes_.substr(at_, n);
    at_ += n;
    return taken;
  }
  absl::StatusOr<uint64_t> Unsigned(int n_bytes) {
    NERF_ASSIGN_OR_RETURN(const std::string_view held, Bytes(n_bytes));
    uint64_t number = 0;
    for (int i = 0; i < n_bytes; ++i) number |= uint64_t{static_cast<uint8_t>(held[i])} << (8 * i);
    return number;
  }
  absl::StatusOr<std::string_view> Line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos || end - at_ > 256) return Bad("a line without end");
    const std::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  absl::StatusOr<Value*> New(Kind kind) {
    if (values_.size() >= kMaxValues) return Bad("too many values");
    values_.push_back(std::make_unique<Value>());
    values_.back()->kind = kind;
    return values_.back().get();
  }
  absl::Status Push(Kind kind, int64_t number = 0, std::string_view text = {}) {
    NERF_ASSIGN_OR_RETURN(Value* const value, New(kind));
    value->number = number;
    value->text = std::string(text);
    stack_.push_back(value);
    return absl::OkStatus();
  }
  absl::StatusOr<Value*> Pop() {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) return Bad("the stack is empty");
    Value* const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  absl::StatusOr<std::vector<Value*>> PopToMark() {
    if (marks_.empty()) return Bad("no mark");
    std::vector<Value*> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  absl::Status PushTuple(size_t n) {
    NERF_ASSIGN_OR_RETURN(Value* const tuple, New(Kind::kTuple));
    tuple->items.resize(n);
    for (size_t i = n; i-- > 0;) {
      NERF_ASSIGN_OR_RETURN(tuple->items[i], Pop());
    }
    stack_.push_back(tuple);
    return absl::OkStatus();
  }
  // The items go to the container that is then on top.
  absl::Status AddTo(Kind kind, const std::vector<Value*>& items) {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()) || stack_.back()->kind != kind)
      return Bad("items for what holds none");
    if (kind == Kind::kDictionary && items.size() % 2 != 0) return Bad("a key without a value");
    n_items_ += items.size();
    if (n_items_ > kMaxValues) return Bad("too many items");
    std::vector<Value*>& held = stack_.back()->items;
    held.insert(held.end(), items.begin(), items.end());
    return absl::OkStatus();
  }
  absl::Status Remember(uint64_t index) {
    if (stack_.empty() || index > kMaxValues) return Bad("nothing to remember, or too much");
    if (memo_.size() <= index) memo_.resize(index + 1);
    memo_[index] = stack_.back();
    return absl::OkStatus();
  }
  absl::Status Recall(uint64_t index) {
    if (index >= memo_.size() || memo_[index] == nullptr) return Bad("recalls what was not kept");
    stack_.push_back(memo_[index]);
    if (stack_.size() > kMaxValues) return Bad("too many values");
    return absl::OkStatus();
  }

  absl::Status Run(char code);
  absl::Status RunNumber(char code);
  absl::Status RunContainer(char code);
  absl::Status PushFunction();
  absl::Status PushStorage();
  absl::Status Call();
  absl::Status PushTensor(const Value& arguments);

  const std::string_view bytes_;
  size_t at_ = 0;
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<Value*> stack_, memo_;
  std::vector<size_t> marks_;
  size_t n_items_ = 0;
};

absl::Status Unpickler::Run(char code) {
  switch (code) {
    case '\x80': {  // PROTO
      NERF_ASSIGN_OR_RETURN(const uint64_t protocol, Unsigned(1));
      return protocol == 2 ? absl::OkStatus() : Bad("not pickle protocol 2");
    }
    case 'c':
      return PushFunction();  // GLOBAL
    case 'Q':
      return PushStorage();  // BINPERSID
    case 'R':
      return Call();  // REDUCE
    case 'b': {       // BUILD: attributes, which nothing here has
      NERF_RETURN_IF_ERROR(Pop().status());
      return stack_.empty() ? Bad("attributes of nothing") : absl::OkStatus();
    }
    case 'q':
    case 'r': {  // BINPUT, LONG_BINPUT
      NERF_ASSIGN_OR_RETURN(const uint64_t index, Unsigned(code == 'q' ? 1 : 4));
      return Remember(index);
    }
    case 'h':
    case 'j': {  // BINGET, LONG_BINGET
      NERF_ASSIGN_OR_RETURN(const uint64_t index, Unsigned(code == 'h' ? 1 : 4));
      return Recall(index);
    }
    case 'X': {  // BINUNICODE
      NERF_ASSIGN_OR_RETURN(const uint64_t size, Unsigned(4));
      NERF_ASSIGN_OR_RETURN(const std::string_view text, Bytes(size));
      return Push(Kind::kText, 0, text);
    }
    case 'N':
    case '\x88':
    case '\x89':
    case 'J':
    case 'K':
    case 'M':
    case 'G':
    case '\x8a':
      return RunNumber(code);
    default:
      return RunContainer(code);
  }
}

absl::Status Unpickler::RunNumber(char code) {
  switch (code) {
    case 'N':
      return Push(Kind::kNone);
    case '\x88':
      return Push(Kind::kNumber, 1);  // NEWTRUE
    case '\x89':
      return Push(Kind::kNumber, 0);  // NEWFALSE
    case 'K':
    case 'M':
    case 'J': {  // BININT1, BININT2, BININT
      NERF_ASSIGN_OR_RETURN(const uint64_t number, Unsigned(code == 'K' ? 1 : code == 'M' ? 2 : 4));
      return Push(Kind::kNumber,
                  code == 'J' ? static_cast<int32_t>(number) : static_cast<int64_t>(number));
    }
    case 'G':  // BINFLOAT: nothing here needs its value
      NERF_RETURN_IF_ERROR(Bytes(8).status());
      return Push(Kind::kNone);
    default: {  // LONG1
      NERF_ASSIGN_OR_RETURN(const uint64_t size, Unsigned(1));
      if (size > 8) {  // a number that nothing here needs
        NERF_RETURN_IF_ERROR(Bytes(size).status());
        return Push(Kind::kNone);
      }
      NERF_ASSIGN_OR_RETURN(uint64_t number, Unsigned(static_cast<int>(size)));
      const bool is_negative = size > 0 && ((number >> (8 * size - 1)) & 1) != 0;
      if (is_negative && size < 8) number |= ~uint64_t{0} << (8 * size);
      return Push(Kind::kNumber, static_cast<int64_t>(number));
    }
  }
}

absl::Status Unpickler::RunContainer(char code) {
  switch (code) {
    case '(':  // MARK
      if (marks_.size() >= kMaxValues) return Bad("too many marks");
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case ')':
      return PushTuple(0);
    case '\x85':
      return PushTuple(1);
    case '\x86':
      return PushTuple(2);
    case '\x87':
      return PushTuple(3);
    case 't': {  // TUPLE
      NERF_ASSIGN_OR_RETURN(std::vector<Value*> items, PopToMark());
      NERF_RETURN_IF_ERROR(Push(Kind::kTuple));
      stack_.back()->items = std::move(items);
      return absl::OkStatus();
    }
    case '}':
      return Push(Kind::kDictionary);
    case ']':
      return Push(Kind::kList);
    case 'a': {  // APPEND
      NERF_ASSIGN_OR_RETURN(Value* const item, Pop());
      return AddTo(Kind::kList, {item});
    }
    case 's': {  // SETITEM
      NERF_ASSIGN_OR_RETURN(Value* const value, Pop());
      NERF_ASSIGN_OR_RETURN(Value* const key, Pop());
      return AddTo(Kind::kDictionary, {key, value});
    }
    case 'e':
    case 'u': {  // APPENDS, SETITEMS
      NERF_ASSIGN_OR_RETURN(const std::vector<Value*> items, PopToMark());
      return AddTo(code == 'e' ? Kind::kList : Kind::kDictionary, items);
    }
    default:
      return Bad(fmt::format("instruction {:#04x} of pickles is not known here",
                             static_cast<uint8_t>(code)));
  }
}

absl::Status Unpickler::PushFunction() {
  NERF_ASSIGN_OR_RETURN(const std::string_view module, Line());
  NERF_ASSIGN_OR_RETURN(const std::string_view name, Line());
  const std::string function = fmt::format("{}.{}", module, name);
  for (const std::string_view known :
       {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.FloatStorage"}) {
    if (function == known) return Push(Kind::kFunction, 0, function);
  }
  std::string printable;
  for (const char c : function.substr(0, 64)) printable += c >= ' ' && c < 127 ? c : '?';
  return Bad(fmt::format("it names {}, which is not called here", printable));
}

// From ("storage", type, key, device, elements, view).
absl::Status Unpickler::PushStorage() {
  NERF_ASSIGN_OR_RETURN(const Value* const id, Pop());
  const bool is_storage =
      id->kind == Kind::kTuple && id->items.size() >= 5 && id->items[0]->kind == Kind::kText &&
      id->items[0]->text == "storage" && id->items[1]->kind == Kind::kFunction &&
      id->items[1]->text == "torch.FloatStorage" && id->items[2]->kind == Kind::kText &&
      id->items[4]->kind == Kind::kNumber && id->items[4]->number >= 0;
  if (!is_storage) return Bad("a reference that is no storage of floats");
  if (id->items.size() > 5 && id->items[5]->kind != Kind::kNone) return Bad("a view of a storage");
  return Push(Kind::kStorage, id->items[4]->number, id->items[2]->text);
}

absl::Status Unpickler::Call() {
  NERF_ASSIGN_OR_RETURN(const Value* const arguments, Pop());
  NERF_ASSIGN_OR_RETURN(const Value* const function, Pop());
  if (function->kind != Kind::kFunction || arguments->kind != Kind::kTuple)
    return Bad("a call of what is no function");
  if (function->text == "collections.OrderedDict" && arguments->items.empty())
    return Push(Kind::kDictionary);
  if (function->text == "torch._utils._rebuild_tensor_v2") return PushTensor(*arguments);
  return Bad(fmt::format("{} with arguments that are not known here", function->text));
}

// From (storage, offset, sizes, strides, ...).
absl::Status Unpickler::PushTensor(const Value& arguments) {
  const std::vector<Value*>& a = arguments.items;
  const bool is_tensor = a.size() >= 4 && a[0]->kind == Kind::kStorage &&
                         a[1]->kind == Kind::kNumber && a[2]->kind == Kind::kTuple &&
                         a[3]->kind == Kind::kTuple && a[2]->items.size() == a[3]->items.size() &&
                         a[2]->items.size() <= kMaxTorchDimensions;
  if (!is_tensor) return Bad("a tensor with arguments that are not known here");
  NERF_RETURN_IF_ERROR(Push(Kind::kTensor, a[1]->number));
  Value& tensor = *stack_.back();
  tensor.storage = a[0];
  for (const auto& [from, to] : {std::pair{a[2], &tensor.sizes}, {a[3], &tensor.strides}}) {
    for (const Value* side : from->items) {
      if (side->kind != Kind::kNumber || side->number < 0 || side->number > INT32_MAX)
        return Bad("a tensor with a side that is no size");
      to->push_back(side->number);
    }
  }
  return absl::OkStatus();
}

using Storages = std::map<std::string, std::string_view, std::less<>>;

// The storages behind the last pickle: for each key a count of 8 bytes, then as many floats.
absl::StatusOr<Storages> ReadStorages(const Value& keys, Unpickler* file) {
  if (keys.kind != Kind::kList) return Wrong(file->place(), "no list of storages");
  Storages storages;
  for (const Value* key : keys.items) {
    const std::string_view rest = file->rest();
    uint64_t n = 0;
    if (rest.size() < sizeof(n)) return Wrong(file->place(), "the file ends early");
    std::memcpy(&n, rest.data(), sizeof(n));
    if (key->kind != Kind::kText || n > (rest.size() - sizeof(n)) / sizeof(float))
      return Wrong(file->place(), "a storage that is larger than the file");
    const std::string_view floats = rest.substr(sizeof(n), n * sizeof(float));
    if (!storages.emplace(key->text, floats).second)
      return Wrong(file->place(), "two storages of one key");
    file->Skip(sizeof(n) + floats.size());
  }
  return storages;
}

class Collector {
 public:
  Collector(const Storages& storages, std::map<std::string, Tensor>* tensors)
      : storages_(storages), tensors_(*tensors) {}

  absl::Status Visit(const Value& value, const std::string& name, int depth) {
    if (++n_visits_ > kMaxVisits || depth > kMaxDepth)
      return absl::InvalidArgumentError("the object is nested too deeply or too large");
    if (value.kind == Kind::kTensor) return Add(value, name);
    if (value.kind != Kind::kDictionary) return absl::OkStatus();
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const Value& key = *value.items[i];
      if (key.kind != Kind::kText || key.text.size() > 256) continue;
      NERF_RETURN_IF_ERROR(Visit(*value.items[i + 1],
                                 name.empty() ? key.text : fmt::format("{}.{}", name, key.text),
                                 depth + 1));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Add(const Value& value, const std::string& name) {
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
  NERF_ASSIGN_OR_RETURN(const Value* const object, file.Next());
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
  NERF_ASSIGN_OR_RETURN(const Value* const version, file.Next());
  if (version->kind != Kind::kNumber || version->number != kProtocolVersion)
    return absl::InvalidArgumentError("not version 1001 of the legacy format");
  NERF_RETURN_IF_ERROR(file.Next().status());  // facts about the machine
  NERF_ASSIGN_OR_RETURN(const Value* const object, file.Next());
  NERF_ASSIGN_OR_RETURN(const Value* const keys, file.Next());
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
