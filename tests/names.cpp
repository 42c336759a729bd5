// ctest runs each test by its name, which CMake and Catch2 have to read as it is.

#include "sources.hpp"
#include "test.hpp"

using namespace attn::test;

namespace {

/// CMake ends a name at a semicolon, and Catch2 reads a dash, ~ or [ in front as a flag, a negation or a tag. ctest would
/// then run no test at all, and pass.
bool is_run_by_ctest(const std::string& name)
{
    return !name.empty() && name.find_first_of(";*\\") == std::string::npos && name.find_first_of("-~[!") != 0;
}

} // namespace

TEST_CASE("ctest can run every test by its name", "[source]")
{
    const std::set<std::string> names = names_of_tests();
    REQUIRE(names.size() > 600);
    for (const std::string& name : names) {
        CAPTURE(name);
        CHECK(is_run_by_ctest(name));
    }
}

TEST_CASE("a name that ctest would cut or misread is found", "[source]")
{
    for (const char* name : {"one; two", "--all prints", "~not", "[tag] first", "all*", ""})
        CHECK_FALSE(is_run_by_ctest(name));
    CHECK(is_run_by_ctest("softmax(Q K^T), less the largest - a sentence, with [brackets] within"));
}
