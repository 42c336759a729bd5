#include "attn/reference/ops/quantize.hpp"

#include "by_hand.hpp"
#include "golden.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <set>

using namespace attn;
using namespace attn::test;

namespace {

/// The arrays of the golden whose names begin so.
Golden golden_of(const std::string& begin)
{
    Golden some;
    for (auto& [name, array] : read_golden("fewer_bits"))
        if (name.starts_with(begin))
            some.emplace_back(name.substr(begin.size()), std::move(array));
    REQUIRE(!some.empty());
    return some;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// How far what is read back can be from a number, by the formats' definition: half a code, or half a digit of float8.
double most_off(double number, double scale, StoredType type)
{
    const double slack = 1e-12 * (std::abs(number) + scale);
    if (type == StoredType::float8_e4m3)
        return std::max(0x1p-4 * std::abs(number), 0x1p-10 * scale) + slack;
    if (type == StoredType::float8_e5m2)
        return std::max(0x1p-3 * std::abs(number), 0x1p-17 * scale) + slack;
    return scale / 2 + slack;
}

const char* const formats[] = {"float8_e4m3:token", "float8_e5m2:token", "int8:token",  "int4:token",
                               "int8:tensor",       "int4:channel1",     "int4:block4", "uint8:channel1",
                               "uint4:block2",      "uint2:token"};

/// The scale of a number, from the recorded steps.
double scale_of(const Recording& run, const StoredFormat& format, std::size_t row, std::size_t column)
{
    const Array& scale = run.at("scale").value;
    switch (format.scale) {
    case SharedScale::token:
        return scale.values[row];
    case SharedScale::channel:
        return scale.values[column];
    case SharedScale::block:
        return scale.values[(row * 8 + column) / format.group];
    default:
        return scale.values[0];
    }
}

} // namespace

TEST_CASE("float8 rounds each number as its 256 codes have it, ties to even, and NaN or infinity beyond", "[quantize]")
{
    for (const NumberType type : {NumberType::float8_e4m3, NumberType::float8_e5m2}) {
        const Golden golden = golden_of("numbers/" + std::string(name_of(type)) + "/");
        const std::vector<double>&x = golden[0].second.values, &expected = golden[1].second.values;
        REQUIRE(x.size() > 900);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            wrong += same(rounded_to(type, x[i]), expected[i]) ? 0 : 1;
            wrong += is_exactly(type, x[i]) == same(x[i], expected[i]) ? 0 : 1;
        }
        CHECK(wrong == 0);
    }
    CHECK(largest_of(NumberType::float8_e4m3) == 448);
    CHECK(largest_of(NumberType::float8_e5m2) == 57344);
    CHECK(largest_of(NumberType::float16) == 65504);
    CHECK(largest_of(NumberType::float64) == std::numeric_limits<double>::max());
    CHECK_FALSE(is_exactly(NumberType::float8_e4m3, infinity));
    CHECK(is_exactly(NumberType::float8_e5m2, -infinity));
}

TEST_CASE("numbers in fewer bits are PyTorch's and NumPy's, step by step, and follow from their formulas", "[quantize]")
{
    const Golden golden = golden_of("quantize/");
    const auto x = from_array<Matrix>(golden[0].second);
    std::set<std::string> seen;
    for (const auto& [name, array] : golden)
        if (name != "x" && seen.insert(name.substr(0, name.find('/'))).second) {
            const std::string format = name.substr(0, name.find('/'));
            CAPTURE(format);
            Golden steps = golden_of("quantize/" + format + "/");
            steps.insert(steps.begin(), golden[0]);
            Recorder recorder;
            const Quantized found = quantize(Term(x), stored_format_called(format), Trace(recorder));
            CHECK(difference(recorder.recording(), steps) == "");
            CHECK(formula::verify(recorder.recording()).passed());
            CHECK(same_bits(*quantize(Term(x), stored_format_called(format)).stored, *found.stored));
        }
    CHECK(seen.size() >= 11);
}

TEST_CASE("the steps of quantize() are those of its table", "[quantize][steps]")
{
    Recorder recorder;
    (void)quantize(Term(Matrix{{1, 2, -3}, {4, 0, 1}}), {}, Trace(recorder));
    CHECK(different_rows(promised("reference/ops/quantize.hpp", "quantize"), kept(recorder)) == "");
}

TEST_CASE("what is read back is off by half a code at most, and codes are no larger than their type has them",
          "[quantize]")
{
    RandomNumbers numbers(5);
    for (int draw = 0; draw < 20; ++draw)
        for (const char* name : formats) {
            CAPTURE(name, draw);
            const StoredFormat format = stored_format_called(name);
            const Matrix x = std::pow(10.0, draw - 10) * numbers.matrix(6, 8);
            Recorder recorder;
            const Quantized found = quantize(Term(x), format, Trace(recorder));
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < 6; ++i)
                for (std::size_t j = 0; j < 8; ++j) {
                    const double off = std::abs((*found.stored)(i, j) - x(i, j));
                    const double bound = most_off(x(i, j), scale_of(recorder.recording(), format, i, j), format.type);
                    wrong += !(off <= bound);
                }
            CHECK(wrong == 0);
            if (bits_of(format.type) < 8 || format.type == StoredType::int8) {
                std::set<double> codes((*found.codes).begin(), (*found.codes).end());
                CHECK(codes.size() <= (std::size_t{1} << bits_of(format.type)));
            }
        }
}

