# Compiler settings as interface targets. Every target links nerf::options: language level, warnings
# and sanitizers.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(NERF_CCACHE ccache)
if(NERF_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # time_macros and pch sloppiness let ccache cache files with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}"
    CCACHE_NOHASHDIR=1
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    "${NERF_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()

add_library(nerf_options INTERFACE)
add_library(nerf::options ALIAS nerf_options)
target_include_directories(nerf_options INTERFACE "${CMAKE_SOURCE_DIR}")
# nvcc does not understand the compiler's flags.
function(nerf_cxx_options)
  target_compile_options(nerf_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
nerf_cxx_options(-Wall -Wextra -Wno-unused-parameter -Werror=return-type)
if(NERF_WERROR)
  nerf_cxx_options(-Werror)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # The base build runs on every x86-64 of the last fifteen years; Highway selects AVX2 and AVX-512
  # kernels at run time.
  nerf_cxx_options(-march=x86-64-v2)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  nerf_cxx_options(-Wthread-safety)
endif()
if(NERF_SANITIZE)
  # The check of vptrs opens a pipe for each type, and reports where a test has used up descriptors.
  nerf_cxx_options(-fsanitize=${NERF_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer
                   -fno-sanitize-recover=all)
  target_link_options(nerf_options INTERFACE -fsanitize=${NERF_SANITIZE})
  # Sanitizers miss an index beyond a vector's size but inside its memory, and NERF_DCHECKs are off
  # in these builds unless enabled here.
  target_compile_definitions(nerf_options INTERFACE _GLIBCXX_ASSERTIONS NERF_SANITIZED)
endif()
if(NERF_FUZZ)
  nerf_cxx_options(-fsanitize=fuzzer-no-link)
endif()
find_program(NERF_MOLD mold)
if(NERF_MOLD)
  target_link_options(nerf_options INTERFACE -fuse-ld=mold)
endif()
