# Tests of the CUDA kernels on an emulated GPU (tests/support/emulator/README.md). The emulator switches stacks in
# x86-64 code. Its addresses of shared variables have 32 bits, so it is not position-independent. UBSan finds vectors
# that are not aligned, at which a GPU faults. --no-regions: emulated kernels would crash at regions that their owners
# shorten.
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  return()
endif()
enable_language(CXX)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(emulator ${CMAKE_SOURCE_DIR}/tests/support/emulator)
set(emulated ${CMAKE_BINARY_DIR}/emulated)
file(GLOB_RECURSE emulated_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} kernels/cuda/*.cu kernels/cuda/*.cuh)
list(FILTER emulated_files EXCLUDE REGEX "/base/block\\.cu$") # it calls the driver
file(GLOB emulator_sources CONFIGURE_DEPENDS ${emulator}/*.cc)
set(translated)
foreach(file IN LISTS emulated_files)
  # A compiler takes .cu for CUDA C, so translated files end in .cu.cc.
  if(file MATCHES "\\.cu$")
    list(APPEND translated ${emulated}/${file}.cc)
  endif()
endforeach()
list(TRANSFORM emulated_files PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE emulated_paths)
set(emulated_headers ${emulated_files})
list(FILTER emulated_headers INCLUDE REGEX "\\.cuh$")
list(TRANSFORM emulated_headers PREPEND ${emulated}/)
add_custom_command(
  OUTPUT ${translated}
  BYPRODUCTS ${emulated_headers} # so that the same build sees a changed header
  COMMAND ${Python3_EXECUTABLE} ${emulator}/translate.py ${CMAKE_SOURCE_DIR} ${emulated} ${emulated_files}
  DEPENDS ${emulated_paths} ${emulator}/translate.py
  COMMENT "Translating the CUDA kernels for the emulator"
  VERBATIM)

# Translated headers come before the project's, the emulator's headers before CUDA's. Objects are linked before
# libraries, so they replace the CUDA kernels and CUDA's runtime.
add_library(emulated-gpu OBJECT ${translated} ${emulator_sources})
target_include_directories(emulated-gpu PUBLIC ${emulated} ${CMAKE_SOURCE_DIR}
                           "$<$<COMPILE_LANGUAGE:CXX>:${emulator}>")
target_include_directories(emulated-gpu SYSTEM PUBLIC ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_compile_definitions(emulated-gpu PUBLIC _GNU_SOURCE VOXELD_CUDA VOXELD_VERSION="${PROJECT_VERSION}")
target_compile_options(emulated-gpu PUBLIC -O2 -fno-pie -ffp-contract=off
  "$<$<COMPILE_LANGUAGE:CXX>:-w;-fsanitize=alignment,bounds,shift;-fno-sanitize-recover=all>")
target_link_options(emulated-gpu PUBLIC -no-pie -fsanitize=alignment,bounds,shift)
target_link_libraries(emulated-gpu PUBLIC api Threads::Threads m)
add_executable(cuda-equal-emulated $<TARGET_OBJECTS:cuda-equal>)
add_executable(cuda-scan-emulated tests/cuda/scan_emulated.cc)
add_executable(cuda-angles-emulated tests/cuda/angles_emulated.cc)
add_executable(cuda-calls-emulated tests/cuda/calls_emulated.c)
add_executable(cuda-stop-emulated tests/cuda/stop_emulated.cc)
foreach(program cuda-equal-emulated cuda-scan-emulated cuda-angles-emulated cuda-calls-emulated cuda-stop-emulated)
  target_link_libraries(${program} PRIVATE emulated-gpu)
  set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endforeach()
set_target_properties(emulated-gpu cuda-equal-emulated cuda-scan-emulated cuda-angles-emulated cuda-calls-emulated
                      cuda-stop-emulated PROPERTIES CXX_STANDARD 17 POSITION_INDEPENDENT_CODE OFF)

voxeld_test(cuda.scan_emulated plain cuda 60 ${CMAKE_BINARY_DIR}/bin/cuda-scan-emulated)
voxeld_test(cuda.angles_emulated plain cuda 60 ${CMAKE_BINARY_DIR}/bin/cuda-angles-emulated)
voxeld_test(cuda.calls_emulated plain cuda 60 ${CMAKE_BINARY_DIR}/bin/cuda-calls-emulated)
voxeld_test(cuda.stop_emulated plain cuda 60 ${CMAKE_BINARY_DIR}/bin/cuda-stop-emulated)
# Seed 2 has half as many random jobs. Its inputs are copied to the device.
foreach(seed 1 2)
  math(EXPR jobs "8 / ${seed}")
  voxeld_test(cuda.emulated_${seed} plain cuda 1200 ${CMAKE_BINARY_DIR}/bin/cuda-equal-emulated --jobs ${jobs}
              --samplings 4 --largest 8000 --no-lanes --no-regions --seed ${seed} /nowhere)
endforeach()
set_property(TEST cuda.emulated_1 APPEND PROPERTY ENVIRONMENT VOXELD_EMULATED_SEED=1)
set_property(TEST cuda.emulated_2 APPEND PROPERTY ENVIRONMENT VOXELD_EMULATED_SEED=2 VOXELD_EMULATED_BLIND=1
  VOXELD_EMULATED_GRAPHLESS=1)
