#include "tests/testing/cuda_emulation/block_runner.h"

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "engine/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// The section of the kernels' static shared variables; null if there are none.
extern "C" char __start_cuda_shared_variables[] __attribute__((weak));
extern "C" char __stop_cuda_shared_variables[] __attribute__((weak));

namespace nerf::cuda_emulation {
namespace {

constexpr size_t kStackBytes = 256 << 10;  // pages are allocated when touched
constexpr unsigned kWarp = 32;
constexpr unsigned kNoThread = ~0u;

ThreadOrder thread_order = ThreadOrder::kRising;

// A stack of its own, or the one that RunGrid was called on.
struct Fiber {
  ucontext_t context = {};  // of its start
  void* jump[5] = {};       // of its last switch
  bool has_run = false;
  std::unique_ptr<char[]> stack;
  unsigned thread = kNoThread;
  const void* bottom = nullptr;  // of the stack, for ASan
  size_t byte_size = 0;
  void* fake_stack = nullptr;
};

#if !defined(__SANITIZE_ADDRESS__)
[[noreturn, gnu::noinline]] void Jump(Fiber* to) { __builtin_longjmp(to->jump, 1); }
#endif

// Switches to another stack. With ASan through swapcontext and its annotations; otherwise by the
// compiler's jumps, which keep but three registers and make no system call.
[[gnu::noinline]] void Switch(Fiber* from, Fiber* to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->byte_size);
  swapcontext(&from->context, &to->context);
  __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#else
  // Neither jumps nor setcontext, a leaf to the compiler, tell it that others ran meanwhile.
  asm volatile("" ::: "memory");
  if (__builtin_setjmp(from->jump) != 0) return;
  if (to->has_run) Jump(to);
  to->has_run = true;
  setcontext(&to->context);
#endif
}

struct Waiting {
  Fiber* fiber = nullptr;  // null: does not wait
  const CallSite* site = nullptr;
  uint32_t mask = 0;  // 0 at a block barrier
  void* operand = nullptr;
  bool IsAt(const CallSite& there, uint32_t with_mask) const {
    return fiber != nullptr && mask == with_mask && site->line() == there.line() &&
           site->column() == there.column() &&
           (site->file_name() == there.file_name() ||
            std::strcmp(site->file_name(), there.file_name()) == 0);
  }
};

// Runs one block after another. A fiber runs thread after thread until one has to wait, so that
// kernels without barriers need no switches.
class BlockRunner {
 public:
  BlockRunner() { main_.has_run = true; }
  void Run(const char* name, const GridShape& shape, const std::function<void()>& body);
  void Wait(const CallSite& site, uint32_t mask, void* operand, WarpCombine combine);

  unsigned thread() const { return current_->thread; }
  unsigned block() const { return block_; }
  const GridShape& shape() const { return shape_; }
  void* shared_bytes() { return shared_.get(); }
  bool running() const { return body_ != nullptr; }

 private:
  static void FiberMain();
  void RunBlock();
  Fiber* Next();
  void Leave(Fiber* self);
  Fiber* IdleFiber();
  [[noreturn]] void ReportDivergence();

