#include "attn/files/safetensors.hpp"

#include "attn/files/file.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include <sys/stat.h>

using namespace attn;
using namespace attn::files;

namespace {

std::string little_endian(std::uint64_t number, std::size_t count = 8)
{
    std::string bytes;
    for (std::size_t byte = 0; byte < count; ++byte)
        bytes += static_cast<char>(number >> (8 * byte) & 255);
    return bytes;
}

/// A file of any header in front of any data.
std::string file_of(const std::string& header, const std::string& data = "")
{
    return little_endian(header.size()) + header + data;
}

/// What stands in a header for one tensor.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets)
{
    return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + '}';
}

/// A file of one tensor x.
std::string file_of_x(const std::string& dtype, const std::string& shape, const std::string& offsets,
                      const std::string& data)
{
    return file_of('{' + entry("x", dtype, shape, offsets) + '}', data);
}

NamedArrays read_bytes(const std::string& bytes, const NpzLimits& limits = {})
{
    const TemporaryFolder folder;
    put_bytes(folder / "w.safetensors", bytes);
    return read_safetensors(folder / "w.safetensors", limits);
}

/// What reading a file of these bytes says; "accepted" where it succeeds.
std::string refused_safetensors(const std::string& bytes, const NpzLimits& limits = {})
{
    const TemporaryFolder folder;
    put_bytes(folder / "w.safetensors", bytes);
    try {
        read_safetensors(folder / "w.safetensors", limits);
    } catch (const FileError& error) {
        const std::string message = error.what();
        CHECK(error.path() == folder / "w.safetensors");
        CHECK_THAT(message, ContainsSubstring("w.safetensors: "));
        CHECK(message.find('\n') == std::string::npos);
        return message;
    }
    return "accepted";
}

/// The only element of a file that holds one, of these bytes.
double decoded(const std::string& dtype, std::uint64_t bits, std::size_t count)
{
    const std::string bytes = little_endian(bits, count);
    return read_bytes(file_of_x(dtype, "[]", "[0," + std::to_string(count) + "]", bytes)).at("x").values.at(0);
}

NamedArrays written_and_read(const NamedArrays& arrays)
{
    const TemporaryFolder folder;
    write_safetensors(folder / "w.safetensors", arrays);
    return read_safetensors(folder / "w.safetensors");
}

std::string written(const NamedArrays& arrays)
{
    const TemporaryFolder folder;
    write_safetensors(folder / "w.safetensors", arrays);
    return bytes_of(folder / "w.safetensors");
}

/// What writing says; "written" where it succeeds. A refusal leaves no file.
std::string refusal_to_write(const NamedArrays& arrays)
{
    const TemporaryFolder folder;
    try {
        write_safetensors(folder / "w.safetensors", arrays);
    } catch (const FileError& error) {
        CHECK(folder.count() == 0);
        return error.what();
    }
    return "written";
}

bool same_arrays(const NamedArrays& left, const NamedArrays& right)
{
    return std::ranges::equal(left, right, [](const auto& one, const auto& other) {
        return one.first == other.first && identical(one.second, other.second);
    });
}

bool same_bits(double left, double right)
{
    return std::bit_cast<std::uint64_t>(left) == std::bit_cast<std::uint64_t>(right);
}

/// By the book: a sign, an exponent and a fraction of any widths.
double number_of(std::uint64_t bits, int exponent_bits, int fraction_bits)
{
    const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
    const auto exponent = static_cast<int>(bits >> fraction_bits & ((1U << exponent_bits) - 1));
    const double sign = bits >> (exponent_bits + fraction_bits) != 0 ? -1 : 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double one = std::exp2(fraction_bits);
    if (exponent == (1 << exponent_bits) - 1)
        return fraction == 0 ? sign * infinity : not_a_number;
    return exponent == 0 ? sign * fraction / one * std::exp2(1 - bias)
                         : sign * (1 + fraction / one) * std::exp2(exponent - bias);
}

/// All 65536 numbers of a type of two bytes.
Array every_number(const std::string& dtype)
{
    std::string data;
    for (std::uint64_t bits = 0; bits < 65536; ++bits)
        data += little_endian(bits, 2);
    return read_bytes(file_of_x(dtype, "[65536]", "[0,131072]", data)).at("x");
}

std::size_t wrong_numbers(const Array& array, int exponent_bits, int fraction_bits)
{
    std::size_t wrong = 0;
    for (std::uint64_t bits = 0; bits < 65536; ++bits) {
        const double expected = number_of(bits, exponent_bits, fraction_bits);
        const double found = array.values.at(bits);
        wrong += std::isnan(expected) ? !std::isnan(found) : !same_bits(found, expected);
    }
    return wrong;
}

const NamedArrays sample{
    {"a", {{3}, {0, 1, 1}, ElementType::boolean}},
    {"encoder.layers.0.weight", {{2, 3}, {0.1, -0.0, infinity, -infinity, not_a_number, 1e-320}}},
    {"half", {{2, 2}, {0.5, -0.0, infinity, not_a_number}}},
    {"ids", {{2}, {-9007199254740992, 9007199254740992}, ElementType::integer}},
    {"none", {{3, 0, 2}, {}}},
    {"one", {{}, {3.25}}},
};

} // namespace

