# What attention across machines stands on. The installed package includes this file.
include(CMakeFindDependencyMacro)
set(MPI_CXX_SKIP_MPICXX TRUE) # C's functions will do
find_dependency(MPI COMPONENTS CXX)
