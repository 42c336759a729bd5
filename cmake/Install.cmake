# find_package(attn) gives attn::attn, the functions and the trace, and attn::tools, which reads, writes and checks.
# Both stand for rooms: attn::ops, attn::trace_io and so on.
include(CMakePackageConfigHelpers)

add_library(attn::attn ALIAS attn)
foreach(target attn_tools ${ATTN_FUNCTIONS} ${ATTN_TOOLS})
    string(REPLACE attn_ "" name ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    add_library(attn::${name} ALIAS ${target})
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
install(TARGETS attn attn_tools ${ATTN_FUNCTIONS} ${ATTN_TOOLS} EXPORT attn_targets)
install(TARGETS attn_cli)
install(DIRECTORY include/attn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT attn_targets NAMESPACE attn:: DESTINATION ${package_folder})

configure_package_config_file(cmake/attnConfig.cmake.in ${PROJECT_BINARY_DIR}/attnConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnConfig.cmake ${PROJECT_BINARY_DIR}/attnConfigVersion.cmake
              cmake/Dependencies.cmake
        DESTINATION ${package_folder})
