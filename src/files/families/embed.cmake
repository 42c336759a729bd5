# Writes the families' files into a C++ file: cmake -DFOLDER=… -DOUTPUT=… -P embed.cmake
file(GLOB paths ${FOLDER}/*.json)
set(entries "")
foreach(path IN LISTS paths)
    cmake_path(GET path STEM name)
    file(READ "${path}" json)
    string(APPEND entries "    {\"${name}\", R\"json(${json})json\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by src/files/families/embed.cmake.
#include \"family.hpp\"

namespace attn::files {
namespace {

const FamilyFile files[] = {
${entries}};

} // namespace

std::span<const FamilyFile> family_files() { return files; }

} // namespace attn::files
")
