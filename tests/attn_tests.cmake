# attn_tests of some files below tests/, with what all of them need: Catch2, and what is compiled into each.
function(add_attn_tests)
    add_executable(attn_tests ${ARGN} ${PROJECT_SOURCE_DIR}/lessons/curriculum.cpp)
    target_include_directories(attn_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR})
    target_compile_definitions(attn_tests PRIVATE ATTN_SOURCE_FOLDER="${PROJECT_SOURCE_DIR}"
                                                  ATTN_BIN_FOLDER="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
                                                  ATTN_VERSION="${PROJECT_VERSION}"
                                                  ATTN_WITH_MPI=$<BOOL:${ATTN_BUILD_MPI}>)
    target_compile_options(attn_tests PRIVATE -O0) # compiled more often than run; the work is done in the library
    target_link_libraries(attn_tests PRIVATE attn_core attn_compiler rapidcheck OpenMP::OpenMP_CXX xtensor-blas
                                             nlohmann_json::nlohmann_json fmt::fmt)
    if(TARGET Catch2::Catch2WithMain) # Catch2 3 brings a main, 2.13 wants one of ours
        target_link_libraries(attn_tests PRIVATE Catch2::Catch2WithMain)
    else()
        target_sources(attn_tests PRIVATE main.cpp)
        target_link_libraries(attn_tests PRIVATE Catch2::Catch2)
    endif()
    target_precompile_headers(attn_tests PRIVATE test.hpp ${PROJECT_SOURCE_DIR}/include/attn/core/trace.hpp)
    set_source_files_properties(main.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)

    # Where files are compiled together, those of a folder are: their names differ. Lists of steps and readers of goldens have
    # the same names everywhere, and are compiled alone.
    set_target_properties(attn_tests PROPERTIES UNITY_BUILD_MODE GROUP)
    list(FILTER ARGN EXCLUDE REGEX "(steps|golden|golden_cases)\\.cpp$")
    foreach(file ${ARGN})
        cmake_path(GET file PARENT_PATH folder)
        string(MAKE_C_IDENTIFIER "in_${folder}" folder)
        set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${folder})
    endforeach()
endfunction()
