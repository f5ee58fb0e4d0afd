#include "engine/field/files/unpickler.h"

#include <utility>

#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kMaxValues = 1 << 20;
constexpr size_t kMaxTorchDimensions = 8;

absl::Status BadPickle(std::string_view what) {
  return absl::InvalidArgumentError(std::string(what));
}

}  // namespace

absl::Status WrongPickle(size_t place, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("at byte {}: {}", place, what));
}

absl::StatusOr<const PickledValue*> Unpickler::Next() {
  stack_.clear();
  marks_.clear();
  memo_.clear();
  for (;;) {
    const size_t begin = at_;
    NERF_ASSIGN_OR_RETURN(const uint64_t code, Unsigned(1));
    if (code == '.') {
      if (stack_.size() != 1) return WrongPickle(begin, "a pickle that leaves no one object");
      return stack_.back();
    }
    const absl::Status status = Run(static_cast<char>(code));
    if (!status.ok()) return WrongPickle(begin, std::string(status.message()));
  }
}

absl::StatusOr<std::string_view> Unpickler::Bytes(uint64_t n) {
  if (n > bytes_.size() - at_) return BadPickle("the file ends early");
  const std::string_view taken = bytes_.substr(at_, n);
  at_ += n;
  return taken;
}

absl::StatusOr<uint64_t> Unpickler::Unsigned(int n_bytes) {
  NERF_ASSIGN_OR_RETURN(const std::string_view held, Bytes(n_bytes));
  uint64_t number = 0;
  for (int i = 0; i < n_bytes; ++i) number |= uint64_t{static_cast<uint8_t>(held[i])} << (8 * i);
  return number;
}

absl::StatusOr<std::string_view> Unpickler::Line() {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos || end - at_ > 256) return BadPickle("a line without end");
  const std::string_view line = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

absl::StatusOr<PickledValue*> Unpickler::New(PickledKind kind) {
  if (values_.size() >= kMaxValues) return BadPickle("too many values");
  values_.push_back(std::make_unique<PickledValue>());
  values_.back()->kind = kind;
  return values_.back().get();
}

absl::Status Unpickler::Push(PickledKind kind, int64_t number, std::string_view text) {
  NERF_ASSIGN_OR_RETURN(PickledValue* const value, New(kind));
  value->number = number;
  value->text = std::string(text);
  stack_.push_back(value);
  return absl::OkStatus();
}

absl::StatusOr<PickledValue*> Unpickler::Pop() {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) return BadPickle("the stack is empty");
  PickledValue* const value = stack_.back();
  stack_.pop_back();
  return value;
}

absl::StatusOr<std::vector<PickledValue*>> Unpickler::PopToMark() {
  if (marks_.empty()) return BadPickle("no mark");
  std::vector<PickledValue*> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()),
                                   stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return items;
}

absl::Status Unpickler::PushTuple(size_t n) {
  NERF_ASSIGN_OR_RETURN(PickledValue* const tuple, New(PickledKind::kTuple));
  tuple->items.resize(n);
  for (size_t i = n; i-- > 0;) {
    NERF_ASSIGN_OR_RETURN(tuple->items[i], Pop());
  }
  stack_.push_back(tuple);
  return absl::OkStatus();
}

absl::Status Unpickler::AddTo(PickledKind kind, const std::vector<PickledValue*>& items) {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()) || stack_.back()->kind != kind)
    return BadPickle("items for what holds none");
  if (kind == PickledKind::kDictionary && items.size() % 2 != 0)
    return BadPickle("a key without a value");
  n_items_ += items.size();
  if (n_items_ > kMaxValues) return BadPickle("too many items");
  std::vector<PickledValue*>& held = stack_.back()->items;
  held.insert(held.end(), items.begin(), items.end());
  return absl::OkStatus();
}

absl::Status Unpickler::Remember(uint64_t index) {
  if (stack_.empty() || index > kMaxValues) return BadPickle("nothing to remember, or too much");
  if (memo_.size() <= index) memo_.resize(index + 1);
  memo_[index] = stack_.back();
  return absl::OkStatus();
}

absl::Status Unpickler::Recall(uint64_t index) {
  if (index >= memo_.size() || memo_[index] == nullptr)
    return BadPickle("recalls what was not kept");
  stack_.push_back(memo_[index]);
  if (stack_.size() > kMaxValues) return BadPickle("too many values");
  return absl::OkStatus();
}

