# Builds the functions and checks as shared libraries, installs them, and runs a program that links them.
#   cmake -DROOT=… -DBUILD=… -DGENERATOR=… -DCXX=… -P try.cmake
cmake_minimum_required(VERSION 3.22)

set(folder ${BUILD}/shared)
file(MAKE_DIRECTORY ${folder}/mine)
file(REMOVE_RECURSE ${folder}/installed)
function(run)
    execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${folder} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT code EQUAL 0)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "${command} ended with ${code}:\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} -S ${ROOT} -B built -G ${GENERATOR} -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=Debug
    -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_UNITY_BUILD=ON -DATTN_BUILD_TOOLS=OFF -DATTN_BUILD_PROGRAMS=OFF
    -DATTN_BUILD_LESSONS=OFF -DATTN_BUILD_TESTS=OFF)
run(${CMAKE_COMMAND} --build built)
run(${CMAKE_COMMAND} --install built --prefix ${folder}/installed)

file(WRITE ${folder}/mine/mine.cpp [[
#include "attn/reference/attention/dot_product.hpp"
#include "attn/formula/evaluate.hpp"
#include <cstdio>
int main()
{
    const attn::Matrix x{{1, 0}, {0, 1}};
    std::printf("%.3f\n", attn::scaled_dot_product_attention(x, x, x).context(0, 0));
}
]])
file(WRITE ${folder}/mine/CMakeLists.txt [[
cmake_minimum_required(VERSION 3.22)
project(mine LANGUAGES CXX)
find_package(attn REQUIRED)
add_executable(mine mine.cpp)
target_link_libraries(mine PRIVATE attn::attn attn::formula attn::mistakes)
]])
run(${CMAKE_COMMAND} -S mine -B mine/built -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${folder}/installed)
run(${CMAKE_COMMAND} --build mine/built)
run(mine/built/mine)
if(NOT output MATCHES "0.670") # e^(1/sqrt 2) / (e^(1/sqrt 2) + 1)
    message(FATAL_ERROR "a program with shared libraries printed:\n${output}")
endif()
file(GLOB libraries ${folder}/installed/lib*/libattn_*.so ${folder}/installed/lib*/*/libattn_*.so)
if(NOT libraries)
    message(FATAL_ERROR "no shared library was installed")
endif()

# The same program without CMake: pkg-config names attn's libraries, and BLAS only where libraries are static.
find_program(pkg_config NAMES pkg-config pkgconf)
if(pkg_config)
    file(GLOB_RECURSE pc ${folder}/installed/*/attn.pc)
    cmake_path(GET pc PARENT_PATH pc)
    set(ENV{PKG_CONFIG_PATH} ${pc})
    run(sh -euc "${CXX} -std=c++20 mine/mine.cpp $(${pkg_config} --cflags --libs attn) -o mine_of_pc
        LD_LIBRARY_PATH=$(${pkg_config} --variable=libdir attn) ./mine_of_pc")
    if(NOT output MATCHES "0.670")
        message(FATAL_ERROR "a program with shared libraries of pkg-config printed:\n${output}")
    endif()
    run(${pkg_config} --libs attn)
    if(output MATCHES "blas")
        message(FATAL_ERROR "who links shared libraries links BLAS, too: ${output}")
    endif()
endif()

# What is built with CMake's own flags for a release warns of nothing, where g++ 12 sees most that is not there: strings that
# are put together in the formula of a mask. One file only, since all of them take minutes.
if(GENERATOR STREQUAL "Ninja")
    run(${CMAKE_COMMAND} -S ${ROOT} -B release -G Ninja -DCMAKE_BUILD_TYPE=Release -DATTN_WARNINGS_AS_ERRORS=ON
        -DATTN_BUILD_TOOLS=OFF -DATTN_BUILD_FAST=OFF -DATTN_BUILD_MPI=OFF -DATTN_BUILD_PROGRAMS=OFF -DATTN_BUILD_LESSONS=OFF
        -DATTN_BUILD_TESTS=OFF)
    run(${CMAKE_COMMAND} --build release --target src/CMakeFiles/attn_reference.dir/reference/attention/mask.cpp.o)
endif()
