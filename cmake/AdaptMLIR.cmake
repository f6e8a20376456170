# LLVM and MLIR 22, and the helpers that every compiler library uses.
# Hints, not CMAKE_PREFIX_PATH in the presets: CMake would find the compiler there too, under another
# name than at the next run, and start over with an empty cache.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
find_package(LLD REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# adapt_mlir_library(NAME sources… DEPENDS libs…): a static library on libMLIR and libLLVM, with the
# project's precompiled header.
function(adapt_mlir_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  # What TableGen writes is not ours to keep free of warnings.
  target_include_directories(${name} SYSTEM PUBLIC ${PROJECT_BINARY_DIR} ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
  target_compile_definitions(${name} PUBLIC ${LLVM_DEFINITIONS_LIST})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} MLIR LLVM)
  if(NOT name STREQUAL "adapt_pch")
    target_precompile_headers(${name} REUSE_FROM adapt_pch)
  endif()
endfunction()
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND ${LLVM_DEFINITIONS})

# The precompiled header holds absolute paths, so ccache must neither share it between trees nor make
# its bytes part of what identifies the objects that use it: the checksum beside it does that.
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/pch.cpp CONTENT "")
add_library(adapt_pch STATIC ${PROJECT_BINARY_DIR}/pch.cpp)
target_include_directories(adapt_pch PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(adapt_pch SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(adapt_pch PUBLIC ${LLVM_DEFINITIONS_LIST})
target_precompile_headers(adapt_pch PRIVATE <cmake/pch.h>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Without CMake's second option, an -include with an absolute path, which ccache does not make relative.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
endif()
set_target_properties(adapt_pch PROPERTIES CXX_COMPILER_LAUNCHER "")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/pch.h)
file(SHA256 ${PROJECT_SOURCE_DIR}/cmake/pch.h pch_checksum)
string(APPEND pch_checksum " MLIR ${MLIR_VERSION} LLVM ${LLVM_PACKAGE_VERSION} ${CMAKE_CXX_COMPILER_VERSION}")
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/CMakeFiles/adapt_pch.dir/cmake_pch.hxx.pch.sum CONTENT "${pch_checksum}\n")
