# Installs the build into an empty folder, and builds and runs the consumer against what was installed.
# cmake -DBUILD=… -DSOURCE=… -DFLAGS=… -P build.cmake
function(run)
    execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT code EQUAL 0)
        list(JOIN ARGV " " command)
        message(FATAL_ERROR "${command} ended with ${code}:\n${output}")
    endif()
endfunction()

set(installed ${BUILD}/consumer/installed)
set(built ${BUILD}/consumer/built)
file(REMOVE_RECURSE ${BUILD}/consumer)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${installed})
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${built} -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${installed} -DCMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${built})
run(${built}/consumer)
