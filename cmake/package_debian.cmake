# cpack runs this before it packs a .deb: compresses manual pages, and adds a changelog, as Debian asks.
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/share/man/*.8)
file(GLOB folder ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/share/doc/${CPACK_PACKAGE_NAME})
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH
file(WRITE ${folder}/changelog
"${CPACK_PACKAGE_NAME} (${CPACK_DEBIAN_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md in this folder lists what changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
execute_process(COMMAND gzip -9n ${pages} ${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
