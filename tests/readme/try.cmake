# Does what the README says: installs, builds its code with find_package(attn), runs it, and runs its commands.
#   cmake -DROOT=… -DBUILD=… -DGENERATOR=… -DPYTHON=… -P try.cmake
cmake_minimum_required(VERSION 3.22)

function(run)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "IN" "COMMAND")
    execute_process(COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${arg_IN}
                    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT code EQUAL 0)
        list(JOIN arg_COMMAND " " command)
        message(FATAL_ERROR "${command} ended with ${code}:\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

# A command that has to fail, and say something.
function(refused saying)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "IN" "COMMAND")
    execute_process(COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${arg_IN}
                    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
    string(REGEX REPLACE "[ \n]+" " " output "${output}") # CMake breaks lines
    string(FIND "${output}" "${saying}" position)
    if(code EQUAL 0 OR position EQUAL -1)
        list(JOIN arg_COMMAND " " command)
        message(FATAL_ERROR "${command} ended with ${code} and did not say \"${saying}\":\n${output}")
    endif()
endfunction()

# The text of the README's first fenced block of a language that contains something.
function(fenced language containing result)
    string(REGEX MATCHALL "\n```${language}\n[^`]*```" blocks "${readme}")
    foreach(block IN LISTS blocks)
        if(block MATCHES "${containing}")
            string(REGEX REPLACE "^\n```${language}\n" "" block "${block}")
            string(REGEX REPLACE "```$" "" block "${block}")
            string(REPLACE "<semicolon>" ";" block "${block}")
            set(${result} "${block}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
    message(FATAL_ERROR "the README has no ${language} block with ${containing}")
endfunction()

set(folder ${BUILD}/readme)
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})
set(readme "")
foreach(page README.md docs/pages/check.md docs/pages/run.md docs/pages/library.md) # the README, and what it leads to
    file(READ ${ROOT}/${page} text)
    string(APPEND readme "${text}")
endforeach()
string(REPLACE ";" "<semicolon>" readme "${readme}") # one would split the list of blocks

