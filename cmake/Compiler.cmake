# What every target of attn is compiled with: C++20, strict warnings, sanitizers where asked for.
add_library(attn_compiler INTERFACE)
target_compile_features(attn_compiler INTERFACE cxx_std_20)
target_compile_options(attn_compiler INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(attn_compiler INTERFACE -Wno-restrict) # it sees overlaps in "x" + std::to_string(n): GCC bug 105651
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # it takes a file's own names for a header's
    target_compile_options(attn_compiler INTERFACE -Wno-subobject-linkage)
endif()
if(ATTN_WARNINGS_AS_ERRORS)
    target_compile_options(attn_compiler INTERFACE -Werror)
endif()
if(ATTN_SANITIZE)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # instrumented code makes it see uninitialised members of std::optional
        target_compile_options(attn_compiler INTERFACE -Wno-maybe-uninitialized)
    endif()
    # Without the checks that take more than a third of the time to compile. Null and too small objects are seen by the
    # address sanitizer, too; nothing here casts to a class that an object might not have; and script/fuzz, by clang, checks
    # the arithmetic and the alignment of pointers where bytes are read.
    set(sanitizers -fsanitize=address,undefined -fno-sanitize=null,vptr,object-size,alignment,pointer-overflow
                   -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(attn_compiler INTERFACE ${sanitizers})
    target_link_options(attn_compiler INTERFACE ${sanitizers})
endif()
