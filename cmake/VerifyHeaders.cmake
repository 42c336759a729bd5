# Compiles each public header by itself: whoever includes one needs to include nothing else before it.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/*.hpp)
foreach(header ${headers})
    string(REPLACE "/" "_" name ${header})
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp CONTENT "#include <${header}>\n")
    list(APPEND sources ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp)
endforeach()
add_library(attn_headers OBJECT ${sources})
target_link_libraries(attn_headers PRIVATE attn_core attn_compiler)
