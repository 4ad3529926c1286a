# cpack runs this after packing: packs the files again, so that equal files give equal bytes. Members are sorted, belong
# to root, have the time SOURCE_DATE_EPOCH, and permissions that do not depend on the umask.

# cpack takes the installed size from du, which depends on the file system. This counts each file in whole KiB, like
# dpkg-gencontrol.
function(write_installed_size FOLDER)
  file(GLOB_RECURSE files ${FOLDER}/*)
  list(FILTER files EXCLUDE REGEX "/DEBIAN/[^/]*$")
  set(total 0)
  foreach(file IN LISTS files)
    file(SIZE ${file} size)
    math(EXPR total "${total} + (${size} + 1023) / 1024")
  endforeach()
  file(READ ${FOLDER}/DEBIAN/control control)
  string(REGEX REPLACE "Installed-Size: [0-9]+" "Installed-Size: ${total}" control "${control}")
  file(WRITE ${FOLDER}/DEBIAN/control "${control}")
endfunction()

set(unpacked ${CPACK_TEMPORARY_DIRECTORY}/again)
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  file(REMOVE_RECURSE ${unpacked})
  if(package MATCHES "\\.deb$")
    execute_process(COMMAND dpkg-deb --raw-extract ${package} ${unpacked} COMMAND_ERROR_IS_FATAL ANY)
    write_installed_size(${unpacked})
    execute_process(COMMAND find ${unpacked} -exec touch -hd @$ENV{SOURCE_DATE_EPOCH} {} + COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND chmod -R u=rwX,go=rX ${unpacked} COMMAND_ERROR_IS_FATAL ANY)
    execute_process(
      COMMAND dpkg-deb --root-owner-group -Z ${CPACK_DEBIAN_COMPRESSION_TYPE} --build ${unpacked} ${package}
      OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  else()
    file(MAKE_DIRECTORY ${unpacked})
    execute_process(COMMAND tar -xzf ${package} -C ${unpacked} COMMAND_ERROR_IS_FATAL ANY)
    execute_process(
      COMMAND tar -c -C ${unpacked} --sort=name --format=gnu --owner=root:0 --group=root:0 --mode=u=rwX,go=rX
              --mtime=@$ENV{SOURCE_DATE_EPOCH} ${CPACK_PACKAGE_FILE_NAME}
      COMMAND gzip -9n
      OUTPUT_FILE ${package} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
