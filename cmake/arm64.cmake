# Toolchain file: builds for arm64 (aarch64) on Debian. qemu-user runs the programs.
#
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install crossbuild-essential-arm64 pkg-config qemu-user zlib1g-dev:arm64 \
#     lib{microhttpd,gnutls28,jansson,zstd,lz4,cmocka}-dev:arm64
#   cmake -S . -B build/arm64 -G Ninja -D CMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake
#
# Libraries for arm64 may replace those of the machine; tests/platform/arm64 uses a root of its own to avoid that.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CUDA_HOST_COMPILER aarch64-linux-gnu-g++)

# Debian keeps libraries of several architectures in one root; only pkg-config must be told.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)

# For ctest. Without qemu the programs can be built, but not run.
find_program(VOXELD_QEMU_ARM64 NAMES qemu-aarch64 qemu-aarch64-static)
if(VOXELD_QEMU_ARM64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${VOXELD_QEMU_ARM64})
endif()
