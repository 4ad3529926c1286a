# Runs at installation, after install.cmake has set voxeld_source, voxeld_binary, voxeld_bindir and voxeld_sysconfdir:
# makes the last two absolute. With the prefix /usr, the configuration is in /etc.
set(prefix ${CMAKE_INSTALL_PREFIX})
cmake_path(ABSOLUTE_PATH prefix NORMALIZE)
string(REGEX REPLACE "/$" "" prefix "${prefix}")
cmake_path(ABSOLUTE_PATH voxeld_bindir BASE_DIRECTORY "${prefix}")
if(prefix STREQUAL "/usr")
  set(etc_above "/")
else()
  set(etc_above "${prefix}")
endif()
cmake_path(ABSOLUTE_PATH voxeld_sysconfdir BASE_DIRECTORY "${etc_above}")
