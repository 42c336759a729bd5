# What is installed, and under which names: find_package(attn) gives attn::attn, the functions with their trace, and
# attn::formula and attn::mistakes, which check it and replace its values: they need xtensor and BLAS. The component fast gives attn::fast,
# which needs Highway and OpenMP, and the component mpi attn::mpi, which needs MPI, too. The component tools, or one of its
# rooms by name, gives attn::tools, which reads, writes, prints and compares traces and weights, and needs the libraries that
# do so. Beside the attn program comes the Python that records what attn diff compares, in
# PREFIX/share/attn/python. Who builds without CMake asks pkg-config for attn: the functions and checks.
#
# Who has attn as a part of a project has the same targets, and installs nothing of it unless ATTN_INSTALL says so.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/attn)
function(name_targets export)
    foreach(target ${ARGN})
        string(REPLACE attn_ "" name ${target})
        set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
        add_library(attn::${name} ALIAS ${target})
        list(APPEND names ${name})
    endforeach()
    set(ATTN_COMPONENTS_OF_${export} ${names} PARENT_SCOPE)
    if(ATTN_INSTALL)
        install(TARGETS ${ARGN} EXPORT ${export})
        install(EXPORT ${export} NAMESPACE attn:: DESTINATION ${package_folder})
    endif()
endfunction()

name_targets(attn_targets ${ATTN_CORE_TARGETS})
if(ATTN_BUILD_FAST)
    name_targets(attn_fast_targets ${ATTN_FAST_TARGETS})
endif()
if(ATTN_BUILD_MPI)
    name_targets(attn_mpi_targets ${ATTN_MPI_TARGETS})
endif()
if(ATTN_BUILD_TOOLS)
    name_targets(attn_tools_targets ${ATTN_TOOL_TARGETS})
endif()
if(SKBUILD) # a wheel of the package attn: pyproject.toml
    install(TARGETS attn_cli DESTINATION attn/bin COMPONENT python)
    install(DIRECTORY vectors/cases/ DESTINATION attn/vector_cases COMPONENT python FILES_MATCHING PATTERN "*.json")
endif()
if(NOT ATTN_INSTALL)
    return()
endif()

if(ATTN_BUILD_PROGRAMS)
    install(TARGETS attn_cli)
    install(DIRECTORY python/attn python/attn_record DESTINATION ${CMAKE_INSTALL_DATADIR}/attn/python FILES_MATCHING PATTERN "*.py" PATTERN "py.typed"
            PATTERN "__pycache__" EXCLUDE)
    install(FILES vectors/runners/check.py DESTINATION ${CMAKE_INSTALL_DATADIR}/attn/python/attn RENAME vector_check.py) # a link here
    install(DIRECTORY vectors/cases/ DESTINATION ${CMAKE_INSTALL_DATADIR}/attn/python/attn/vector_cases FILES_MATCHING PATTERN "*.json")
endif()
install(DIRECTORY include/attn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp"
        PATTERN include/attn/cli EXCLUDE) # of programs, whose library is not installed

# The licence and the pages, which refer to each other as they do here. Not CMAKE_INSTALL_DOCDIR, which is a parent's.
set(pages_folder ${CMAKE_INSTALL_DATAROOTDIR}/doc/attn)
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${pages_folder})
install(DIRECTORY docs/pages docs/images DESTINATION ${pages_folder}/docs)

configure_package_config_file(cmake/attnConfig.cmake.in ${PROJECT_BINARY_DIR}/attnConfig.cmake
                              INSTALL_DESTINATION ${package_folder} NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnConfig.cmake ${PROJECT_BINARY_DIR}/attnConfigVersion.cmake
              cmake/CoreDependencies.cmake cmake/FastDependencies.cmake cmake/MpiDependencies.cmake
              cmake/ToolDependencies.cmake
        DESTINATION ${package_folder})

# For pkg-config: libraries that need others come before them. Shared ones bring BLAS themselves. The prefix is found from
# where the file lies, since cmake --install can be given another one.
set(ATTN_LIBRARIES ${ATTN_CORE_TARGETS})
list(REMOVE_ITEM ATTN_LIBRARIES attn) # which has no file
list(REVERSE ATTN_LIBRARIES)
list(TRANSFORM ATTN_LIBRARIES PREPEND -l)
list(JOIN ATTN_LIBRARIES " " ATTN_LIBRARIES)
list(JOIN BLAS_LIBRARIES " " ATTN_BLAS)
string(STRIP "${BLAS_LINKER_FLAGS} ${ATTN_BLAS}" ATTN_BLAS)
if(BUILD_SHARED_LIBS)
    set(ATTN_LIBRARIES_PRIVATE ${ATTN_BLAS})
else()
    string(APPEND ATTN_LIBRARIES " ${ATTN_BLAS}")
endif()
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(ATTN_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
    file(RELATIVE_PATH ATTN_PREFIX /${pkgconfig_folder} /)
    string(REGEX REPLACE "/$" "" ATTN_PREFIX "${ATTN_PREFIX}")
    set(ATTN_PREFIX "\${pcfiledir}/${ATTN_PREFIX}")
endif()
foreach(folder LIBDIR INCLUDEDIR)
    set(ATTN_${folder} ${CMAKE_INSTALL_${folder}})
    if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_${folder}})
        set(ATTN_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
    endif()
endforeach()
configure_file(cmake/attn.pc.in ${PROJECT_BINARY_DIR}/attn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/attn.pc DESTINATION ${pkgconfig_folder})
