#include "src/cli/modules/module.hpp"

#include "sources.hpp"
#include "test.hpp"

#include <set>

using namespace attn;
using namespace attn::cli;

namespace {

/// The modules that docs/your_weights.md lists: the first cells of the first table below "## Modules".
std::vector<std::string> modules_of_the_page()
{
    const std::string page = attn::test::source_file("docs/your_weights.md").text;
    std::istringstream lines(page.substr(std::min(page.find("\n## Modules"), page.size())));
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line) && (names.empty() || !line.empty());)
        if (line.starts_with("| `"))
            names.push_back(line.substr(3, line.find('`', 3) - 3));
    return names;
}

} // namespace

TEST_CASE("docs/your_weights.md lists every module of attn run, once, and no other", "[cli][docs]")
{
    const std::vector<std::string> listed = modules_of_the_page();
    std::set<std::string> missing;
    for (const Module& module : modules())
        missing.insert(module.name);
    for (const std::string& name : listed) {
        INFO("docs/your_weights.md has a row for " << name << ", which is no module, or has two");
        CHECK(missing.erase(name) == 1);
    }
    for (const std::string& name : missing)
        FAIL_CHECK("docs/your_weights.md has no row for the module " << name << ": add one below \"## Modules\"");
}
