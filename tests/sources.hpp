#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

/// attn's own source text, for tests that read it.
namespace attn::test {

struct SourceFile {
    std::string path; ///< from the repository's root: "src/ops/matmul.cpp"
    std::string text;
};

inline SourceFile source_file(const std::string& path)
{
    std::ifstream stream(std::filesystem::path(ATTN_SOURCE_FOLDER) / path);
    std::ostringstream text;
    text << stream.rdbuf();
    return {path, text.str()};
}

/// Every header and source file under these folders, in the order of their paths.
inline std::vector<SourceFile> source_files(const std::vector<std::string>& folders)
{
    std::vector<SourceFile> files;
    for (const std::string& folder : folders)
        for (const auto& entry :
             std::filesystem::recursive_directory_iterator(std::filesystem::path(ATTN_SOURCE_FOLDER) / folder)) {
            const std::string extension = entry.path().extension().string();
            if (extension == ".hpp" || extension == ".cpp")
                files.push_back(
                    source_file(std::filesystem::relative(entry.path(), std::filesystem::path(ATTN_SOURCE_FOLDER))
                                    .generic_string()));
        }
    std::ranges::sort(files, {}, &SourceFile::path);
    return files;
}

/// The names of all test cases, as the sources have them.
inline std::set<std::string> names_of_tests()
{
    const std::string macro = "TEST_CASE(\"";
    std::set<std::string> names;
    for (const SourceFile& file : source_files({"tests"}))
        for (std::size_t at = file.text.find(macro); at != std::string::npos; at = file.text.find(macro, at)) {
            at += macro.size();
            names.insert(file.text.substr(at, file.text.find('"', at) - at));
        }
    return names;
}

/// The text without its comments; strings stay.
inline std::string without_comments(const std::string& text)
{
    std::string code;
    for (std::size_t i = 0; i < text.size();) {
        if (text.compare(i, 2, "//") == 0) {
            i = std::min(text.find('\n', i), text.size());
        } else if (text.compare(i, 2, "/*") == 0) {
            const std::size_t end = text.find("*/", i + 2);
            i = end == std::string::npos ? text.size() : end + 2;
        } else if (text[i] == '"') {
            do {
                if (text[i] == '\\' && i + 1 < text.size())
                    code += text[i++];
                code += text[i++];
            } while (i < text.size() && text[i] != '"' && text[i] != '\n');
            if (i < text.size())
                code += text[i++];
        } else {
            code += text[i++];
        }
    }
    return code;
}

} // namespace attn::test
