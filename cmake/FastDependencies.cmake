# What the fast kernels stand on. The installed package includes this file too.
include(CMakeFindDependencyMacro)
find_dependency(OpenMP COMPONENTS CXX)
find_dependency(PkgConfig)
pkg_check_modules(libhwy REQUIRED IMPORTED_TARGET libhwy)
