# Compiles what uses the public headers wrongly, and what another standard library makes of them.
#   cmake -DROOT=… -DBUILD=… -DCXX=… -P try.cmake
cmake_minimum_required(VERSION 3.22)

set(folder ${BUILD}/headers_tried)
file(MAKE_DIRECTORY ${folder})
function(compile)
    execute_process(COMMAND ${ARGN} -std=c++20 -fsyntax-only -I${ROOT}/include RESULT_VARIABLE code
                    OUTPUT_VARIABLE output ERROR_VARIABLE output)
    string(REPLACE ";" "" output "${output}") # which would split lists
    set(code ${code} PARENT_SCOPE)
    set(output "${output}" PARENT_SCOPE)
endfunction()
find_program(clang NAMES clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)
set(compilers ${CXX})
if(clang)
    list(APPEND compilers ${clang})
endif()

# Another tensor of xtensor's in place of a container: one error for each call, which says what to write.
file(WRITE ${folder}/wrong.cpp [[
#if __has_include(<xtensor/containers/xarray.hpp>)
#include <xtensor/containers/xarray.hpp>
#else
#include <xtensor/xarray.hpp>
#endif
#include <attn/reference/layers/encoder.hpp>
#include <attn/reference/ops/concat.hpp>
#include <attn/reference/ops/matmul.hpp>
#include <attn/reference/ops/softmax.hpp>
#include <attn/core/trace.hpp>
using namespace attn;
void wrong(const Matrix& m, const xt::xtensor<float, 2>& floats, const xt::xarray<double>& array,
           const EncoderLayerWeights& weights)
{
    const Attention first = scaled_dot_product_attention(m + m, m, m); // wrong
    scaled_dot_product_attention(m, m, m - m, {}, {}, {}, Trace());    // wrong
    scaled_dot_product_attention(floats, floats, floats);              // wrong
    scaled_dot_product_attention(array, array, array, {}, {});         // wrong
    encoder_layer(2 * m, {}, weights);                                 // wrong
    encoder_layer(m, m > 0, weights, {}, Trace());                     // wrong
    const Matrix product = matmul(m / m, m);                           // wrong
    concat_rows(m, floats);                                            // wrong
    attn::softmax(m + 1);                                              // wrong
    attn::transpose(array);                                            // wrong
    const Matrix step = Trace()("step[n, m]", "m * m", m * m);         // wrong
}
]])
file(STRINGS ${folder}/wrong.cpp wrong REGEX "// wrong$")
list(LENGTH wrong expected)
foreach(compiler IN LISTS compilers)
    compile(${compiler} ${folder}/wrong.cpp)
    string(REGEX MATCHALL " error: [^\n]*" errors "${output}")
    list(LENGTH errors count)
    list(FILTER errors EXCLUDE REGEX "Write  attn::Matrix m = x  and pass m")
    if(NOT count EQUAL expected OR errors)
        message(FATAL_ERROR "${compiler}: ${expected} wrong calls gave ${count} errors, of which these say something else: "
                            "${errors}\n${output}")
    endif()
endforeach()

# All public headers with LLVM's standard library, where there is one that xtensor compiles with. Those of MPI need MPI's.
if(NOT clang)
    message("no clang: the headers are not tried with another standard library")
    return()
endif()
file(GLOB_RECURSE headers RELATIVE ${ROOT}/include ${ROOT}/include/*.hpp)
list(FILTER headers EXCLUDE REGEX "^attn/engines/mpi/")
list(TRANSFORM headers PREPEND "#include <")
list(TRANSFORM headers APPEND ">\n" OUTPUT_VARIABLE all)
list(JOIN all "" all)
file(WRITE ${folder}/tensor.cpp "#include <attn/core/tensor.hpp>\n")
file(WRITE ${folder}/all.cpp "${all}")
compile(${clang} -stdlib=libc++ ${folder}/tensor.cpp)
if(NOT code EQUAL 0)
    message("no libc++ that xtensor compiles with: the headers are not tried with it")
    return()
endif()
compile(${clang} -stdlib=libc++ ${folder}/all.cpp)
if(NOT code EQUAL 0)
    message(FATAL_ERROR "the headers with libc++:\n${output}")
endif()
