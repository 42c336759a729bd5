# find_package(attn) gives attn::attn, the functions and the trace, attn::tools, which reads, writes and checks,
# and attn::view, which shows.
include(CMakePackageConfigHelpers)

set_target_properties(attn_tools PROPERTIES EXPORT_NAME tools)
set_target_properties(attn_view PROPERTIES EXPORT_NAME view)
add_library(attn::attn ALIAS attn)
add_library(attn::tools ALIAS attn_tools)
add_library(attn::view ALIAS attn_view)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
install(TARGETS attn attn_tools attn_view EXPORT attn_targets)
install(TARGETS attn_cli)
install(DIRECTORY include/attn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT attn_targets NAMESPACE attn:: DESTINATION ${package_folder})

configure_package_config_file(cmake/attnConfig.cmake.in ${PROJECT_BINARY_DIR}/attnConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnConfig.cmake ${PROJECT_BINARY_DIR}/attnConfigVersion.cmake
              cmake/Dependencies.cmake
        DESTINATION ${package_folder})
