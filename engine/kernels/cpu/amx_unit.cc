// Compiled with AMX and AVX-512 instructions where the compiler has them (CMakeLists.txt): only the
// question at the end whether the machine has them, too, runs before that is known.
#include "engine/kernels/cpu/pair_product.h"

#ifdef __AMX_BF16__

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/kernels/cpu/tile_product.h"

namespace nerf::kernels::cpu {
namespace {

struct AmxTiles {
  // Eight tiles of 16 rows of 64 bytes each (palette 1).
  static void Begin() {
    struct alignas(64) Config {
      uint8_t palette = 1, start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Config) == 64);
    const Config config;
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  // So that a switch of threads need not keep the tiles.
  static void End() { asm volatile("tilerelease"); }
  // In assembly, since the compilers' intrinsics want tile numbers that are digits in the source.
  template <int tile>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int tile>
  static void Load(const void* rows, ptrdiff_t bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(bytes), "i"(tile) : "memory");
  }
  template <int tile>
  static void Store(void* rows, ptrdiff_t bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(bytes), "i"(tile) : "memory");
  }
  template <int c, int a, int b>
  static void Multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

// The processor has AMX-TILE, AMX-BF16 and AVX-512F, and the kernel lets this process use tiles,
// which must be asked for since their state is large (Linux, x86/xstate).
bool IsUsable() {
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAvx512F = 1u << 16;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0 || (ebx & kAvx512F) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

constexpr PairUnit kUnit{.name = "AMX", .pair_block = kTileSide, .product = TileProduct<AmxTiles>};

}  // namespace

const PairUnit* AmxUnit() {
  static const bool is_usable = IsUsable();
  return is_usable ? &kUnit : nullptr;
}

}  // namespace nerf::kernels::cpu

#else

namespace nerf::kernels::cpu {
const PairUnit* AmxUnit() { return nullptr; }
}  // namespace nerf::kernels::cpu

#endif
