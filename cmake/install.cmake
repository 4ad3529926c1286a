# What `cmake --install BUILD [--prefix PREFIX] [--strip]` installs, DESTDIR before it all: the daemon, what it serves and its service, by
# the GNU layout. No test program is among it.
include(GNUInstallDirs)

install(TARGETS voxeld RUNTIME)
install(FILES api/openapi.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/voxeld)
install(FILES ${presets} DESTINATION ${CMAKE_INSTALL_DATADIR}/voxeld/presets)
install(FILES README.md TYPE DOC)
install(DIRECTORY docs/ TYPE DOC FILES_MATCHING PATTERN "*.md")
install(FILES packaging/voxeld.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8)
if(EXISTS ${CMAKE_SOURCE_DIR}/api/c/voxeld_client.h)
  install(FILES api/c/voxeld_client.h TYPE INCLUDE)
endif()

# The rest depends on the prefix, which is known only then.
install(CODE "set(voxeld_source [[${CMAKE_SOURCE_DIR}]])
set(voxeld_binary [[${CMAKE_BINARY_DIR}]])
set(voxeld_bindir [[${CMAKE_INSTALL_BINDIR}]])
set(voxeld_sysconfdir [[${CMAKE_INSTALL_SYSCONFDIR}]])")
install(SCRIPT cmake/install_service.cmake)
