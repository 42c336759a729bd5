#include "attn/files/npy.hpp"

#include "attn/core/error.hpp"
#include "caught.hpp"
#include "test.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>

using namespace attn;
using namespace attn::files;

namespace {

/// An .npy file of version 1 with any dictionary in front of any elements.
std::string npy(const std::string& dictionary, const std::string& elements = "")
{
    const auto low = static_cast<char>(dictionary.size() & 255);
    const auto high = static_cast<char>(dictionary.size() >> 8);
    return std::string("\x93NUMPY\x01\x00", 8) + low + high + dictionary + elements;
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& elements)
{
    return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n", elements);
}

double decoded(const std::string& descr, const std::string& element)
{
    return decode_npy(npy(descr, "()", element)).values.at(0);
}

std::string bytes(std::initializer_list<int> values)
{
    std::string result;
    for (const int value : values)
        result += static_cast<char>(value);
    return result;
}

bool survives(const Array& array) { return identical(decode_npy(encode_npy(array)), array); }

bool stored_as(const Array& array, const std::string& descr)
{
    return encode_npy(array).find("'descr': '" + descr + "'") != std::string::npos;
}

} // namespace

TEST_CASE("every kind of array survives a round trip bit for bit", "[trace_io][npy]")
{
    CHECK(survives({{2, 3}, {0.1, -0.0, infinity, -infinity, not_a_number, 1e-320}}));
    CHECK(survives({{5}, {0.5, -0.0, infinity, -infinity, not_a_number}}));
    CHECK(survives({{2, 2}, {0, 1, 1, 0}, ElementType::boolean}));
    CHECK(survives({{3}, {-9007199254740992, 0, 9007199254740992}, ElementType::integer}));
    CHECK(survives({{}, {3.25}}));
    CHECK(survives({{}, {1}, ElementType::boolean}));
    for (const ElementType type : {ElementType::real, ElementType::boolean, ElementType::integer}) {
        CHECK(survives({{0}, {}, type}));
        CHECK(survives({{3, 0, 2}, {}, type}));
    }
    CHECK(survives({Shape(32, 1), {7}}));
}

TEST_CASE("arrays larger than a chunk keep the order of their elements", "[trace_io][npy]")
{
    Array array{{3, 7001}, std::vector<double>(21003)};
    std::iota(array.values.begin(), array.values.end(), 0.1);
    CHECK(survives(array));
}

TEST_CASE("a NaN's payload survives, in four bytes only where they can hold it", "[trace_io][npy]")
{
    const auto nan_carrying = [](std::uint64_t payload) {
        return std::bit_cast<double>(std::uint64_t{0x7ff8000000000000} | payload);
    };
    CHECK(survives({{2}, {nan_carrying(1), nan_carrying(std::uint64_t{1} << 40)}}));
    CHECK(stored_as({{1}, {nan_carrying(1)}}, "<f8"));
    CHECK(stored_as({{1}, {nan_carrying(std::uint64_t{1} << 40)}}, "<f4"));
    CHECK(survives({{1}, {-not_a_number}}));
}

TEST_CASE("reals are stored in four bytes exactly where that loses nothing", "[trace_io][npy]")
{
    CHECK(stored_as({{4}, {0.5, -0.0, -infinity, not_a_number}}, "<f4"));
    CHECK(stored_as({{1}, {static_cast<double>(0.1f)}}, "<f4"));
    CHECK(stored_as({{1}, {0.1}}, "<f8"));
    CHECK(stored_as({{1}, {1e300}}, "<f8"));
    CHECK(stored_as({{1}, {3.4028235677973366e38}}, "<f8"));
    CHECK(stored_as({{1}, {1e-60}}, "<f8"));
}

TEST_CASE("elements begin at a multiple of 64 bytes", "[trace_io][npy]")
{
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1, 1, 1}, Shape(25, 1), Shape(32, 1)})
        CHECK((encode_npy({shape, {0.5}}).size() - 4) % 64 == 0);
}