// ---------------------------------------------------------------------------------------------------- round trips

TEST_CASE("every kind of array survives safetensors bit for bit", "[trace_io][safetensors]")
{
    CHECK(same_arrays(written_and_read(sample), sample));
    CHECK(same_arrays(written_and_read({}), {}));
    for (const ElementType type : {ElementType::real, ElementType::boolean, ElementType::integer})
        CHECK(same_arrays(written_and_read({{"x", {{0}, {}, type}}}), {{"x", {{0}, {}, type}}}));
    const NamedArrays deep{{"x", {Shape(32, 1), {7}}}};
    CHECK(same_arrays(written_and_read(deep), deep));
}

TEST_CASE("a tensor's name may be any UTF-8", "[trace_io][safetensors]")
{
    const Array one{{}, {1}};
    const NamedArrays odd{{"", one},    {"a\"b\\c", one},         {"\n\t\x7f", one},
                          {"ß→😀", one}, {std::string(1, 0), one}, {std::string(10'000, 'n'), one}};
    CHECK(same_arrays(written_and_read(odd), odd));
}

TEST_CASE("arrays larger than what is decoded at a time keep the order of their elements", "[trace_io][safetensors]")
{
    Array array{{3, 7001}, {}};
    for (int element = 0; element < 21003; ++element)
        array.values.push_back(element + 0.1);
    const NamedArrays arrays{{"a", array}, {"b", {{1}, {7}}}};
    CHECK(same_arrays(written_and_read(arrays), arrays));
}

TEST_CASE("the file that is written is the one that the format describes", "[trace_io][safetensors]")
{
    const std::string header = R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},)"
                               R"("b":{"dtype":"F32","shape":[1,1],"data_offsets":[2,6]},)"
                               R"("c":{"dtype":"I64","shape":[],"data_offsets":[6,14]},)"
                               R"("d":{"dtype":"F64","shape":[1],"data_offsets":[14,22]}})";
    const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
    CHECK(written({{"b", {{1, 1}, {-1.5}}},
                   {"d", {{1}, {0.1}}},
                   {"c", {{}, {-2}, ElementType::integer}},
                   {"a", {{2}, {0, 1}, ElementType::boolean}}}) ==
          file_of(padded, std::string("\0\1", 2) + little_endian(0xbfc00000, 4) + little_endian(-2ULL) +
                              little_endian(std::bit_cast<std::uint64_t>(0.1))));
}

TEST_CASE("the same arrays give the same bytes, with the data at a multiple of 8", "[trace_io][safetensors]")
{
    std::string name;
    for (int length = 0; length < 9; ++length) {
        name += 'x';
        const std::string bytes = written({{name, {{1}, {0.5}}}});
        CHECK(bytes == written({{name, {{1}, {0.5}}}}));
        CHECK((bytes.size() - 4) % 8 == 0);
        CHECK(bytes.ends_with(little_endian(0x3f000000, 4)));
    }
}

TEST_CASE("reals take four bytes in safetensors exactly where that loses nothing", "[trace_io][safetensors]")
{
    const auto stored_as = [](double value, const std::string& dtype) {
        return written({{"x", {{1}, {value}}}}).find("\"dtype\":\"" + dtype + '"') != std::string::npos;
    };
    for (const double value : {0.5, -0.0, -infinity, not_a_number, static_cast<double>(0.1f)})
        CHECK(stored_as(value, "F32"));
    for (const double value : {0.1, 1e300, 3.4028235677973366e38, 1e-60})
        CHECK(stored_as(value, "F64"));
}

TEST_CASE("what a safetensors file cannot hold is refused on writing, and the file that was there stays",
          "[trace_io][safetensors]")
{
    CHECK_THAT(refusal_to_write({{"__metadata__", {{}, {1}}}}), ContainsSubstring("__metadata__"));
    CHECK_THAT(refusal_to_write({{"a\xff", {{}, {1}}}}), ContainsSubstring("UTF-8"));
    CHECK_THAT(refusal_to_write({{"a\xed\xa0\x80", {{}, {1}}}}), ContainsSubstring("UTF-8"));
    for (const double value : {2.0, 0.5, -1.0, -0.0, not_a_number})
        CHECK_THAT(refusal_to_write({{"mask", {{1}, {value}, ElementType::boolean}}}),
                   ContainsSubstring("tensor \"mask\" holds") && ContainsSubstring("boolean"));
    for (const double value : {0.5, -0.0, not_a_number, infinity, 9007199254740994.0})
        CHECK_THAT(refusal_to_write({{"ids", {{1}, {value}, ElementType::integer}}}),
                   ContainsSubstring("tensor \"ids\" holds") && ContainsSubstring("2^53"));
    CHECK_THAT(refusal_to_write({{"x", {Shape(33, 1), {1}}}}), ContainsSubstring("33 axes"));
    CHECK_THAT(refusal_to_write({{"x", {{0, std::size_t{1} << 60}, {}}}}), ContainsSubstring("larger than any array"));
    CHECK_THROWS_AS(refusal_to_write({{"x", {{2}, {1}}}}), std::logic_error);

    const TemporaryFolder folder;
    put_bytes(folder / "w.safetensors", "before");
    CHECK_THROWS_AS(write_safetensors(folder / "w.safetensors", {{"__metadata__", {{}, {1}}}}), FileError);
    CHECK(bytes_of(folder / "w.safetensors") == "before");
    CHECK_THROWS_AS(write_safetensors(folder / "missing" / "w.safetensors", sample), FileError);
}

// ------------------------------------------------------------------------------------------------------- elements

TEST_CASE("every dtype that is understood decodes to the number it stands for", "[trace_io][safetensors]")
{
    CHECK(decoded("F64", 0xbff8000000000000, 8) == -1.5);
    CHECK(decoded("F64", 1, 8) == 5e-324);
    CHECK(decoded("F32", 0xbfc00000, 4) == -1.5);
    CHECK(decoded("F32", 1, 4) == std::ldexp(1, -149));
    CHECK(decoded("F16", 0xbe00, 2) == -1.5);
    CHECK(decoded("F16", 1, 2) == std::ldexp(1, -24));
    CHECK(decoded("BF16", 0xbfc0, 2) == -1.5);
    CHECK(decoded("BF16", 1, 2) == std::ldexp(1, -133));
    CHECK(decoded("BOOL", 0, 1) == 0);
    CHECK(decoded("BOOL", 1, 1) == 1);
    CHECK(decoded("I8", 0xff, 1) == -1);
    CHECK(decoded("U8", 0xff, 1) == 255);
    CHECK(decoded("I16", 0xfffe, 2) == -2);
    CHECK(decoded("U16", 0xfffe, 2) == 65534);
    CHECK(decoded("I32", 0x80000000, 4) == -2147483648.0);
    CHECK(decoded("U32", 0x80000000, 4) == 2147483648.0);
    CHECK(decoded("I64", 0xffe0000000000000, 8) == -9007199254740992.0);
    CHECK(decoded("U64", 0x0020000000000000, 8) == 9007199254740992.0);
}

TEST_CASE("a dtype says what its elements stand for", "[trace_io][safetensors]")
{
    const auto type_of = [](const std::string& dtype) {
        return read_bytes(file_of_x(dtype, "[0]", "[0,0]", "")).at("x").type;
    };
    for (const char* dtype : {"F64", "F32", "F16", "BF16"})
        CHECK(type_of(dtype) == ElementType::real);
    for (const char* dtype : {"I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"})
        CHECK(type_of(dtype) == ElementType::integer);
    CHECK(type_of("BOOL") == ElementType::boolean);
}

TEST_CASE("all 65536 float16 and bfloat16 are exact", "[trace_io][safetensors]")
{
    CHECK(wrong_numbers(every_number("F16"), 5, 10) == 0);
    CHECK(wrong_numbers(every_number("BF16"), 8, 7) == 0);
}

TEST_CASE("elements that a double or a boolean cannot be are refused", "[trace_io][safetensors]")
{
    CHECK_THROWS_WITH(decoded("I64", 0x0020000000000001, 8),
                      ContainsSubstring("tensor \"x\" holds the whole number 9007199254740993"));
    CHECK_THROWS_AS(decoded("I64", 0x8000000000000000, 8), FileError);
    CHECK_THROWS_AS(decoded("U64", 0xffffffffffffffff, 8), FileError);
    CHECK_THROWS_WITH(decoded("BOOL", 2, 1), ContainsSubstring("tensor \"x\" holds the byte 2"));
}

TEST_CASE("any other dtype is refused by its name", "[trace_io][safetensors]")
{
    for (const std::string dtype : {"F8_E5M2", "F8_E4M3", "F4", "C64", "f32", "", "V2", "F32 "})
        CHECK_THAT(refused_safetensors(file_of_x(dtype, "[1]", "[0,4]", "1234")),
                   ContainsSubstring("tensor \"x\" has the dtype \"" + dtype + "\"") && ContainsSubstring("BF16"));
}

// --------------------------------------------------------------------------------------------------------- layout

TEST_CASE("tensors may lie in any order, empty ones between, and metadata is left out", "[trace_io][safetensors]")
{
    const std::string header =
        R"({"__metadata__": {"format": "pt", "note": ""}, "b": {"data_offsets": [0, 1], "shape": [1], "dtype": "U8"},)" +
        entry("empty", "F64", "[4,0]", "[1,1]") + " ,\n" + entry("also empty", "BOOL", "[0]", "[1,1]") + "," +
        entry("a", "U8", "[2]", "[1,3]") + "}   ";
    CHECK(same_arrays(read_bytes(file_of(header, "\7\10\11")), {{"a", {{2}, {8, 9}, ElementType::integer}},
                                                                {"also empty", {{0}, {}, ElementType::boolean}},
                                                                {"b", {{1}, {7}, ElementType::integer}},
                                                                {"empty", {{4, 0}, {}}}}));
}

TEST_CASE("a string is taken as a tensor's dtype alone", "[trace_io][safetensors]")
{
    const auto with_x = [](const std::string& x) { return refused_safetensors(file_of("{" + x + "}", "1234")); };
    CHECK_THAT(with_x(R"("x":{"dtype":"F32","shape":"I8","data_offsets":[0,4]})"),
               ContainsSubstring("tensor \"x\" has the string \"I8\" as its shape, expected a list of whole numbers"));
    CHECK(with_x(R"("__metadata__":{"dtype":"I8"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})") ==
          "accepted");
}

TEST_CASE("tensors that overlap or leave a hole are refused", "[trace_io][safetensors]")
{
    const auto two = [](const std::string& first, const std::string& second) {
        return refused_safetensors(file_of(
            '{' + entry("first", "U8", "[4]", first) + ',' + entry("second", "U8", "[4]", second) + '}', "12345678"));
    };
    CHECK(two("[0,4]", "[4,8]") == "accepted");
    CHECK(two("[4,8]", "[0,4]") == "accepted");
    CHECK_THAT(two("[0,4]", "[3,7]"), ContainsSubstring("tensor \"second\" begins at byte 3 of the data, expected 4"));
    CHECK_THAT(two("[0,4]", "[0,4]"), ContainsSubstring("tensor \"second\" begins at byte 0 of the data, expected 4"));
    CHECK_THAT(two("[0,4]", "[5,9]"), ContainsSubstring("tensor \"second\" begins at byte 5 of the data, expected 4"));
    CHECK_THAT(two("[1,5]", "[5,9]"), ContainsSubstring("tensor \"first\" begins at byte 1 of the data, expected 0"));
    CHECK_THAT(
        refused_safetensors(file_of(
            '{' + entry("inner", "U8", "[0]", "[2,2]") + ',' + entry("outer", "U8", "[4]", "[0,4]") + '}', "1234")),
        ContainsSubstring("tensor \"inner\" begins at byte 2"));
}

TEST_CASE("data that end too early or too late are refused", "[trace_io][safetensors]")
{
    CHECK_THAT(refused_safetensors(file_of_x("U8", "[4]", "[0,4]", "123")),
               ContainsSubstring("is truncated: tensor \"x\" ends"));
    CHECK_THAT(refused_safetensors(file_of_x("U8", "[4]", "[0,4]", "12345")), ContainsSubstring("1 trailing bytes"));
    CHECK_THAT(refused_safetensors(file_of("{}", "1")), ContainsSubstring("1 trailing bytes"));
    CHECK(refused_safetensors(file_of("{}")) == "accepted");
}

TEST_CASE("offsets that disagree with the shape are refused", "[trace_io][safetensors]")
{
    for (const std::string offsets : {"[0,3]", "[0,5]", "[0,0]", "[4,8]"}) {
        CAPTURE(offsets);
        CHECK_THAT(refused_safetensors(file_of_x("F32", "[2]", offsets, "12345678")),
                   ContainsSubstring("tensor \"x\" has "));
    }
    CHECK_THAT(refused_safetensors(file_of_x("U8", "[1]", "[4,3]", "1234")),
               ContainsSubstring("tensor \"x\" ends at byte 3"));
    CHECK_THAT(refused_safetensors(file_of_x("U8", "[1]", "[18446744073709551615,0]", "1")),
               ContainsSubstring("tensor \"x\" ends"));
}

TEST_CASE("sizes whose product overflows are refused, even where a size of zero hides it", "[trace_io][safetensors]")
{
    for (const std::string shape :
         {"[4294967296,4294967296]", "[4294967296,4294967296,0]", "[0,4294967296,4294967296]", "[9223372036854775808]",
          "[18446744073709551615,2]", "[2305843009213693952]", "[4611686018427387905,4]", "[0,1152921504606846976]"}) {
        CAPTURE(shape);
        CHECK_THAT(refused_safetensors(file_of_x("F64", shape, "[0,0]", "")),
                   ContainsSubstring("tensor \"x\"") && ContainsSubstring("larger than any array"));
    }
}

TEST_CASE("shapes and offsets that are not natural numbers are refused", "[trace_io][safetensors]")
{
    for (const std::string number : {"-1", "-0", "1.5", "1.0", "1e0", "1e400", "-1e400", "18446744073709551616",
                                     "99999999999999999999999999", "null", "true", "\"1\"", "[1]", "{}"}) {
        CAPTURE(number);
        CHECK_THAT(refused_safetensors(file_of_x("U8", "[" + number + "]", "[0,1]", "1")),
                   ContainsSubstring("w.safetensors: "));
        CHECK_THAT(refused_safetensors(file_of_x("U8", "[1]", "[0," + number + "]", "1")),
                   ContainsSubstring("w.safetensors: "));
    }
    CHECK_THAT(refused_safetensors(file_of_x("U8", "[-1]", "[0,1]", "1")),
               ContainsSubstring("tensor \"x\" has -1 in its shape"));
    for (const std::string offsets : {"[]", "[0]", "[0,1,1]", "1", "null", "{}"})
        CHECK_THAT(refused_safetensors(file_of_x("U8", "[1]", offsets, "1")),
                   ContainsSubstring("tensor \"x\"") && ContainsSubstring("data_offsets"));
    CHECK_THAT(refused_safetensors(file_of_x("U8", "1", "[0,1]", "1")),
               ContainsSubstring("tensor \"x\" has 1 as its shape"));
    std::string axes = "1";
    for (int axis = 1; axis < 33; ++axis)
        axes += ",1";
    CHECK_THAT(refused_safetensors(file_of_x("U8", '[' + axes + ']', "[0,1]", "1")), ContainsSubstring("33 axes"));
    CHECK_THAT(refused_safetensors(file_of_x("U8", '[' + axes + ",1]", "[0,1]", "1")), ContainsSubstring("at most 32"));
}

// --------------------------------------------------------------------------------------------------------- header

TEST_CASE("a safetensors file cut anywhere is refused", "[trace_io][safetensors]")
{
    const std::string whole = written(sample);
    REQUIRE(whole.size() > 100);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        const std::string answer = refused_safetensors(whole.substr(0, size));
        if (answer == "accepted")
            FAIL("accepted when cut to " << size << " of " << whole.size() << " bytes");
    }
    CHECK(refused_safetensors(whole) == "accepted");
    CHECK_THAT(refused_safetensors(whole + 'x'), ContainsSubstring("1 trailing bytes"));
    CHECK_THAT(refused_safetensors(""), ContainsSubstring("has 0 bytes"));
}

