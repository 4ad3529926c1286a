# Read by cpack before each kind of package. A .tar.gz may end up anywhere: its service is made for the most likely place.
if(CPACK_GENERATOR STREQUAL TGZ)
  set(ENV{VOXELD_INSTALLED_PREFIX} /usr/local)
else()
  unset(ENV{VOXELD_INSTALLED_PREFIX})
endif()
