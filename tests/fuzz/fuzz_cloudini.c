// Fuzzes blobs of cloudini; see packed_files.h. The input is a blob.
#include "tests/fuzz/packed_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  packed_file_read(FORMAT_CLOUDINI, data, size);
  return 0;
}
