#include "attn/show/console.hpp"

#include "test.hpp"

#include <cmath>

using namespace attn;
using namespace attn::show;

namespace {

std::string shown_values(const Array& array, int precision = 3)
{
    return format_values(array, {.precision = precision});
}

} // namespace

TEST_CASE("whole numbers are shown without a point, others with all their digits", "[console]")
{
    CHECK(shown_values({{3}, {2, 4, -16}}) == "  2    4  -16\n");
    CHECK(shown_values({{2}, {0.5, 2}}) == "0.500  2.000\n");
    CHECK(shown_values({{}, {0.0625}}) == "0.062\n");
    CHECK(shown_values({{2}, {0, -0.0}}) == "0  0\n");
}

TEST_CASE("numbers that the digits would not show are shown with exponents", "[console]")
{
    CHECK(shown_values({{2}, {1e-7, 2e-7}}) == "1.000e-07  2.000e-07\n");
    CHECK(shown_values({{1}, {1e12}}) == "1.000e+12\n");
}

TEST_CASE("infinities, NaN and booleans are shown as words", "[console]")
{
    CHECK(shown_values({{4}, {1, -INFINITY, INFINITY, NAN}}) == "   1  -inf   inf   nan\n");
    CHECK(shown_values({{2}, {1, 0}, ElementType::boolean}) == " true  false\n");
}

TEST_CASE("a matrix is printed with one line per row, and each matrix of a stack after its index", "[console]")
{
    CHECK(shown_values({{2, 2}, {1, 2, 3, 4}}) == "1  2\n3  4\n");
    CHECK(shown_values({{2, 1, 2}, {1, 2, 3, 4}}) == "[0]\n1  2\n[1]\n3  4\n");
    CHECK(shown_values({{1, 2, 1, 1}, {1, 2}}) == "[0, 0]\n1\n[0, 1]\n2\n");
    CHECK(shown_values({{0, 3}, {}}) == "no numbers\n");
}

TEST_CASE("a tensor that does not fit is summarised: its statistics, and a corner", "[console]")
{
    Array large{{20, 20}, std::vector<double>(400, 1)};
    large.values[399] = 401;
    CHECK(shown_values(large) == "400 numbers, mean 2.0000, standard deviation 19.9750, from 1 to 401; it begins\n"
                                 "1  1  1  1  ...\n1  1  1  1  ...\n1  1  1  1  ...\n1  1  1  1  ...\n");
    CHECK_THAT(shown_values({{13}, std::vector<double>(13, 2)}),
               ContainsSubstring("13 numbers") && ContainsSubstring("2  2  2  2  ...\n"));
}
