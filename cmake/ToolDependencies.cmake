# What reading, writing and showing stand on. The installed package includes this file too.
include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(spdlog)
find_dependency(nlohmann_json)
find_dependency(Threads)
find_dependency(ZLIB)

# Debian's CMake configuration of libzip names programs that its -dev package does not bring.
find_dependency(PkgConfig)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
