#include "attn/files/npz.hpp"

#include "attn/files/file.hpp"
#include "attn/files/npy.hpp"
#include "npz_members.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"
#include "files/zip_bytes.hpp"

#include <cmath>
#include <cstdlib>
#include <ctime>

#include <sys/stat.h>

using namespace attn;
using namespace attn::files;
using zip_bytes::Bomb;
using zip_bytes::Member;
using zip_bytes::Sizes;
namespace fs = std::filesystem;

namespace {

const Array row{{1, 2}, {0.1, -INFINITY}};
const Array mask{{2}, {0, 1}, ElementType::boolean};
const Array ids{{}, {7}, ElementType::integer};

/// The header of an .npy file without its elements.
std::string header(const std::string& descr, const std::string& shape)
{
    const std::string dictionary = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(dictionary.size()) + '\0' + dictionary;
}

/// What reading a file of these bytes says; "accepted" where it succeeds.
std::string refused_npz(const std::string& bytes, const NpzLimits& limits = {})
{
    const TemporaryFolder folder;
    put_bytes(folder / "x.npz", bytes);
    try {
        read_npz_members(folder / "x.npz", {"text"}, limits);
    } catch (const FileError& error) {
        CHECK(error.path() == folder / "x.npz");
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        return error.what();
    }
    return "accepted";
}

std::string refused_npz(const Member& member) { return refused_npz(zip_bytes::archive({member})); }

void write_sample(const fs::path& path) { write_npz(path, {{{"text", "hello"}}, {{"b", row}, {"a.c", mask}}, "note"}); }

} // namespace

TEST_CASE("what was written is read back, in its order", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    write_npz(folder / "x.npz",
              {{{"text", "hello"}, {"empty", ""}}, {{"b", row}, {"a.c", mask}, {"ids", ids}}, "note"});

    const Npz read = read_npz_members(folder / "x.npz", {"text", "empty", "absent"});
    CHECK(read.comment == "note");
    CHECK(read.texts == std::vector<std::pair<std::string, std::string>>{{"text", "hello"}, {"empty", ""}});
    REQUIRE(read.arrays.size() == 3);
    CHECK(read.arrays[0].first == "b");
    CHECK(identical(read.arrays[0].second, row));
    CHECK(read.arrays[1].first == "a.c");
    CHECK(identical(read.arrays[1].second, mask));
    CHECK(identical(read.arrays[2].second, ids));
}

TEST_CASE("reading arrays by name ignores every other member", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    write_sample(folder / "x.npz");
    const NamedArrays arrays = read_npz(folder / "x.npz");
    CHECK(arrays.size() == 2);
    CHECK(identical(arrays.at("b"), row));
    CHECK(identical(arrays.at("a.c"), mask));
}

TEST_CASE("the same content gives the same bytes, at another time, place and umask", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    write_sample(folder / "one.npz");

    const mode_t mask_before = ::umask(077);
    ::setenv("TZ", "Asia/Tokyo", 1);
    ::tzset();
    const std::time_t start = std::time(nullptr);
    while (std::time(nullptr) < start + 2) { // a zip counts time in steps of two seconds
    }
    write_sample(folder / "two.npz");
    ::umask(mask_before);
    ::unsetenv("TZ");
    ::tzset();

    CHECK(bytes_of(folder / "one.npz") == bytes_of(folder / "two.npz"));
    write_npz(folder / "three.npz", {{}, {{"b", row}}, ""});
    CHECK(bytes_of(folder / "one.npz") != bytes_of(folder / "three.npz"));
}

TEST_CASE("an archive can have more members than 16 bits count", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    constexpr std::size_t many = 70'000;
    Npz content;
    for (std::size_t i = 0; i < many; ++i)
        content.arrays.emplace_back("a" + std::to_string(i), Array{{}, {static_cast<double>(i)}});
    write_npz(folder / "x.npz", content);
    const NpzReader read(folder / "x.npz");
    REQUIRE(read.names().size() == many);
    CHECK(read.array(many - 1).values == std::vector<double>{many - 1});
}

TEST_CASE("members are stored as they are", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    write_sample(folder / "x.npz");
    CHECK(bytes_of(folder / "x.npz").find(encode_npy(row)) != std::string::npos);
}

TEST_CASE("what cannot be stored is refused and leaves no file", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    const fs::path path = folder / "x.npz";
    for (const std::string name : {"", "a/b", "../a", "a..b", ".a", "a.", "a b", "a\n", "\xc3\xa9", "a\\b", "/a"}) {
        CAPTURE(name);
        CHECK_THROWS_AS(write_npz(path, {{}, {{name, row}}, ""}), FileError);
        CHECK_THROWS_AS(write_npz(path, {{{name + '/', ""}}, {}, ""}), FileError);
    }
    CHECK_THROWS_AS(write_npz(path, {{}, {{"a", row}, {"a", row}}, ""}), FileError);
    CHECK_THROWS_AS(write_npz(path, {{{"a.npy", ""}}, {{"a", row}}, ""}), FileError);
    CHECK_THROWS_AS(write_npz(path, {{}, {{std::string(70000, 'a'), row}}, ""}), FileError);
    CHECK_THROWS_AS(write_npz(path, {}), FileError);
    CHECK_THROWS_WITH(write_npz(path, {{}, {{"a", {{1}, {0.5}, ElementType::integer}}}, ""}),
                      ContainsSubstring("x.npz: member a.npy holds 0.5"));
    CHECK(folder.count() == 0);
}

