# Documentation made from definitions: `ninja docs` writes docs/generated of the build folder, and
# CI compares it with docs/generated of the repository; `ninja update-docs` copies it there.
add_custom_target(docs)
add_custom_target(update-docs
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_BINARY_DIR}/docs/generated
          ${PROJECT_SOURCE_DIR}/docs/generated
  DEPENDS docs)

# adapt_add_doc(NAME file.td flags…): docs/generated/NAME.md of what mlir-tblgen makes.
function(adapt_add_doc name td)
  set(out ${PROJECT_BINARY_DIR}/docs/generated/${name}.md)
  get_filename_component(folder ${out} DIRECTORY)
  string(REPLACE "/" "-" target docs-${name})
  set(depfile ${CMAKE_CURRENT_BINARY_DIR}/${target}.d)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND mlir-tblgen ${ARGN} -I ${PROJECT_SOURCE_DIR} -I ${MLIR_INCLUDE_DIRS}
            ${CMAKE_CURRENT_SOURCE_DIR}/${td} -o ${out} -d ${depfile}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${td}
    DEPFILE ${depfile}
    COMMENT "Documentation of ${name}"
    VERBATIM)
  add_custom_target(${target} DEPENDS ${out})
  add_dependencies(docs ${target})
endfunction()
