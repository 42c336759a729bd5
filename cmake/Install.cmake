# find_package(attn) gives attn::attn, the functions with their trace, and attn::formula and attn::what_if, which check and
# answer it: they need xtensor and BLAS. The component fast gives attn::fast, which needs Highway and OpenMP. The component mpi gives attn::mpi, which needs MPI, too.
# The component tools, or one of its rooms by name, gives attn::tools, which reads,
# writes, prints and compares traces and weights, and needs the libraries that do so. Beside the attn program comes the
# Python that records what attn diff compares, as a file and as a package: pip install PREFIX/share/attn/python.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
function(install_targets export)
    foreach(target ${ARGN})
        string(REPLACE attn_ "" name ${target})
        set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
        add_library(attn::${name} ALIAS ${target})
    endforeach()
    install(TARGETS ${ARGN} EXPORT ${export})
    install(EXPORT ${export} NAMESPACE attn:: DESTINATION ${package_folder})
endfunction()

install_targets(attn_targets ${ATTN_CORE_TARGETS})
if(ATTN_BUILD_FAST)
    install_targets(attn_fast_targets ${ATTN_FAST_TARGETS})
endif()
if(ATTN_BUILD_MPI)
    install_targets(attn_mpi_targets ${ATTN_MPI_TARGETS})
endif()
if(ATTN_BUILD_TOOLS)
    install_targets(attn_tools_targets ${ATTN_TOOL_TARGETS})
endif()
if(ATTN_BUILD_PROGRAMS)
    install(TARGETS attn_cli)
    install(FILES python/attn_record.py python/pyproject.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/attn/python)
endif()
install(DIRECTORY include/attn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")

configure_package_config_file(cmake/attnConfig.cmake.in ${PROJECT_BINARY_DIR}/attnConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnConfig.cmake ${PROJECT_BINARY_DIR}/attnConfigVersion.cmake
              cmake/CoreDependencies.cmake cmake/FastDependencies.cmake cmake/MpiDependencies.cmake
              cmake/ToolDependencies.cmake
        DESTINATION ${package_folder})
