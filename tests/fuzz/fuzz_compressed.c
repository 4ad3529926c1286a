// Fuzzes serialized CompressedPointCloud2 messages; see packed_files.h. The input is a message.
#include "tests/fuzz/packed_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  packed_file_read(FORMAT_COMPRESSEDPOINTCLOUD2, data, size);
  return 0;
}