TEST_CASE("what is no file or no archive is refused", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    CHECK_THROWS_WITH(read_npz(folder / "missing.npz"), ContainsSubstring("no such file"));
    CHECK_THROWS_WITH(read_npz(folder.path()), ContainsSubstring("is a folder"));
    CHECK_THROWS_WITH(read_npz("/dev/zero"), ContainsSubstring("is a device"));
    put_bytes(folder / "file", "x");
    CHECK_THROWS_AS(read_npz(folder / "file" / "x.npz"), FileError);
    CHECK_THROWS_AS(read_npz(""), FileError);
    CHECK_THAT(refused_npz(""), ContainsSubstring("is empty"));
    CHECK_THAT(refused_npz("not a zip archive at all, only some text"), ContainsSubstring("zip"));
    CHECK_THAT(refused_npz(encode_npy(row)), ContainsSubstring("zip"));
}

TEST_CASE("an archive without members has no arrays", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    put_bytes(folder / "x.npz", zip_bytes::archive({}));
    CHECK(read_npz(folder / "x.npz").empty());
}

TEST_CASE("the hand-made archives of these tests can be read where nothing in them is wrong", "[trace_io][npz]")
{
    const Bomb bomb(header("|u1", "(259,)"), '\5', 1);
    const TemporaryFolder folder;
    put_bytes(folder / "x.npz",
              zip_bytes::archive({{"a.npy", encode_npy(row)},
                                  {"b.npy", bomb.bytes(), header("|u1", "(259,)") + std::string(259, '\5'), 8}}));
    const NamedArrays arrays = read_npz(folder / "x.npz");
    CHECK(identical(arrays.at("a"), row));
    CHECK(arrays.at("b").values == std::vector<double>(259, 5));
}

TEST_CASE("a file cut anywhere is refused", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    write_sample(folder / "x.npz");
    const std::string whole = bytes_of(folder / "x.npz");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        put_bytes(folder / "cut.npz", std::string_view(whole).substr(0, size));
        REQUIRE_THROWS_AS(read_npz(folder / "cut.npz"), FileError);
    }
}

TEST_CASE("any single changed byte gives a FileError or arrays, never a crash", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    write_sample(folder / "x.npz");
    const std::string whole = bytes_of(folder / "x.npz");
    int refused = 0;
    for (std::size_t place = 0; place < whole.size(); ++place)
        for (const int flip : {0x01, 0x80, 0xff}) {
            std::string changed = whole;
            changed[place] = static_cast<char>(changed[place] ^ flip);
            put_bytes(folder / "changed.npz", changed);
            try {
                read_npz(folder / "changed.npz");
            } catch (const FileError&) {
                ++refused;
            }
        }
    CHECK(refused > 0);
}

TEST_CASE("a damaged array is noticed by its checksum", "[trace_io][npz]")
{
    const TemporaryFolder folder;
    write_sample(folder / "x.npz");
    std::string bytes = bytes_of(folder / "x.npz");
    const std::string npy = encode_npy(row);
    bytes[bytes.find(npy) + npy.size() - 1] ^= 1;
    CHECK_THAT(refused_npz(bytes), ContainsSubstring("member b.npy is damaged: CRC"));
    CHECK_THAT(refused_npz({"a.npy", npy, npy, 0, {}, {}, 1}), ContainsSubstring("is damaged"));
}

TEST_CASE("wrong sizes in the zip directory are refused, whether too large or too small", "[trace_io][npz]")
{
    const std::string npy = encode_npy(row);
    const auto size = static_cast<std::uint32_t>(npy.size());
    for (const Sizes lie :
         {Sizes{size, size + 1}, Sizes{size, size - 1}, Sizes{size, 0xfffffffe}, Sizes{size - 1, size},
          Sizes{size + 1, size + 1}, Sizes{size - 1, size - 1}, Sizes{0, 0}, Sizes{0xfffffffe, 0xfffffffe}}) {
        CAPTURE(lie.compressed, lie.uncompressed);
        CHECK(refused_npz(Member{"a.npy", npy, npy, 0, {}, lie}) != "accepted");
    }

    const std::string content = header("|u1", "(259,)") + std::string(259, '\5');
    const Bomb deflated(header("|u1", "(259,)"), '\5', 1);
    const auto packed = static_cast<std::uint32_t>(deflated.bytes().size());
    const auto unpacked = static_cast<std::uint32_t>(content.size());
    for (const Sizes lie : {Sizes{packed, 0xfffffffe}, Sizes{packed, 1}, Sizes{packed - 2, unpacked}, Sizes{0, 0}}) {
        CAPTURE(lie.compressed, lie.uncompressed);
        CHECK(refused_npz(Member{"a.npy", deflated.bytes(), content, 8, {}, lie}) != "accepted");
    }
}

