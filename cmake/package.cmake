# Packages, in BUILD/packages, by `cpack --config BUILD/CPackConfig.cmake`: a .deb, and a .tar.gz that runs wherever it
# is unpacked. Names have version, CUDA and platform. Two builds of one commit give the same bytes.
if(VOXELD_PORTABLE)
  set(CPACK_GENERATOR TGZ)
elseif(NOT CPACK_GENERATOR)
  set(CPACK_GENERATOR TGZ DEB)
endif()
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/package_kind.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/package_again.cmake)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(package_version ${PROJECT_VERSION})
set(package_backends "This build computes on the CPU.")
if(VOXELD_CUDA_FOUND)
  string(REGEX MATCH "^[0-9]+" cuda_major ${CMAKE_CUDA_COMPILER_VERSION})
  string(APPEND package_version +cuda${cuda_major})
  set(package_backends "This build computes on NVIDIA GPUs whose driver knows CUDA ${cuda_major},
and on the CPU without one.")
endif()

# The platform: debian12 and the like or, for a portable package, its libc. A .deb's version ends in ~PLATFORM, so that
# apt sorts 0.1.0~deb12, 0.1.0~deb13, 0.2.0~deb12.
cmake_host_system_information(RESULT distribution QUERY DISTRIB_INFO)
set(distribution ${distribution_ID}${distribution_VERSION_ID})
if(NOT distribution_VERSION_ID) # Debian's testing
  string(APPEND distribution ${distribution_VERSION_CODENAME})
endif()
string(REPLACE debian deb package_distribution "${distribution}")
if(VOXELD_PORTABLE)
  execute_process(COMMAND getconf GNU_LIBC_VERSION OUTPUT_VARIABLE libc OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE " " "" libc ${libc})
  set(distribution linux-${libc})
endif()
if(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "voxeld maintainers <maintainers@voxeld.invalid>")
endif()
set(CPACK_PACKAGE_VENDOR voxeld)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "network service that turns point clouds into voxels")
set(CPACK_PACKAGE_FILE_NAME ${PROJECT_NAME}-${package_version}-${distribution}-${CMAKE_SYSTEM_PROCESSOR})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_VERSION ${package_version}~${package_distribution})
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"voxeld takes raw float32 points of lidars over HTTP and answers with
binary voxel tensors, and chooses farthest points of them, with the same
bytes every time.
${package_backends}")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64) # else this machine's
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd-standalone-sysusers | systemd-sysusers") # systemd provides the latter
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA)
foreach(control conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/debian/${control})
endforeach()

set(CPACK_SOURCE_GENERATOR "")
include(CPack)
