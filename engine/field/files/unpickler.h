#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// A value of a pickle that torch.save wrote.
struct PickledValue {
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
  int64_t number = 0;  // of whole numbers; the offset of a tensor; elements of a storage
  std::string text;    // of texts, names of functions, keys of storages
  std::vector<PickledValue*> items;       // keys and values in turn for a dictionary
  const PickledValue* storage = nullptr;  // of a tensor
  std::vector<int64_t> sizes, strides;    // of a tensor
};
using PickledKind = PickledValue::Kind;

// InvalidArgument: what is wrong at a byte of the file.
absl::Status WrongPickle(size_t place, std::string_view what);

// Runs pickles of one file, one after another. Source of the instructions: Python's documentation
// of pickletools.
class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : bytes_(bytes) {}

  size_t place() const { return at_; }
  std::string_view rest() const { return bytes_.substr(at_); }
  void Skip(size_t n) { at_ += n; }

  // The object of the next pickle; lives as long as this. Errors: InvalidArgument naming the byte
  // and what is not known; nothing that the file names is ever called.
  absl::StatusOr<const PickledValue*> Next();

 private:
  absl::StatusOr<std::string_view> Bytes(uint64_t n);
  absl::StatusOr<uint64_t> Unsigned(int n_bytes);
  absl::StatusOr<std::string_view> Line();

  absl::StatusOr<PickledValue*> New(PickledKind kind);
  absl::Status Push(PickledKind kind, int64_t number = 0, std::string_view text = {});
  absl::StatusOr<PickledValue*> Pop();
  absl::StatusOr<std::vector<PickledValue*>> PopToMark();
  absl::Status PushTuple(size_t n);
  // The items go to the container that is then on top.
  absl::Status AddTo(PickledKind kind, const std::vector<PickledValue*>& items);
  absl::Status Remember(uint64_t index);
  absl::Status Recall(uint64_t index);

  absl::Status Run(char code);
  absl::Status RunNumber(char code);
  absl::Status RunContainer(char code);
  absl::Status PushFunction();
  absl::Status PushStorage();
  absl::Status Call();
  absl::Status PushTensor(const PickledValue& arguments);

  const std::string_view bytes_;
  size_t at_ = 0;
  std::vector<std::unique_ptr<PickledValue>> values_;
  std::vector<PickledValue*> stack_, memo_;
  std::vector<size_t> marks_;
  size_t n_items_ = 0;
};

}  // namespace nerf
