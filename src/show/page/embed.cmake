# Writes the page's parts into a C++ file, byte by byte: cmake -DFOLDER=… -DPARTS=a,b -DOUTPUT=… -P embed.cmake
string(REPLACE "," ";" parts "${PARTS}")
set(arrays "")
set(entries "")
foreach(part IN LISTS parts)
    file(READ "${FOLDER}/${part}" bytes HEX)
    file(SHA256 "${FOLDER}/${part}" sha256)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
    string(MAKE_C_IDENTIFIER "${part}" name)
    string(APPEND arrays "constexpr unsigned char ${name}[] = {\n${bytes}};\n")
    string(APPEND entries "    {\"${part}\", {reinterpret_cast<const char*>(${name}), sizeof ${name}}, \"${sha256}\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by src/show/page/embed.cmake.
#include \"parts.hpp\"

namespace attn::show {
namespace {

${arrays}
const PagePart parts[] = {
${entries}};

} // namespace

std::span<const PagePart> page_parts() { return parts; }

} // namespace attn::show
")