absl::Status Unpickler::Run(char code) {
  switch (code) {
    case '\x80': {  // PROTO
      NERF_ASSIGN_OR_RETURN(const uint64_t protocol, Unsigned(1));
      return protocol == 2 ? absl::OkStatus() : BadPickle("not pickle protocol 2");
    }
    case 'c':
      return PushFunction();  // GLOBAL
    case 'Q':
      return PushStorage();  // BINPERSID
    case 'R':
      return Call();  // REDUCE
    case 'b': {       // BUILD: attributes, which nothing here has
      NERF_RETURN_IF_ERROR(Pop().status());
      return stack_.empty() ? BadPickle("attributes of nothing") : absl::OkStatus();
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
      return Push(PickledKind::kText, 0, text);
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
      return Push(PickledKind::kNone);
    case '\x88':
      return Push(PickledKind::kNumber, 1);  // NEWTRUE
    case '\x89':
      return Push(PickledKind::kNumber, 0);  // NEWFALSE
    case 'K':
    case 'M':
    case 'J': {  // BININT1, BININT2, BININT
      NERF_ASSIGN_OR_RETURN(const uint64_t number, Unsigned(code == 'K' ? 1 : code == 'M' ? 2 : 4));
      return Push(PickledKind::kNumber,
                  code == 'J' ? static_cast<int32_t>(number) : static_cast<int64_t>(number));
    }
    case 'G':  // BINFLOAT: nothing here needs its value
      NERF_RETURN_IF_ERROR(Bytes(8).status());
      return Push(PickledKind::kNone);
    default: {  // LONG1
      NERF_ASSIGN_OR_RETURN(const uint64_t size, Unsigned(1));
      if (size > 8) {  // a number that nothing here needs
        NERF_RETURN_IF_ERROR(Bytes(size).status());
        return Push(PickledKind::kNone);
      }
      NERF_ASSIGN_OR_RETURN(uint64_t number, Unsigned(static_cast<int>(size)));
      const bool is_negative = size > 0 && ((number >> (8 * size - 1)) & 1) != 0;
      if (is_negative && size < 8) number |= ~uint64_t{0} << (8 * size);
      return Push(PickledKind::kNumber, static_cast<int64_t>(number));
    }
  }
}

absl::Status Unpickler::RunContainer(char code) {
  switch (code) {
    case '(':  // MARK
      if (marks_.size() >= kMaxValues) return BadPickle("too many marks");
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
      NERF_ASSIGN_OR_RETURN(std::vector<PickledValue*> items, PopToMark());
      NERF_RETURN_IF_ERROR(Push(PickledKind::kTuple));
      stack_.back()->items = std::move(items);
      return absl::OkStatus();
    }
    case '}':
      return Push(PickledKind::kDictionary);
    case ']':
      return Push(PickledKind::kList);
    case 'a': {  // APPEND
      NERF_ASSIGN_OR_RETURN(PickledValue* const item, Pop());
      return AddTo(PickledKind::kList, {item});
    }
    case 's': {  // SETITEM
      NERF_ASSIGN_OR_RETURN(PickledValue* const value, Pop());
      NERF_ASSIGN_OR_RETURN(PickledValue* const key, Pop());
      return AddTo(PickledKind::kDictionary, {key, value});
    }
    case 'e':
    case 'u': {  // APPENDS, SETITEMS
      NERF_ASSIGN_OR_RETURN(const std::vector<PickledValue*> items, PopToMark());
      return AddTo(code == 'e' ? PickledKind::kList : PickledKind::kDictionary, items);
    }
    default:
      return BadPickle(fmt::format("instruction {:#04x} of pickles is not known here",
                                   static_cast<uint8_t>(code)));
  }
}

absl::Status Unpickler::PushFunction() {
  NERF_ASSIGN_OR_RETURN(const std::string_view module, Line());
  NERF_ASSIGN_OR_RETURN(const std::string_view name, Line());
  const std::string function = fmt::format("{}.{}", module, name);
  for (const std::string_view known :
       {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.FloatStorage"}) {
    if (function == known) return Push(PickledKind::kFunction, 0, function);
  }
  std::string printable;
  for (const char c : function.substr(0, 64)) printable += c >= ' ' && c < 127 ? c : '?';
  return BadPickle(fmt::format("it names {}, which is not called here", printable));
}

// From ("storage", type, key, device, elements, view).
absl::Status Unpickler::PushStorage() {
  NERF_ASSIGN_OR_RETURN(const PickledValue* const id, Pop());
  const bool is_storage =
      id->kind == PickledKind::kTuple && id->items.size() >= 5 &&
      id->items[0]->kind == PickledKind::kText && id->items[0]->text == "storage" &&
      id->items[1]->kind == PickledKind::kFunction && id->items[1]->text == "torch.FloatStorage" &&
      id->items[2]->kind == PickledKind::kText && id->items[4]->kind == PickledKind::kNumber &&
      id->items[4]->number >= 0;
  if (!is_storage) return BadPickle("a reference that is no storage of floats");
  if (id->items.size() > 5 && id->items[5]->kind != PickledKind::kNone)
    return BadPickle("a view of a storage");
  return Push(PickledKind::kStorage, id->items[4]->number, id->items[2]->text);
}

absl::Status Unpickler::Call() {
  NERF_ASSIGN_OR_RETURN(const PickledValue* const arguments, Pop());
  NERF_ASSIGN_OR_RETURN(const PickledValue* const function, Pop());
  if (function->kind != PickledKind::kFunction || arguments->kind != PickledKind::kTuple)
    return BadPickle("a call of what is no function");
  if (function->text == "collections.OrderedDict" && arguments->items.empty())
    return Push(PickledKind::kDictionary);
  if (function->text == "torch._utils._rebuild_tensor_v2") return PushTensor(*arguments);
  return BadPickle(fmt::format("{} with arguments that are not known here", function->text));
}

// From (storage, offset, sizes, strides, ...).
absl::Status Unpickler::PushTensor(const PickledValue& arguments) {
  const std::vector<PickledValue*>& a = arguments.items;
  const bool is_tensor =
      a.size() >= 4 && a[0]->kind == PickledKind::kStorage && a[1]->kind == PickledKind::kNumber &&
      a[2]->kind == PickledKind::kTuple && a[3]->kind == PickledKind::kTuple &&
      a[2]->items.size() == a[3]->items.size() && a[2]->items.size() <= kMaxTorchDimensions;
  if (!is_tensor) return BadPickle("a tensor with arguments that are not known here");
  NERF_RETURN_IF_ERROR(Push(PickledKind::kTensor, a[1]->number));
  PickledValue& tensor = *stack_.back();
  tensor.storage = a[0];
  for (const auto& [from, to] : {std::pair{a[2], &tensor.sizes}, {a[3], &tensor.strides}}) {
    for (const PickledValue* side : from->items) {
      if (side->kind != PickledKind::kNumber || side->number < 0 || side->number > INT32_MAX)
        return BadPickle("a tensor with a side that is no size");
      to->push_back(side->number);
    }
  }
  return absl::OkStatus();
}

}  // namespace nerf
