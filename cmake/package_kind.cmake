# Read by cpack before each kind of package.
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package_debian.cmake)
  unset(ENV{VOXELD_INSTALLED_PREFIX})
else() # may end up anywhere: its service is made for the most likely place
  set(ENV{VOXELD_INSTALLED_PREFIX} /usr/local)
endif()
