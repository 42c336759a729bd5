# Writes the page's assets into a C++ file, byte by byte: cmake -DFOLDER=… -DASSETS=a,b -DOUTPUT=… -P embed.cmake
string(REPLACE "," ";" assets "${ASSETS}")
set(arrays "")
set(entries "")
foreach(asset IN LISTS assets)
    file(READ "${FOLDER}/${asset}" bytes HEX)
    file(SHA256 "${FOLDER}/${asset}" sha256)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
    string(MAKE_C_IDENTIFIER "${asset}" name)
    string(APPEND arrays "constexpr unsigned char ${name}[] = {\n${bytes}};\n")
    string(APPEND entries "    {\"${asset}\", {reinterpret_cast<const char*>(${name}), sizeof ${name}}, \"${sha256}\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by src/show/page/embed.cmake.
#include \"page_assets.hpp\"

namespace attn::show {
namespace {

${arrays}
const PageAsset assets[] = {
${entries}};

} // namespace

std::span<const PageAsset> page_assets() { return assets; }

} // namespace attn::show
")