TEST_CASE("what an element type cannot hold is refused on writing", "[trace_io][npy]")
{
    for (const double value : {2.0, 0.5, -1.0, -0.0, not_a_number})
        CHECK_THROWS_AS(encode_npy({{1}, {value}, ElementType::boolean}), Error);
    for (const double value : {0.5, -0.0, not_a_number, infinity, 9007199254740994.0, -1e300})
        CHECK_THROWS_AS(encode_npy({{1}, {value}, ElementType::integer}), Error);
    CHECK_THROWS_AS(encode_npy({Shape(33, 1), {1}}), Error);
    CHECK_THROWS_WITH(encode_npy({{0, std::size_t{1} << 60}, {}}), ContainsSubstring("larger than any array"));
    CHECK_THROWS_AS(encode_npy({{2, 2}, {1, 2, 3}}), std::logic_error);
}

TEST_CASE("every element type that is understood decodes to the number it stands for", "[trace_io][npy]")
{
    CHECK(decoded("<f8", bytes({0, 0, 0, 0, 0, 0, 0xf8, 0xbf})) == -1.5);
    CHECK(decoded("=f4", bytes({0, 0, 0xc0, 0xbf})) == -1.5);
    CHECK(decoded("<f2", bytes({0x00, 0xbe})) == -1.5);
    CHECK(decoded("<f2", bytes({0x01, 0x00})) == std::ldexp(1, -24));
    CHECK(decoded("<f2", bytes({0xff, 0x7b})) == 65504);
    CHECK(decoded("<f2", bytes({0x00, 0xfc})) == -infinity);
    CHECK(std::isnan(decoded("<f2", bytes({0x00, 0x7e}))));
    CHECK(std::signbit(decoded("<f2", bytes({0x00, 0x80}))));
    CHECK(decoded("<V2", bytes({0xc0, 0xbf})) == -1.5);
    CHECK(decoded("|b1", bytes({1})) == 1);
    CHECK(decoded("|i1", bytes({0xff})) == -1);
    CHECK(decoded("|u1", bytes({0xff})) == 255);
    CHECK(decoded("<i2", bytes({0xfe, 0xff})) == -2);
    CHECK(decoded("<u2", bytes({0xfe, 0xff})) == 65534);
    CHECK(decoded("<i4", bytes({0, 0, 0, 0x80})) == -2147483648.0);
    CHECK(decoded("<u4", bytes({0, 0, 0, 0x80})) == 2147483648.0);
    CHECK(decoded("<i8", bytes({0, 0, 0, 0, 0, 0, 0xe0, 0xff})) == -9007199254740992.0);
    CHECK(decoded("<u8", bytes({0, 0, 0, 0, 0, 0, 0x20, 0})) == 9007199254740992.0);
}

TEST_CASE("raw elements of two bytes are the bfloat16 of ml_dtypes", "[trace_io][npy]")
{
    const Array array = decode_npy(npy("<V2", "(4,)", bytes({0x80, 0x3f, 0x80, 0xff, 0x01, 0x00, 0xc0, 0x7f})));
    CHECK(array.type == ElementType::real);
    CHECK(array.values.at(0) == 1);
    CHECK(array.values.at(1) == -infinity);
    CHECK(array.values.at(2) == std::ldexp(1, -133));
    CHECK(std::isnan(array.values.at(3)));
    CHECK(std::signbit(decoded("|V2", bytes({0x00, 0x80}))));
    CHECK_THROWS_WITH(decoded(">V2", bytes({0, 0})), ContainsSubstring("big-endian"));
}

TEST_CASE("whole numbers that a double would round are refused", "[trace_io][npy]")
{
    CHECK_THROWS_WITH(decoded("<i8", bytes({1, 0, 0, 0, 0, 0, 0x20, 0})), ContainsSubstring("9007199254740993"));
    CHECK_THROWS_AS(decoded("<i8", bytes({0, 0, 0, 0, 0, 0, 0, 0x80})), Error);
    CHECK_THROWS_AS(decoded("<u8", std::string(8, '\xff')), Error);
}