TEST_CASE("attention to keys and values of fewer bits stays within the bound that follows from half a code",
          "[quantize]")
{
    RandomNumbers numbers(8);
    double nearest = 0; // the bound is no empty one
    for (int draw = 0; draw < 10; ++draw)
        for (const char* name : formats) {
            CAPTURE(name, draw);
            const StoredFormat format = stored_format_called(name);
            const Matrix queries = numbers.matrix(4, 8), keys = numbers.matrix(6, 8), values = numbers.matrix(6, 8);
            Recorder of_keys, of_values;
            const Matrix stored_keys = *quantize(Term(keys), format, Trace(of_keys)).stored,
                         stored_values = *quantize(Term(values), format, Trace(of_values)).stored;
            const auto context_of = [&](const Matrix& k, const Matrix& v) {
                const Matrix scaled = matmul(queries, transpose(k)) / std::sqrt(8.0);
                return Matrix(matmul(softmax(scaled), v));
            };
            const Matrix weights = softmax(Matrix(matmul(queries, transpose(keys)) / std::sqrt(8.0)));
            const Matrix right = context_of(keys, values), found = context_of(stored_keys, stored_values);
            for (std::size_t i = 0; i < 4; ++i) {
                // A score moves by at most e, so a weight by a factor of at most exp(2 e).
                double e = 0;
                for (std::size_t j = 0; j < 6; ++j) {
                    double sum = 0;
                    for (std::size_t c = 0; c < 8; ++c)
                        sum += std::abs(queries(i, c)) *
                               most_off(keys(j, c), scale_of(of_keys.recording(), format, j, c), format.type);
                    e = std::max(e, sum / std::sqrt(8.0));
                }
                for (std::size_t c = 0; c < 8; ++c) {
                    double spread = 0, of_value = 0;
                    for (std::size_t j = 0; j < 6; ++j) {
                        spread += weights(i, j) * std::abs(values(j, c));
                        of_value =
                            std::max(of_value, most_off(values(j, c), scale_of(of_values.recording(), format, j, c),
                                                        format.type));
                    }
                    const double bound = (std::exp(2 * e) - 1) * spread + of_value;
                    const double off = std::abs(found(i, c) - right(i, c));
                    REQUIRE(off <= bound);
                    nearest = std::max(nearest, off / bound);
                }
            }
        }
    CHECK(nearest > 0.2);
}

TEST_CASE("a rotation keeps lengths and products, is its own inverse, and spreads one large number over all",
          "[quantize]")
{
    for (const std::size_t d : {1, 2, 8, 64}) {
        const Matrix h = hadamard(d);
        Matrix identity = xt::eye<double>(d);
        CHECK(xt::allclose(matmul(h, h), identity, 0, 1e-14));
        Matrix one(Matrix::shape_type{1, d}, 0.0);
        one(0, d - 1) = 1;
        const Matrix spread = matmul(one, h);
        for (const double number : spread)
            CHECK(std::abs(std::abs(number) - 1 / std::sqrt(static_cast<double>(d))) < 1e-15);
    }
    CHECK_THROWS_WITH(hadamard(0), ContainsSubstring("0 is no power of two"));
    CHECK_THROWS_WITH(hadamard(12), ContainsSubstring("12 is no power of two"));
}

TEST_CASE("names of formats lead there and back, and others are refused", "[quantize]")
{
    for (const char* name :
         {"float16", "bfloat16", "float8_e4m3", "float8_e5m2:token", "int8:tensor", "uint2:channel32", "int4:block8"})
        CHECK(name_of(stored_format_called(name)) == name);
    for (const char* name : {"", "int8", "int9:token", "int8:", ":token", "float16:token", "int8:token1", "int8:row",
                             "int4:block", "int4:block0", "int4:block-1", "int4:block8x", "int4:channel",
                             "int8:token:", "int4:block99999999999999999999999", "int8::token", "INT8:token"}) {
        CAPTURE(name);
        CHECK_THROWS_WITH(stored_format_called(name), ContainsSubstring("expected float16, bfloat16; or with a scale"));
    }
}

TEST_CASE("what can't be stored is refused", "[quantize]")
{
    const auto refused = [](const Matrix& x, const StoredFormat& format, const char* why) {
        CHECK_THROWS_WITH(quantize(Term(x), format), ContainsSubstring(why));
    };
    refused({{1, 500}}, {StoredType::float8_e4m3, SharedScale::none}, "x has 500, and numbers up to 448");
    refused({{1, -1e6}}, {StoredType::float16, SharedScale::none}, "x has -1e+06");
    refused({{1, infinity}}, {}, "x has inf");
    refused({{not_a_number, 1}}, {StoredType::uint4, SharedScale::token}, "x has nan");
    refused({{1e301, 1}}, {StoredType::uint4, SharedScale::token}, "up to 1e+300");
    refused({{1, 2}}, {StoredType::int8, SharedScale::none}, "int8 are whole numbers, which need a scale");
    refused({{1, 2}}, {StoredType::bfloat16, SharedScale::token}, "bfloat16 takes no scale");
    refused({{1, 2, 3}}, {StoredType::int4, SharedScale::block, 2}, "blocks of 2 don't divide the 3 features");
    refused({{1, 2, 3}}, {StoredType::int4, SharedScale::block, 0}, "blocks of 0 don't divide");
    // 464 is halfway to 480, which NaN has: it becomes 448.
    CHECK(same_bits(*quantize(Term(Matrix{{464, -464}}), {StoredType::float8_e4m3, SharedScale::none}).stored,
                    Matrix{{448, -448}}));
    // What is smaller than any scale is stored as zero.
    CHECK(same_bits(*quantize(Term(Matrix{{5e-324, 0}}), {}).stored, Matrix{{0, 0}}));
}