TEST_CASE("wrong sizes in a member's own header are accepted, or refused as damage", "[trace_io][npz]")
{
    const std::string npy = encode_npy(row);
    for (const Sizes lie : {Sizes{0, 0}, Sizes{0xfffffffe, 0xfffffffe}}) {
        const std::string answer = refused_npz(Member{"a.npy", npy, npy, 0, lie, {}});
        CHECK((answer == "accepted" || answer.find("damaged") != std::string::npos ||
               answer.find("zip") != std::string::npos));
    }
}

TEST_CASE("an array whose header promises more data than the file has is refused", "[trace_io][npz]")
{
    CHECK_THAT(refused_npz({"a.npy", header("<f8", "(500000000,)") + "x"}), ContainsSubstring("is truncated"));
    CHECK_THAT(refused_npz({"a.npy", header("<f8", "(1000000000, 1000000000)") + "x"}), ContainsSubstring("accepted"));
}

TEST_CASE("no more of a zip bomb is unpacked than its header promises", "[trace_io][npz]")
{
    // Half a gigabyte from half a megabyte... of which nothing beyond the promise is unpacked.
    const Bomb bomb(header("|u1", "(1,)"), '\0', 2'000'000);
    CHECK_THAT(
        refused_npz(
            {"a.npy", bomb.bytes(), "", 8, {}, Sizes{static_cast<std::uint32_t>(bomb.bytes().size()), 600'000'000}}),
        ContainsSubstring("trailing"));
    const auto packed = static_cast<std::uint32_t>(bomb.bytes().size());
    CHECK_THAT(
        refused_npz(zip_bytes::archive({{"text", bomb.bytes(), "", 8, {}, Sizes{packed, 600'000'000}}}), {1000, 1000}),
        ContainsSubstring("member text is longer than the 1000 bytes"));
    CHECK_THAT(refused_npz(zip_bytes::archive({{"text", bomb.bytes(), "", 8}}), {1000, 1000}),
               ContainsSubstring("member text is damaged: it has 65536 bytes, the archive says 0"));
    CHECK_THAT(refused_npz({"a.npy", bomb.bytes(), "", 8, {}, Sizes{packed, 2'000'000'000}}),
               ContainsSubstring("would unpack to 1907 MiB, more than 100 times its size"));
}

TEST_CASE("all arrays together stay within the limit", "[trace_io][npz]")
{
    const std::string file = zip_bytes::archive({{"a.npy", encode_npy(row)}, {"b.npy", encode_npy(row)}});
    CHECK(refused_npz(file, {4, 0}) == "accepted");
    CHECK_THAT(refused_npz(file, {3, 0}), ContainsSubstring("member b.npy has the shape (1, 2)"));
}

TEST_CASE("two members of one name are refused", "[trace_io][npz]")
{
    CHECK_THAT(refused_npz(zip_bytes::archive({{"a.npy", encode_npy(row)}, {"a.npy", encode_npy(mask)}})),
               ContainsSubstring("two members are called a.npy"));
}

TEST_CASE("an unknown compression is refused and a member's odd name stays on one line", "[trace_io][npz]")
{
    CHECK_THAT(refused_npz({"a.npy", encode_npy(row), encode_npy(row), 77}), ContainsSubstring("member a.npy"));
    CHECK_THAT(refused_npz(Member{"a\n\x1b[1m.npy", "x"}), ContainsSubstring("member a\\n\\x1B[1m.npy"));
}

TEST_CASE("a directory that claims more members than it has is refused", "[trace_io][npz]")
{
    std::string bytes = zip_bytes::archive({{"a.npy", encode_npy(row)}});
    for (const std::size_t from_end : {14, 13, 12, 11, 10, 9, 8, 6, 5, 4, 3}) {
        std::string lie = bytes;
        lie[lie.size() - from_end] = '\xff';
        lie[lie.size() - from_end + 1] = '\xff';
        CAPTURE(from_end);
        CHECK(refused_npz(lie) != "accepted");
    }

    // The 64-bit directory, which has room for larger lies: 2^56 members, 2^56 bytes.
    const std::size_t end = bytes.size() - 22;
    std::string large("PK\6\6", 4);
    zip_bytes::append(large, 44, 8);
    zip_bytes::append(large, 45 | 45 << 16, 4);
    zip_bytes::append(large, 0, 8);
    for (const std::uint64_t number :
         {std::uint64_t{1} << 56, std::uint64_t{1} << 56, std::uint64_t{1} << 56, std::uint64_t{0}})
        zip_bytes::append(large, number, 8);
    large += std::string("PK\6\7\0\0\0\0", 8);
    zip_bytes::append(large, end, 8);
    zip_bytes::append(large, 1, 4);
    large += std::string("PK\5\6\0\0\0\0", 8) + std::string(12, '\xff') + std::string(2, '\0');
    CHECK(refused_npz(bytes.substr(0, end) + large) != "accepted");
}
