# Writes a folder's JSON files, or those that -DFILES names, into a C++ file, as they are:
#   cmake -DFOLDER=… -DOUTPUT=… -DHEADER=family.hpp -DNAMESPACE=attn::files -DTYPE=FamilyFile -DFUNCTION=family_files -P EmbedJson.cmake
if(NOT FILES)
    set(FILES *.json)
endif()
file(GLOB paths ${FOLDER}/${FILES})
set(entries "")
foreach(path IN LISTS paths)
    cmake_path(GET path STEM name)
    file(READ "${path}" json)
    string(APPEND entries "    {\"${name}\", R\"json(${json})json\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedJson.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {

const ${TYPE} files[] = {
${entries}};

} // namespace

std::span<const ${TYPE}> ${FUNCTION}() { return files; }

} // namespace ${NAMESPACE}
")
