# What `cmake --install BUILD [--prefix PREFIX] [--component COMPONENT] [--strip]` installs, in the GNU layout.
# Components: daemon (all that an image needs), service (systemd's), dev (the C client), doc.
include(GNUInstallDirs)

install(TARGETS voxeld RUNTIME COMPONENT daemon)
install(FILES api/openapi.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/voxeld COMPONENT daemon)
install(FILES ${presets} DESTINATION ${CMAKE_INSTALL_DATADIR}/voxeld/presets COMPONENT daemon)
install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/voxeld/models COMPONENT daemon
        PATTERN README.md EXCLUDE)
install(FILES api/c/voxeld_client.h TYPE INCLUDE COMPONENT dev)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md packaging/debian/copyright TYPE DOC COMPONENT doc)
install(DIRECTORY docs TYPE DOC COMPONENT doc)
install(FILES docker/haproxy.cfg api/c/detect.c api/c/sensor.c
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT doc)
install(DIRECTORY docker/kubernetes DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT doc)
install(FILES packaging/voxeld.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT doc)

# The rest depends on the prefix, known at installation.
install(CODE "set(voxeld_source [[${CMAKE_SOURCE_DIR}]])
set(voxeld_binary [[${CMAKE_BINARY_DIR}]])
set(voxeld_bindir [[${CMAKE_INSTALL_BINDIR}]])
set(voxeld_sysconfdir [[${CMAKE_INSTALL_SYSCONFDIR}]])" ALL_COMPONENTS)
install(SCRIPT cmake/install_places.cmake ALL_COMPONENTS)
install(SCRIPT cmake/install_config.cmake COMPONENT daemon)
install(SCRIPT cmake/install_service.cmake COMPONENT service)