TEST_CASE("a header length that cannot be is refused before any memory is asked for", "[trace_io][safetensors]")
{
    for (const std::uint64_t length :
         {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{100'000'001}})
        CHECK_THAT(refused_safetensors(little_endian(length) + "{}"),
                   ContainsSubstring("has " + std::to_string(length) + " bytes, more than the 100000000"));
    for (const std::uint64_t length : {3, 100'000'000})
        CHECK_THAT(refused_safetensors(little_endian(length) + "{}"),
                   ContainsSubstring("its header has 2 of " + std::to_string(length) + " bytes"));
}

TEST_CASE("a header that is no JSON object is refused", "[trace_io][safetensors]")
{
    for (const std::string header : {"", " {}", "[]", "null", "1", "\"x\"", "\xef\xbb\xbf{}"})
        CHECK_THAT(refused_safetensors(file_of(header)), ContainsSubstring("does not begin with {"));
    for (const std::string& header :
         {std::string("{"), std::string("{}{}"), std::string("{} x"), std::string("{,}"), std::string("{\"x\"}"),
          std::string("{\"x\":}"), std::string("{} // comment"), std::string("{\"x\":NaN}"), std::string("{}\0", 3),
          std::string("{}\0x", 4), std::string("{\"\xff\":{}}"), std::string("{\"\\ud800\":{}}"),
          '{' + entry("x", "U8", "[1]", "[0,1]") + ",}"}) {
        CAPTURE(header);
        CHECK_THAT(refused_safetensors(file_of(header, "1")), ContainsSubstring("no JSON"));
    }
}

