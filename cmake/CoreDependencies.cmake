# What the functions stand on. The installed package includes this file too, and looks for the same libraries.
include(CMakeFindDependencyMacro)
find_dependency(xtensor)
find_dependency(BLAS)
