# Looks for a CUDA toolkit and chooses GPUs. Sets VOXELD_CUDA_FOUND, VOXELD_CUDA_ABSENT (why there is no CUDA) and,
# unless it was set by hand, CMAKE_CUDA_ARCHITECTURES.
#
# A release has code for all GPUs of this list that the toolkit knows. Any other build has code for those of this
# machine that the toolkit knows or, if there are none, PTX for the oldest GPU of the list. N-real is machine code for
# GPU N; N also has PTX, as the last GPU of a build always has. Machine code also runs on later GPUs of the same major
# number, but an integrated GPU (87) needs its own. The driver compiles PTX for any later GPU when the daemon starts.
set(voxeld_gpus_release
  75-real  # Turing: T4, RTX 20
  80-real  # Ampere: A100
  86-real  # Ampere: A10, A40, RTX 30
  87-real  # Ampere: Jetson Orin
  89-real  # Ada: L4, L40, RTX 40
  90       # Hopper: H100, H200, Grace Hopper
  100-real # Blackwell: B200, GB200
  101-real # Blackwell: Jetson Thor, as CUDA 12.8 and 12.9 call it
  103-real # Blackwell: B300, GB300
  110-real # Blackwell: Jetson Thor, since CUDA 13
  120)     # Blackwell: RTX 50, and DGX Spark, which is 121

set(VOXELD_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (if nvcc is found), ON or OFF")
set_property(CACHE VOXELD_CUDA PROPERTY STRINGS AUTO ON OFF)
set(VOXELD_CUDA_FOUND OFF)
set(VOXELD_CUDA_ABSENT "no nvcc: built without CUDA")

# The listed GPUs that the toolkit knows; the last one also as PTX.
function(voxeld_known_gpus RESULT)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "sm_[0-9]+" names "${names}")
  set(known)
  foreach(gpu IN LISTS ARGN)
    string(REGEX REPLACE "^([0-9]+).*" "sm_\\1" name ${gpu})
    if(name IN_LIST names)
      list(APPEND known ${gpu})
    endif()
  endforeach()
  if(known)
    list(POP_BACK known last)
    string(REPLACE "-real" "" last ${last})
    list(APPEND known ${last})
  endif()
  set(${RESULT} ${known} PARENT_SCOPE)
endfunction()

# This machine's GPUs, else PTX that every GPU can run.
function(voxeld_gpus_here RESULT)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE status)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" found "${found}")
  if(NOT status EQUAL 0 OR NOT found)
    set(${RESULT} 75-virtual PARENT_SCOPE)
    return()
  endif()
  list(REMOVE_DUPLICATES found)
  string(REPLACE "." "" found "${found}")
  voxeld_known_gpus(known ${found})
  if(NOT known)
    set(known 75-virtual) # the toolkit is older than the GPUs
  endif()
  set(${RESULT} ${known} PARENT_SCOPE)
endfunction()

set(cuda_wanted ON)
if(NOT VOXELD_CUDA STREQUAL AUTO AND NOT VOXELD_CUDA)
  set(cuda_wanted OFF)
  set(VOXELD_CUDA_ABSENT "VOXELD_CUDA is ${VOXELD_CUDA}")
endif()
if(cuda_wanted AND NOT CMAKE_CUDA_COMPILER)
  find_program(VOXELD_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(VOXELD_NVCC)
    set(CMAKE_CUDA_COMPILER ${VOXELD_NVCC})
  endif()
endif()
if(cuda_wanted AND (CMAKE_CUDA_COMPILER OR NOT VOXELD_CUDA STREQUAL AUTO))
  set(architectures_by_hand ${CMAKE_CUDA_ARCHITECTURES})
  if(NOT architectures_by_hand AND DEFINED ENV{CUDAARCHS})
    set(architectures_by_hand $ENV{CUDAARCHS})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES 75) # for enable_language; replaced below
  enable_language(CUDA)
  set(VOXELD_CUDA_FOUND ON)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 11.8)
    message(FATAL_ERROR "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old; 11.8 or newer is needed")
  endif()
  if(architectures_by_hand)
    set(CMAKE_CUDA_ARCHITECTURES ${architectures_by_hand})
  elseif(CMAKE_BUILD_TYPE STREQUAL Release)
    voxeld_known_gpus(CMAKE_CUDA_ARCHITECTURES ${voxeld_gpus_release})
  else()
    voxeld_gpus_here(CMAKE_CUDA_ARCHITECTURES)
  endif()
endif()