TEST_CASE("other element types are refused by name", "[trace_io][npy]")
{
    const auto refusal = [](const std::string& descr) -> std::string {
        return test::caught<Error>([&] { decode_npy(npy(descr, "()", std::string(16, '\0'))); }, "accepted");
    };
    CHECK_THAT(refusal(">f8"), ContainsSubstring("big-endian") && ContainsSubstring(">f8"));
    CHECK_THAT(refusal("<c16"), ContainsSubstring("complex"));
    CHECK_THAT(refusal("|O"), ContainsSubstring("Python objects"));
    CHECK_THAT(refusal("<U5"), ContainsSubstring("text"));
    CHECK_THAT(refusal("|S5"), ContainsSubstring("text"));
    for (const std::string raw : {"|V1", "|V4", "<V1", "|V"})
        CHECK_THAT(refusal(raw), ContainsSubstring("raw bytes"));
    CHECK_THAT(refusal("<M8[ns]"), ContainsSubstring("dates"));
    for (const std::string descr : {"", "f8", "|f8", "<f16", "<i3", "<", "<f8 ", "|b1x", "?", "V2", "xV2"})
        CHECK_THAT(refusal(descr), ContainsSubstring("of type '" + descr + "'"));
    CHECK_THROWS_WITH(decode_npy(npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}")),
                      ContainsSubstring("records"));
    CHECK_THROWS_WITH(decoded("|b1", bytes({2})), ContainsSubstring("boolean"));
}

TEST_CASE("columns first becomes rows first", "[trace_io][npy]")
{
    const std::string file = npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }",
                                 bytes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
    CHECK(decode_npy(file).values == std::vector<double>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11});
    CHECK(decode_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (), }", "\5")).values == std::vector{5.0});
    CHECK(decode_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (0, 3), }")).shape == Shape{0, 3});
}

TEST_CASE("a header's keys may come in any order and quotes", "[trace_io][npy]")
{
    const Array array = decode_npy(npy(R"( {"shape" : (2 ,) ,'fortran_order':False, "descr": '|u1'} )"
                                       "\n",
                                       "\1\2"));
    CHECK(identical(array, {{2}, {1, 2}, ElementType::integer}));
}

TEST_CASE("an empty array of any type and any other sizes is either refused or survives", "[trace_io][npy]")
{
    for (const std::string descr : {"|b1", "|u1", "<f2", "<V2", "<f4", "<f8", "<i8"})
        for (int bits = 58; bits < 64; ++bits)
            for (const std::uint64_t size : {(std::uint64_t{1} << bits) - 1, std::uint64_t{1} << bits}) {
                CAPTURE(descr, size);
                const std::string file = npy(descr, "(0, " + std::to_string(size) + ")", "");
                if (size < std::uint64_t{1} << 60)
                    CHECK(survives(decode_npy(file)));
                else
                    CHECK_THROWS_WITH(decode_npy(file), ContainsSubstring("larger than any array"));
            }
}

