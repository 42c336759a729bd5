# What showing a trace stands on, besides the other tools. The installed package includes this file too.
include(CMakeFindDependencyMacro)
find_dependency(ZLIB)
find_dependency(PkgConfig)

# Debian compiles cpp-httplib into a library; where it is a header alone, the same name finds it.
pkg_check_modules(cpp-httplib REQUIRED IMPORTED_TARGET cpp-httplib)
