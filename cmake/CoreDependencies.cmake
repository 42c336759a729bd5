# What the functions stand on. The installed package includes this file too, and looks for the same libraries.
include(CMakeFindDependencyMacro)
find_dependency(xtensor)
if(NOT ATTN_PLAIN_BLAS)
    find_dependency(BLAS)
endif()
