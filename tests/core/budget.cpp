#include "attn/cli/shared_flags.hpp"
#include "attn/core/budget.hpp"

#include "../lesson_run.hpp"
#include "../temporary_folder.hpp"
#include "../test.hpp"

#include "attn/formula/evaluate.hpp"
#include "attn/formula/verify.hpp"

#include <filesystem>
#include <fstream>

using namespace attn;
using namespace attn::cli;
using namespace attn::formula;

TEST_CASE("a budget is spent to its end, by everything inside its scope, and by nothing outside", "[budget]")
{
    CHECK(current_budget() == nullptr);
    spend(1e30); // nobody counts
    {
        const BudgetScope outer(Budget::of_operations(100));
        spend(60);
        {
            const BudgetScope joined;
            spend(30);
        }
        CHECK(current_budget()->left() == 10);
        {
            const BudgetScope own(Budget::of_operations(1000));
            spend(1000);
        }
        spend(10);
        CHECK_THROWS_AS(spend(1), BudgetError);
    }
    CHECK(current_budget() == nullptr);
}

TEST_CASE("a share of a budget ends at its part, and what was set aside is there afterwards", "[budget]")
{
    const BudgetScope budget(Budget::of_operations(100));
    {
        const BudgetShare half(0.5);
        CHECK(current_budget()->left() == 50);
        {
            const BudgetShare quarter(0.5);
            CHECK(current_budget()->left() == 25);
        }
        spend(50);
        CHECK_THROWS_AS(spend(1), BudgetError);
    }
    CHECK(current_budget()->left() == 50);
}

TEST_CASE("memory is given back to the budget, and what is too much is named with what there is", "[budget]")
{
    const BudgetScope budget(Budget(1));
    constexpr double gibibyte = 1 << 30;
    for (int i = 0; i < 10; ++i) {
        TakenMemory taken(0.5 * gibibyte), other;
        other = std::move(taken);
    }
    const TakenMemory most(0.75 * gibibyte);
    CHECK_THROWS_WITH(TakenMemory(0.5 * gibibyte), ContainsSubstring("1.2 GiB of numbers at a time"));
}

TEST_CASE("a formula spends what it takes: products, cells, nodes and names", "[budget]")
{
    const Array x{{100, 100}, std::vector<double>(10'000, 1)};
    const auto spent = [&](std::string_view formula) {
        const BudgetScope budget(Budget(1));
        evaluate(formula, [&](std::string_view) { return &x; });
        return 1e9 - current_budget()->left();
    };
    CHECK(spent("x @ x") >= 5e5); // two multiplications of recorded numbers at a time
    CHECK(spent("x @ x") < 1e6);
    CHECK(spent("x + x") >= 2 * spent("x") + 1e4);
    CHECK(spent("softmax(x)") > spent("-x"));
    CHECK(spent("x.shape[0] + 1 + 1") > spent("x.shape[0] + 1"));
    CHECK(spent("x.shape[0]") < 1e4); // whose numbers don't matter
}

TEST_CASE("the lesson at the paper's size takes less than half of the usual budget", "[budget][slow]")
{
    const BudgetScope budget{Budget()};
    CHECK(verify(lesson_recording("11_encoder_stack")).passed());
    CAPTURE(current_budget()->left());
    CHECK(current_budget()->left() > 0.5e9 * Budget::usual_size);
}

TEST_CASE("the usual budget grows with the files, and what is asked for is used as it is", "[budget]")
{
    const TemporaryFolder folder;
    const std::filesystem::path large = folder / "large.npz", other = folder / "other.npz";
    for (const std::filesystem::path& file : {large, other}) {
        std::ofstream(file).flush();
        std::filesystem::resize_file(file, std::size_t{1} << 30); // sparse: it takes no space
    }
    CHECK(budget_for({}, {folder / "missing.npz"}).size() == Budget::usual_size);
    CHECK(budget_for({}, {large}).size() == Budget::usual_size + 96);
    CHECK(budget_for({}, {large, other}).size() == Budget::usual_size + 192);
    CHECK(budget_for(2, {large}).size() == 2);
}
