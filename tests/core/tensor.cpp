#include "attn/core/tensor.hpp"

#include "../by_hand.hpp"
#include "../generators.hpp"
#include "../test.hpp"

#include "attn/core/error.hpp"

using namespace attn;
using namespace attn::test;

namespace {

template <Traceable T>
bool survives(const T& tensor)
{
    const Array array = to_array(tensor);
    return array.shape == shape_of(tensor) && array.size() == element_count(array.shape) &&
           identical(to_array(from_array<T>(array)), array);
}

} // namespace

TEST_CASE("every container survives the way to an array and back", "[tensor]")
{
    Numbers numbers(1);
    CHECK(survives(1.5));
    CHECK(survives(numbers.vector(3)));
    CHECK(survives(numbers.matrix(3, 2)));
    CHECK(survives(numbers.tensor3(2, 3, 4)));
    CHECK(survives(Tensor4(Tensor4::shape_type{2, 1, 3, 2}, 0.25)));
    CHECK(survives(Mask{{true, false}, {false, false}}));
}

TEST_CASE("axes of length one and zero survive it too", "[tensor]")
{
    Numbers numbers(2);
    CHECK(survives(numbers.vector(0)));
    CHECK(survives(numbers.vector(1)));
    CHECK(survives(numbers.matrix(0, 3)));
    CHECK(survives(numbers.matrix(3, 0)));
    CHECK(survives(numbers.matrix(1, 3)));
    CHECK(survives(numbers.matrix(3, 1)));
    CHECK(survives(numbers.tensor3(1, 1, 1)));
    CHECK(survives(Mask(Mask::shape_type{0, 2})));
}

TEST_CASE("infinities, NaN and minus zero survive it bit for bit", "[tensor]")
{
    CHECK(survives(Vector{infinity, -infinity, not_a_number, -0.0}));
}

TEST_CASE("an array holds its numbers row by row", "[tensor]")
{
    CHECK(to_array(Matrix{{1, 2, 3}, {4, 5, 6}}).values == std::vector<double>{1, 2, 3, 4, 5, 6});
    const Matrix matrix = from_array<Matrix>({{3, 2}, {1, 2, 3, 4, 5, 6}});
    CHECK(matrix(0, 1) == 2);
    CHECK(matrix(2, 0) == 5);
}

TEST_CASE("an array of a mask is of booleans, zero and one", "[tensor]")
{
    const Array array = to_array(Mask{{true, false}});
    CHECK(array.type == ElementType::boolean);
    CHECK(array.values == std::vector<double>{1, 0});
    CHECK(to_array(Matrix{{1, 0}}).type == ElementType::real);
}

TEST_CASE("a number has no axes", "[tensor]")
{
    CHECK(shape_of(2.0).empty());
    CHECK(to_array(2.0).shape.empty());
    CHECK(from_array<double>({{}, {2}}) == 2);
}

TEST_CASE("an array of another rank is refused, and both ranks are named", "[tensor]")
{
    const Array matrix{{1, 2}, {1, 2}};
    CHECK_THROWS_AS(from_array<Vector>(matrix), Error);
    CHECK_THROWS_WITH(from_array<Vector>(matrix), "an array of shape (1, 2) has 2 axes, expected 1");
    CHECK_THROWS_AS(from_array<double>(matrix), Error);
    CHECK_THROWS_AS(from_array<Tensor3>(matrix), Error);
}

TEST_CASE("a mask is made of booleans only: a matrix of numbers might mean the reverse", "[tensor][mask]")
{
    const Array numbers{{1, 2}, {1, 0}};
    CHECK_THROWS_AS(from_array<Mask>(numbers), Error);
    CHECK_THROWS_WITH(from_array<Mask>(numbers), ContainsSubstring("booleans"));
    const Array booleans{{1, 2}, {1, 0}, ElementType::boolean};
    CHECK(same_bits(from_array<Mask>(booleans), Mask{{true, false}}));
}

TEST_CASE("whole numbers are made of whole numbers only, as far as a double counts", "[tensor]")
{
    CHECK(same_bits(from_array<Integers>({{2}, {-3, 0x1p53}}), Integers{-3, std::int64_t{1} << 53}));
    for (const double wrong : {0.5, 0x1p54, -1e300, infinity, not_a_number})
        CHECK_THROWS_WITH(from_array<Integers>({{1}, {wrong}}), ContainsSubstring("expected whole numbers"));
}

TEST_CASE("an array with more or fewer numbers than its shape holds is refused", "[tensor]")
{
    CHECK_THROWS_AS(from_array<Matrix>({{2, 2}, {1, 2, 3, 4, 5}}), Error);
    CHECK_THROWS_AS(from_array<Matrix>({{2, 2}, {1, 2, 3}}), Error);
    CHECK_THROWS_AS(from_array<double>({{}, {}}), Error);
}