  const char* name_ = "";
  GridShape shape_;
  const std::function<void()>* body_ = nullptr;
  unsigned block_ = 0;
  std::unique_ptr<char[]> shared_;
  Fiber main_;
  Fiber* current_ = &main_;
  std::vector<std::unique_ptr<Fiber>> fibers_, stuck_;
  std::vector<Fiber*> idle_, ready_;
  std::vector<Waiting> waiting_;  // by thread
  unsigned n_begun_ = 0, n_ended_ = 0, n_waiting_at_barrier_ = 0;
  std::vector<unsigned> n_waiting_in_warp_;
};

// One a thread, since fibers return to the stack of the thread that they were started on.
BlockRunner& Runner() {
  thread_local BlockRunner runner;
  return runner;
}

void BlockRunner::FiberMain() {
  BlockRunner& self = Runner();
#if defined(__SANITIZE_ADDRESS__)
  // The first fiber of all is started by the stack of RunGrid, whose bounds only ASan knows.
  const bool is_first = self.main_.bottom == nullptr;
  __sanitizer_finish_switch_fiber(nullptr, is_first ? &self.main_.bottom : nullptr,
                                  is_first ? &self.main_.byte_size : nullptr);
#endif
  Fiber* const fiber = self.current_;
  while (true) {
    while (self.n_begun_ < self.shape_.n_threads) {
      const unsigned turn = self.n_begun_++;
      fiber->thread =
          thread_order == ThreadOrder::kRising ? turn : self.shape_.n_threads - 1 - turn;
      (*self.body_)();
      ++self.n_ended_;
    }
    fiber->thread = kNoThread;
    self.idle_.push_back(fiber);
    self.Leave(fiber);
  }
}

Fiber* BlockRunner::IdleFiber() {
  if (!idle_.empty()) {
    Fiber* const fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }
  auto fiber = std::make_unique<Fiber>();
  fiber->stack.reset(new char[kStackBytes]);
  fiber->bottom = fiber->stack.get();
  fiber->byte_size = kStackBytes;
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = kStackBytes;
  makecontext(&fiber->context, &BlockRunner::FiberMain, 0);
  fibers_.push_back(std::move(fiber));
  return fibers_.back().get();
}

// What runs when the current fiber cannot: a released one, one for the threads that have not begun,
// or, where there is neither, the stack that RunGrid was called on.
Fiber* BlockRunner::Next() {
  if (!ready_.empty()) {
    Fiber* const fiber = ready_.back();
    ready_.pop_back();
    return fiber;
  }
  return n_begun_ < shape_.n_threads ? IdleFiber() : &main_;
}

// Runs others until `self` is released, or is to run more threads.
void BlockRunner::Leave(Fiber* self) {
  Fiber* const next = Next();
  if (next == self) return;
  current_ = next;
  Switch(self, next);
}

void BlockRunner::Run(const char* name, const GridShape& shape, const std::function<void()>& body) {
  NERF_CHECK(!running());
  NERF_CHECK(shape.n_threads >= 1 && shape.n_threads <= 1024);
  name_ = name;
  shape_ = shape;
  body_ = &body;
  // Exactly the requested size, so that ASan detects accesses beyond it.
  shared_.reset(shape.shared_bytes > 0 ? new char[shape.shared_bytes] : nullptr);
  for (unsigned turn = 0; turn < shape.n_blocks; ++turn) {
    block_ = thread_order == ThreadOrder::kRising ? turn : shape.n_blocks - 1 - turn;
    RunBlock();
  }
  body_ = nullptr;
}

void BlockRunner::RunBlock() {
  if (shape_.shared_bytes > 0) std::memset(shared_.get(), 0xff, shape_.shared_bytes);
  std::memset(__start_cuda_shared_variables, 0xff,
              __stop_cuda_shared_variables - __start_cuda_shared_variables);
  waiting_.assign(shape_.n_threads, {});
  n_waiting_in_warp_.assign(shape_.n_threads / kWarp + 1, 0);
  n_begun_ = n_ended_ = n_waiting_at_barrier_ = 0;
  Leave(&main_);
  if (n_ended_ < shape_.n_threads) ReportDivergence();
}

void BlockRunner::Wait(const CallSite& site, uint32_t mask, void* operand, WarpCombine combine) {
  Fiber* const self = current_;
  const unsigned thread = self->thread;
  const bool whole_block = combine == nullptr;
  const unsigned first = whole_block ? 0 : thread / kWarp * kWarp;
  const unsigned end = whole_block ? shape_.n_threads : std::min(first + kWarp, shape_.n_threads);
  waiting_[thread] = {self, &site, mask, operand};
  const auto takes_part = [&](unsigned t) { return whole_block || (mask >> (t - first)) & 1; };
  // Only when enough threads wait, check which ones.
  unsigned& n_waiting = whole_block ? n_waiting_at_barrier_ : n_waiting_in_warp_[thread / kWarp];
  const unsigned n_expected =
      whole_block ? shape_.n_threads : static_cast<unsigned>(std::popcount(mask));
  bool complete = ++n_waiting >= n_expected;
  for (unsigned t = first; complete && t < end; ++t)
    complete = !takes_part(t) || waiting_[t].IsAt(site, mask);
  if (!whole_block && end - first < kWarp && (mask >> (end - first)) != 0) complete = false;
  if (!complete) {
    Leave(self);
    return;
  }
  n_waiting -= n_expected;
  if (!whole_block) {
    void* operands[kWarp] = {};
    for (unsigned t = first; t < end; ++t)
      if (takes_part(t)) operands[t - first] = waiting_[t].operand;
    combine(operands);
  }
  // In the order of their first run: the ready list is processed from its end.
  const auto release = [&](unsigned t) {
    if (!takes_part(t)) return;
    if (t != thread) ready_.push_back(waiting_[t].fiber);
    waiting_[t] = {};
  };
  if (thread_order == ThreadOrder::kRising) {
    for (unsigned t = end; t-- > first;) release(t);
  } else {
    for (unsigned t = first; t < end; ++t) release(t);
  }
}

void BlockRunner::ReportDivergence() {
  std::map<std::string, std::string> places;
  for (unsigned t = 0; t < shape_.n_threads; ++t) {
    const Waiting& w = waiting_[t];
    std::string place = "ended";
    if (w.fiber != nullptr) {
      place = std::string(w.mask == 0 ? "at the block barrier " : "at the warp operation ") +
              w.site->file_name() + ":" + std::to_string(w.site->line());
    }
    places[place] += (places[place].empty() ? "" : " ") + std::to_string(t);
  }
  std::string message = std::string("kernel ") + name_ + ", block " + std::to_string(block_) +
                        ": threads wait for one another without end:";
  for (const auto& [place, threads] : places) message += "\n  " + place + ": " + threads;
  // The stacks of stuck fibers cannot be unwound: they are kept, and new fibers replace them.
  std::move(fibers_.begin(), fibers_.end(), std::back_inserter(stuck_));
  fibers_.clear();
  idle_.clear();
  ready_.clear();
  body_ = nullptr;
  throw DivergenceError(message);
}

}  // namespace

void SetThreadOrder(ThreadOrder order) { thread_order = order; }

// Static shared variables, and atomic operations, which are plain ones here, are the process's: one
// kernel runs at a time.
void RunGrid(const char* name, const GridShape& shape, const std::function<void()>& body) {
  static Mutex& mu = *new Mutex;
  const MutexLock lock(mu);
  Runner().Run(name, shape, body);
}

unsigned ThreadIndex() { return Runner().thread(); }
unsigned BlockIndex() { return Runner().block(); }
const GridShape& Shape() { return Runner().shape(); }
void* SharedBytes() {
  NERF_CHECK(Runner().shared_bytes() != nullptr);
  return Runner().shared_bytes();
}

void BlockBarrier(const CallSite& site) { Runner().Wait(site, 0, nullptr, nullptr); }

void WarpOperation(uint32_t mask, void* operand, WarpCombine combine, const CallSite& site) {
  NERF_CHECK((mask >> (ThreadIndex() % kWarp)) & 1);
  Runner().Wait(site, mask, operand, combine);
}

}  // namespace nerf::cuda_emulation
