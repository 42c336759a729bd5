# What showing a trace stands on, besides the other tools. The installed package includes this file too.
include(CMakeFindDependencyMacro)
find_dependency(ZLIB)
