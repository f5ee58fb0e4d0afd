// Compiled with AMX and AVX-512 instructions if the compiler supports them (CMakeLists.txt). On a
// machine without them only AmxUnit() at the end may be called.
#include "engine/field/kernels/cpu/bf16_unit.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__)

#include <sys/syscall.h>
#include <unistd.h>

#include "engine/field/kernels/cpu/avx512_pairs-inl.h"
#include "engine/field/kernels/cpu/tile_layers.h"

namespace nerf::kernels::cpu {
namespace {

struct Amx : Avx512Pairs {
  // Eight tiles of 16 rows of 64 bytes each (palette 1). Only once per thread, because it takes a
  // tenth of the time of a layer on 128 rows. This requires that nothing else in the process
  // configures or releases tiles; no library of the engine does.
  static void Configure() {
    thread_local bool is_configured = false;
    if (is_configured) return;
    struct alignas(64) Config {
      uint8_t palette = 1, start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Config) == 64);
    const Config config;
    asm volatile("ldtilecfg %0" : : "m"(config));
    is_configured = true;
  }
  // In assembly, because the compilers' intrinsics accept only literal tile numbers.
  template <int tile>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int tile>
  static void Load(const void* rows, ptrdiff_t bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(bytes), "i"(tile) : "memory");
  }
  template <int tile>
  static void Save(void* rows, ptrdiff_t bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(bytes), "i"(tile) : "memory");
  }
  template <int c, int a, int b>
  static void Multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

// The processor has AVX-512-BF16, AMX-TILE and AMX-BF16, and Linux grants this process the use of
// tiles, which must be requested because their state is large (Linux, x86/xstate).
bool IsUsable() {
  if (!Avx512Pairs::IsUsable()) return false;
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

constexpr Bf16Unit kUnit{.name = "AMX",
                         .forward = TileForward<Amx>,
                         .backward_input = TileBackwardInput<Amx>,
                         .backward_weights = TileBackwardWeights<Amx>,
                         .pack_columns = Amx::PackColumns};

}  // namespace

const Bf16Unit* AmxUnit() {
  static const bool is_usable = IsUsable();
  return is_usable ? &kUnit : nullptr;
}

}  // namespace nerf::kernels::cpu

#else

namespace nerf::kernels::cpu {
const Bf16Unit* AmxUnit() { return nullptr; }
}  // namespace nerf::kernels::cpu

#endif
