# Writes a header with the hash of the files INPUTS.
set(all "")
foreach(file ${INPUTS})
  file(SHA256 ${file} hash)
  string(APPEND all "${hash}")
endforeach()
string(SHA256 hash "${all}")
file(WRITE ${OUTPUT} "#define ADAPT_CODEGEN_SOURCE_HASH \"${hash}\"\n")
