# Finds every library; no other file calls find_package. The versions are those known to work.
find_package(Threads REQUIRED)
if(NERF_ENABLE_CUDA)
  # Machine code for the A100 and H100 generations, and PTX that drivers compile for newer devices.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin REQUIRED)
  endif()
  enable_language(CUDA)
  if(CMAKE_VERSION VERSION_LESS 3.26)  # does not know yet that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # CMake 3.25 (Debian 12) marks this target as deprecated even where CUDA 13 no longer has it. This
  # empty target replaces it, also for a LibTorch with CUDA that names it.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND NOT TARGET CUDA::nvToolsExt)
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit 12.0 REQUIRED)
endif()
find_package(absl REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(PNG 1.6 REQUIRED)
find_package(ZLIB REQUIRED)  # of EXR pictures, archives and baked viewers
find_package(CLI11 2.1 REQUIRED)
find_package(meshoptimizer REQUIRED)  # of nerf-engine export
find_path(NERF_NANOVDB_INCLUDE nanovdb/util/GridBuilder.h)  # .nvdb, where it is found
find_package(SQLite3 3.40 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(turbojpeg REQUIRED IMPORTED_TARGET libturbojpeg>=2.1)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc>=2.5)
# Of nerf-engine: exported splats (.sog, .spz); HEIC, AVIF and WebP pictures where libheif is found.
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp>=1.0)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd>=1.4)
pkg_check_modules(heif IMPORTED_TARGET libheif>=1.12)
pkg_check_modules(highway REQUIRED IMPORTED_TARGET libhwy>=1.0.3)

find_package(Gloo QUIET)  # of nerf-engine train --ranks

# NCCL, for ranks on CUDA devices. Without CUDA a test compiles what uses it, where its header is at
# hand.
find_path(NERF_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include)
find_library(NERF_NCCL_LIBRARY nccl HINTS "${CUDAToolkit_LIBRARY_DIR}"
  PATHS /usr/local/cuda/lib64 /usr/local/cuda/lib)
mark_as_advanced(NERF_NCCL_INCLUDE NERF_NCCL_LIBRARY)
if(NERF_NCCL_INCLUDE AND NERF_NCCL_LIBRARY)
  add_library(nccl UNKNOWN IMPORTED GLOBAL)
  set_target_properties(nccl
    PROPERTIES IMPORTED_LOCATION "${NERF_NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
               "${NERF_NCCL_INCLUDE}")
endif()

find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf 3.21 REQUIRED)
endif()
if(NERF_BUILD_SERVICE)
  find_package(gRPC 1.51 CONFIG REQUIRED)
  find_package(Boost 1.81 REQUIRED)  # headers: Asio and Beast
  find_package(CURL 7.88 REQUIRED)  # blobs in S3
  pkg_check_modules(jose REQUIRED IMPORTED_TARGET jose>=11 jansson)
  if(NERF_ENABLE_POSTGRES)
    pkg_check_modules(libpq REQUIRED IMPORTED_TARGET libpq>=14)  # pipelines
  endif()
  pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp>=2.5)
  pkg_check_modules(chafa IMPORTED_TARGET chafa>=1.12)  # nerfctl --show
  find_package(prometheus-cpp CONFIG REQUIRED)  # 1.0.1 states no version
endif()
if(NERF_ENABLE_TORCH)
  # Quiet: Debian's package prints many lines about CUDA and MKL, which it was built without.
  set(CMAKE_MESSAGE_LOG_LEVEL_SAVED "${CMAKE_MESSAGE_LOG_LEVEL}")
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
  # A LibTorch with CUDA sets both of these for its own kernels in the caller's scope.
  set(cuda_architectures ${CMAKE_CUDA_ARCHITECTURES})
  set(cuda_flags ${CMAKE_CUDA_FLAGS})
  find_package(Torch 1.13 REQUIRED)
  set(CMAKE_CUDA_ARCHITECTURES ${cuda_architectures})
  set(CMAKE_CUDA_FLAGS ${cuda_flags})
  set(CMAKE_MESSAGE_LOG_LEVEL "${CMAKE_MESSAGE_LOG_LEVEL_SAVED}")
endif()
if(NERF_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED)
endif()