# A project of somebody else's, with the README's code.
set(only_xtensor_and_blas "")
foreach(package fmt spdlog nlohmann_json PkgConfig CLI11)
    list(APPEND only_xtensor_and_blas -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
function(project_of project text)
    file(WRITE ${folder}/${project}/CMakeLists.txt "cmake_minimum_required(VERSION 3.22)\nproject(mine LANGUAGES CXX)\n${text}")
    set(configuring ${CMAKE_COMMAND} -S ${project} -B ${project}/built -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${folder}/installed
                    ${ARGN} PARENT_SCOPE)
endfunction()
function(configure)
    project_of(${ARGV})
    run(IN ${folder} COMMAND ${configuring})
endfunction()
fenced(cpp "int main" code)
fenced(cmake "find_package" package)
file(WRITE ${folder}/mine/mine.cpp "${code}")
fenced(cpp "of_layer" of_layer)
file(WRITE ${folder}/mine/layer.cpp "#include <attn/reference/layers/encoder.hpp>\n#include <attn/core/recorder.hpp>
double weight(const attn::Matrix& tokens, const attn::EncoderLayerWeights& weights)
{\n${of_layer}\nreturn of_head.values[0];\n}\n")
run(IN ${folder} COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${folder}/installed)
configure(mine "add_executable(mine mine.cpp layer.cpp)\n${package}" ${only_xtensor_and_blas} -DCMAKE_DISABLE_FIND_PACKAGE_LAPACK=ON)
run(IN ${folder} COMMAND ${CMAKE_COMMAND} --build mine/built)
run(IN ${folder} COMMAND mine/built/mine)
if(NOT output MATCHES "weights = softmax\\(scaled\\)")
    message(FATAL_ERROR "the README's code printed:\n${output}")
endif()

# The same code as a part of a shared library: the static one is position-independent.
configure(plugin "add_library(mine SHARED ../mine/mine.cpp)\n${package}" ${only_xtensor_and_blas})
run(IN ${folder} COMMAND ${CMAKE_COMMAND} --build plugin/built)

# A component that is asked for by name needs what it stands on, and no more.
function(find_components project components)
    string(REPLACE " " ";" targets "${components}")
    list(TRANSFORM targets PREPEND "attn::")
    string(REPLACE ";" " " targets "${targets}")
    file(WRITE ${folder}/${project}/nothing.cpp "")
    configure(${project} "find_package(attn REQUIRED COMPONENTS ${components})
add_library(mine nothing.cpp)\ntarget_link_libraries(mine PRIVATE ${targets})\n" ${ARGN})
endfunction()
find_components(checks "attn formula mistakes" ${only_xtensor_and_blas})
find_components(speed fast -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
find_components(tools "tools weights show")
project_of(unknown "find_package(attn REQUIRED COMPONENTS formula formulas)")
refused("no component formulas; it has attn, core," IN ${folder} COMMAND ${configuring})
configure(optional "find_package(attn REQUIRED OPTIONAL_COMPONENTS formula formulas)
if(NOT attn_formula_FOUND OR attn_formulas_FOUND)\nmessage(FATAL_ERROR attn)\nendif()" ${only_xtensor_and_blas})

# A project that has attn as a part of its own keeps its output folder, and installs nothing of attn.
configure(part "add_subdirectory(${ROOT} attn)\nif(CMAKE_RUNTIME_OUTPUT_DIRECTORY OR NOT TARGET attn::attn)\nmessage(FATAL_ERROR attn)\nendif()
install(FILES CMakeLists.txt DESTINATION mine)" ${only_xtensor_and_blas})
run(IN ${folder} COMMAND ${CMAKE_COMMAND} --install part/built --prefix ${folder}/of_part)
file(GLOB_RECURSE installed RELATIVE ${folder}/of_part ${folder}/of_part/*)
if(NOT installed STREQUAL "mine/CMakeLists.txt")
    message(FATAL_ERROR "a project that has attn as a part of its own installed: ${installed}")
endif()

# The same code without CMake.
find_program(pkg_config NAMES pkg-config pkgconf)
file(GLOB_RECURSE pc ${folder}/installed/*/attn.pc)
cmake_path(GET pc PARENT_PATH pc)
if(pkg_config)
    run(IN ${folder} COMMAND sh -euc
        "export PKG_CONFIG_PATH=${pc}; ${pkg_config} --validate attn; ${CXX} -std=c++20 mine/mine.cpp $(${pkg_config} --cflags --libs attn) -o mine_of_pc; ./mine_of_pc")
    if(NOT output MATCHES "weights = softmax\\(scaled\\)")
        message(FATAL_ERROR "the README's code, built with pkg-config, printed:\n${output}")
    endif()
endif()

# The licence and the pages, and every page that the README refers to among them.
set(folder_of_pages ${folder}/installed/share/doc/attn)
string(REGEX MATCHALL "docs/pages/[a-z0-9_]+\\.md" pages "${readme}")
list(LENGTH pages count)
foreach(page IN LISTS pages ITEMS LICENSE README.md CHANGELOG.md CONTRIBUTING.md)
    if(count LESS 10 OR NOT EXISTS ${folder_of_pages}/${page})
        message(FATAL_ERROR "the installed README refers to ${page}, which is not in ${folder_of_pages}")
    endif()
endforeach()

# Somebody's own attention, with a mistake: what is said of it, but for digits that another NumPy may round otherwise.
execute_process(COMMAND ${PYTHON} -c "import numpy" RESULT_VARIABLE without_numpy OUTPUT_QUIET ERROR_QUIET)
if(without_numpy)
    message("no NumPy: the README's mistake is not tried")
else()
    fenced(python "keys.shape" mine)
    file(WRITE ${folder}/mine.py "${mine}")
    fenced(sh "attn diff" commands)
    string(REPLACE "build/release/bin/" "${BUILD}/bin/" commands "${commands}")
    string(REPLACE "python3 " "${PYTHON} " commands "${commands}")
    execute_process(COMMAND sh -euc "${commands}" WORKING_DIRECTORY ${folder}
                    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
    fenced(text "first wrong step: weights" shown)
    string(REGEX REPLACE "[0-9.]+e-[0-9]+|0\\.[0-9]+|[0-9.]+e\\+[0-9]+" "#" shown "${shown}")
    string(REGEX REPLACE "[0-9.]+e-[0-9]+|0\\.[0-9]+|[0-9.]+e\\+[0-9]+" "#" found "${output}")
    if(NOT code EQUAL 1 OR NOT found STREQUAL shown)
        message(FATAL_ERROR "the README's mistake ended with ${code}:\n${output}${errors}")
    endif()
endif()

# The commands.
fenced(sh "attn verify" commands)
string(REPLACE "build/release/bin/" "${BUILD}/bin/" commands "${commands}")
run(IN ${folder} COMMAND sh -euc "${commands}")
if(NOT output MATCHES "steps recomputed")
    message(FATAL_ERROR "the README's commands printed:\n${output}")
endif()

# The PyTorch model, where there is PyTorch.
execute_process(COMMAND ${PYTHON} -c "import torch" RESULT_VARIABLE without_pytorch OUTPUT_QUIET ERROR_QUIET)
if(without_pytorch)
    message("no PyTorch: the README's PyTorch model is not tried")
else()
    fenced(python "TransformerEncoderLayer" model)
    file(WRITE ${folder}/model.py "${model}")
    run(IN ${folder} COMMAND ${PYTHON} model.py)
    fenced(sh "attn run encoder-layer" commands)
    string(REPLACE "build/release/bin/" "${BUILD}/bin/" commands "${commands}")
    run(IN ${folder} COMMAND sh -euc "${commands}")
    if(NOT output MATCHES "self_attn.head.1.weights")
        message(FATAL_ERROR "the README's model printed:\n${output}")
    endif()
endif()

# The output it shows.
fenced(text "keys @ query" shown)
run(IN ${folder} COMMAND ${BUILD}/bin/lesson_01_single_query)
string(FIND "${output}" "${shown}" position)
if(position EQUAL -1)
    message(FATAL_ERROR "the README shows what lesson 1 doesn't print:\n${shown}")
endif()