TEST_CASE("versions 2 and 3 have a longer length", "[trace_io][npy]")
{
    const std::string dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n";
    for (const char version : {'\2', '\3'}) {
        const std::string file = std::string("\x93NUMPY") + version + '\0' + static_cast<char>(dictionary.size()) +
                                 std::string(3, '\0') + dictionary + '\7';
        CHECK(decode_npy(file).values == std::vector{7.0});
    }
    CHECK_THROWS_WITH(decode_npy(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{", 13)), ContainsSubstring("4294967295"));
    CHECK_THROWS_WITH(decode_npy(std::string("\x93NUMPY\4\0\1\0\0\0{", 13)), ContainsSubstring("version 4.0"));
    CHECK_THROWS_WITH(decode_npy(std::string("\x93NUMPY\1\1\1\0{", 11)), ContainsSubstring("version 1.1"));
}

TEST_CASE("a malformed header is refused", "[trace_io][npy]")
{
    const std::string descr = "'descr': '|u1'";
    const std::string order = "'fortran_order': False";
    const std::string both = descr + ", " + order + ", ";
    for (const std::string& dictionary : {std::string(),
                                          std::string("{"),
                                          std::string("}"),
                                          std::string("{}"),
                                          std::string("{,}"),
                                          "{" + both + "}",
                                          "{" + both + "'shape': ()",
                                          "{" + both + "'shape': ()}}",
                                          "{" + both + "'shape': ()} x",
                                          "{" + both + "'shape': (), 'shape': ()}",
                                          "{" + both + "'shape': (), 'more': 1}",
                                          "{" + both + "'shape': (1)}",
                                          "{" + both + "'shape': (-1,)}",
                                          "{" + both + "'shape': (1.5,)}",
                                          "{" + both + "'shape': (1,,)}",
                                          "{" + both + "'shape': (,)}",
                                          "{" + both + "'shape': 1}",
                                          "{" + both + "'shape': [1]}",
                                          "{" + both + "'shape': (1 2)}",
                                          "{" + both + "'shape': (1L,)}",
                                          "{" + both + "'shape': (99999999999999999999,)}",
                                          "{" + both + "'shape': (9223372036854775808,)}",
                                          "{" + both + "'shape': (0, 9223372036854775808)}",
                                          "{" + both + "'shape': (4294967296, 4294967296)}",
                                          "{" + both + "'shape': (0, 4294967296, 4294967296)}",
                                          "{" + descr + ", 'fortran_order': 0, 'shape': ()}",
                                          "{'descr': |u1, " + order + ", 'shape': ()}",
                                          "{'descr': '|u1, " + order + "}",
                                          "{" + both + "shape: ()}",
                                          "{" + both + "'shape' ()}"}) {
        CAPTURE(dictionary);
        CHECK_THROWS_AS(decode_npy(npy(dictionary, "\1")), Error);
    }
    std::string axes = "(";
    for (int axis = 0; axis < 33; ++axis)
        axes += "1, ";
    CHECK_THROWS_WITH(decode_npy(npy("|u1", axes + ")", "\1")), ContainsSubstring("33 axes"));
}

TEST_CASE("a file cut anywhere is truncated and one byte more is trailing", "[trace_io][npy]")
{
    const std::string whole = encode_npy({{2, 3}, {0.1, 2, 3, 4, 5, 6}});
    for (std::size_t size = 0; size < whole.size(); ++size)
        CHECK_THROWS_WITH(decode_npy(std::string_view(whole).substr(0, size)), ContainsSubstring("truncated"));
    CHECK_NOTHROW(decode_npy(whole));
    CHECK_THROWS_WITH(decode_npy(whole + 'x'), ContainsSubstring("trailing"));
}

TEST_CASE("a header that promises more data than there are is refused", "[trace_io][npy]")
{
    CHECK_THROWS_WITH(decode_npy(npy("<f8", "(1000000000, 1000000000)", "x")), ContainsSubstring("truncated"));
    CHECK_THROWS_AS(decode_npy(npy("<f8", "(1e9, 1e9)", "x")), Error);
}

TEST_CASE("an array beyond the limit is refused before its elements are asked for", "[trace_io][npy]")
{
    std::string file = npy("|u1", "(5,)", "");
    const ByteSource header_only = [&](std::span<char> buffer) {
        if (file.empty())
            throw std::logic_error("asked for elements");
        const std::size_t count = file.copy(buffer.data(), buffer.size());
        file.erase(0, count);
        return count;
    };
    CHECK_THROWS_WITH(decode_npy(header_only, 4), ContainsSubstring("(5,)"));
}

TEST_CASE("any single changed byte gives an error or an array, never a crash", "[trace_io][npy]")
{
    const std::string whole = encode_npy({{2}, {0, 1}, ElementType::boolean});
    for (std::size_t place = 0; place < whole.size(); ++place)
        for (int value = 0; value < 256; ++value) {
            std::string changed = whole;
            changed[place] = static_cast<char>(value);
            try {
                const Array array = decode_npy(changed);
                if (array.size() != element_count(array.shape))
                    FAIL("byte " << place << " as " << value << " gives an array that is none");
            } catch (const Error&) {
            }
        }
}