TEST_CASE("JSON of any depth is refused where it becomes too deep for a header", "[trace_io][safetensors]")
{
    const std::string lists(100'000, '[');
    std::string objects;
    for (int level = 0; level < 100'000; ++level)
        objects += "{\"x\":";
    CHECK_THAT(refused_safetensors(file_of("{\"x\":" + lists)),
               ContainsSubstring("tensor \"x\" is a list, expected an object"));
    CHECK_THAT(refused_safetensors(file_of(objects)), ContainsSubstring("tensor \"x\" has the unknown key \"x\""));
    CHECK_THAT(refused_safetensors(file_of(R"({"x":{"dtype":)" + objects)),
               ContainsSubstring("has an object as its dtype"));
    CHECK_THAT(refused_safetensors(file_of(R"({"x":{"shape":)" + lists)), ContainsSubstring("has a list in its shape"));
    CHECK_THAT(refused_safetensors(file_of(R"({"__metadata__":{"a":)" + lists)),
               ContainsSubstring("has a list as its \"a\""));
}

TEST_CASE("a key that comes twice is refused at every level", "[trace_io][safetensors]")
{
    const std::string x = entry("x", "U8", "[1]", "[0,1]");
    CHECK_THAT(refused_safetensors(file_of('{' + x + ',' + x + '}', "1")), ContainsSubstring("has tensor \"x\" twice"));
    CHECK_THAT(refused_safetensors(file_of(R"({"\u0078":{},)" + x + '}', "1")), ContainsSubstring("tensor \"x\""));
    CHECK_THAT(refused_safetensors(file_of(R"({"__metadata__":{},"__metadata__":{}})")), ContainsSubstring("twice"));
    CHECK_THAT(refused_safetensors(file_of(R"({"__metadata__":{"a":"1","a":"1"}})")),
               ContainsSubstring("the key \"a\" twice"));
    for (const std::string again : {R"("dtype":"U8")", R"("shape":[1])", R"("data_offsets":[0,1])"})
        CHECK_THAT(
            refused_safetensors(file_of(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],)" + again + "}}", "1")),
            ContainsSubstring("tensor \"x\" has the key") && ContainsSubstring("twice"));
}

TEST_CASE("a tensor without one of its keys, or with another, is refused", "[trace_io][safetensors]")
{
    const auto x = [](const std::string& keys) { return refused_safetensors(file_of(R"({"x":{)" + keys + "}}", "1")); };
    CHECK(x(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])") == "accepted");
    CHECK_THAT(x(R"("shape":[1],"data_offsets":[0,1])"), ContainsSubstring("tensor \"x\" has no \"dtype\""));
    CHECK_THAT(x(R"("dtype":"U8","data_offsets":[0,1])"), ContainsSubstring("tensor \"x\" has no \"shape\""));
    CHECK_THAT(x(R"("dtype":"U8","shape":[1])"), ContainsSubstring("tensor \"x\" has no \"data_offsets\""));
    CHECK_THAT(x(""), ContainsSubstring("tensor \"x\" has no \"dtype\""));
    CHECK_THAT(x(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"scale":2)"),
               ContainsSubstring("tensor \"x\" has the unknown key \"scale\""));
    for (const std::string value : {"null", "1", "-1", "1.5", "true", "[]", "{}"})
        CHECK_THAT(x(R"("dtype":)" + value), ContainsSubstring("as its dtype, expected a string"));
    for (const std::string value : {"null", "1", "-1", "1.5", "true", "[]", "\"F32\""})
        CHECK_THAT(refused_safetensors(file_of(R"({"x":)" + value + "}")), ContainsSubstring("tensor \"x\" is "));
}

TEST_CASE("metadata that are not strings are refused", "[trace_io][safetensors]")
{
    for (const std::string value : {"null", "1", "-1", "1.5", "true", "[]", "{}"}) {
        CHECK_THAT(refused_safetensors(file_of(R"({"__metadata__":{"a":)" + value + "}}")),
                   ContainsSubstring("\"__metadata__\" has ") && ContainsSubstring("expected a string"));
        if (value != "{}")
            CHECK_THAT(refused_safetensors(file_of(R"({"__metadata__":)" + value + "}")),
                       ContainsSubstring("\"__metadata__\" is ") && ContainsSubstring("expected an object of strings"));
    }
    CHECK(refused_safetensors(file_of(R"({"__metadata__":{"a":"1"}})")) == "accepted");
}

TEST_CASE("an error about a tensor with an odd or very long name is one line and still says what is wrong",
          "[trace_io][safetensors]")
{
    CHECK_THAT(refused_safetensors(file_of('{' + entry(R"(a\n\u001b[1m)", "U8", "[1]", "[0,2]") + '}', "12")),
               ContainsSubstring("tensor \"a\\n\\x1B[1m\" has 2 bytes of data"));
    const std::string endless(100'000, 'n');
    CHECK_THAT(refused_safetensors(file_of('{' + entry(endless, "U8", "[1]", "[0,2]") + '}', "12")),
               ContainsSubstring("nnn...\" has 2 bytes of data"));
    CHECK_THAT(refused_safetensors(file_of('{' + entry("x", endless, "[1]", "[0,1]") + '}', "1")),
               ContainsSubstring("nnn...\", expected one of F64"));
}

// ---------------------------------------------------------------------------------------------------------- limits

TEST_CASE("all tensors of a safetensors file together stay within the limit", "[trace_io][safetensors]")
{
    const std::string file =
        file_of('{' + entry("a", "U8", "[2]", "[0,2]") + ',' + entry("b", "U8", "[1,2]", "[2,4]") + '}', "1234");
    CHECK(refused_safetensors(file, {4, 0}) == "accepted");
    CHECK_THAT(refused_safetensors(file, {3, 0}),
               ContainsSubstring("tensor \"b\" has the shape (1, 2), more than the 1"));
}

TEST_CASE("a huge tensor that is not there is refused before memory is asked for", "[trace_io][safetensors]")
{
    CHECK_THAT(refused_safetensors(file_of_x("F64", "[500000000]", "[0,4000000000]", "x")),
               ContainsSubstring("is truncated"));
}

TEST_CASE("what is no file of tensors is refused by what it is", "[trace_io][safetensors]")
{
    const TemporaryFolder folder;
    CHECK_THROWS_WITH(read_safetensors(folder.path()), ContainsSubstring("is a folder"));
    CHECK_THROWS_WITH(read_safetensors(folder / "none"), ContainsSubstring("there is no such file"));
    CHECK_THROWS_WITH(read_safetensors("/dev/null"), ContainsSubstring("is a device"));
    CHECK_THROWS_AS(read_safetensors(folder.path()), FileError);
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK_THROWS_WITH(read_safetensors(folder / "pipe"), ContainsSubstring("is a device or a pipe"));
}

TEST_CASE("any single changed byte of a safetensors file gives a FileError or arrays, never a crash",
          "[trace_io][safetensors]")
{
    const std::string whole = written({{"mask", {{2}, {0, 1}, ElementType::boolean}}, {"x", {{1}, {0.5}}}});
    const TemporaryFolder folder;
    int refused = 0;
    for (std::size_t place = 0; place < whole.size(); ++place)
        for (const int flip : {0x01, 0x02, 0x10, 0x80, 0xff}) {
            std::string changed = whole;
            changed[place] = static_cast<char>(changed[place] ^ flip);
            put_bytes(folder / "changed", changed);
            try {
                read_safetensors(folder / "changed");
            } catch (const FileError&) {
                ++refused;
            }
        }
    CHECK(refused > 0);
}
