# What attn stands on when emscripten compiles it. All but the C++ library are headers, whose folder script/lab names, and what
# they hold is compiled into attn. There are no threads; an .npz is read by docs/lab/stored_zip.cpp.
foreach(library xtensor xtensor-blas fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json PkgConfig::libhwy
                PkgConfig::libzip OpenMP::OpenMP_CXX Threads::Threads ZLIB::ZLIB)
    add_library(${library} INTERFACE IMPORTED GLOBAL)
endforeach()
set_target_properties(fmt::fmt PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY)
set_target_properties(spdlog::spdlog PROPERTIES INTERFACE_COMPILE_DEFINITIONS SPDLOG_FMT_EXTERNAL)
target_include_directories(OpenMP::OpenMP_CXX INTERFACE ${CMAKE_CURRENT_LIST_DIR}/one_thread)
set_target_properties(PkgConfig::libhwy PROPERTIES INTERFACE_COMPILE_DEFINITIONS HWY_COMPILE_ONLY_STATIC)
add_compile_options(-fwasm-exceptions -w) # the other compilers warn
add_link_options(-fwasm-exceptions)
