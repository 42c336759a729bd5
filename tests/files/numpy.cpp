// NumPy as the judge of what we write and the author of what we read.
#include "attn/files/npz.hpp"
#include "attn/files/trace_file.hpp"

#include "temporary_folder.hpp"
#include "test.hpp"

#include <cmath>
#include <cstdlib>

using namespace attn;
using namespace attn::files;
namespace fs = std::filesystem;

namespace {

/// A python3 that imports numpy; empty where there is none.
std::string python_with_numpy()
{
    for (const std::string python : {"python3", "/usr/bin/python3"})
        if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) == 0)
            return python;
    return "";
}

/// Runs a program in a folder.
/// @return false, with a warning in the test's report, where there is no NumPy to run it
bool run(const std::string& program, const TemporaryFolder& folder)
{
    const std::string python = python_with_numpy();
    if (python.empty()) {
        WARN("SKIPPED: no python3 here can import numpy, so nothing outside of attn has judged this file format");
        return false;
    }
    put_bytes(folder / "program.py", program);
    const int status =
        std::system(("cd '" + folder.path().string() + "' && " + python + " program.py >log 2>&1").c_str());
    INFO(bytes_of(folder / "log"));
    REQUIRE(status == 0);
    return true;
}

/// The first fenced block of Python on a page of ours.
std::string example_on(const fs::path& page)
{
    const std::string text = bytes_of(page);
    const std::size_t begin = text.find("```python\n");
    return begin == std::string::npos ? "" : text.substr(begin + 10, text.find("```", begin + 3) - begin - 10);
}

} // namespace

TEST_CASE("NumPy reads what was written: names, types, shapes and bits", "[trace_io][numpy]")
{
    const TemporaryFolder folder;
    write_npz(folder / "x.npz", {{{"note.txt", "hello"}},
                                 {{"exact", {{2, 2}, {0.5, -0.0, INFINITY, NAN}}},
                                  {"head.0.fine", {{1, 2, 1}, {0.1, -INFINITY}}},
                                  {"mask", {{2}, {1, 0}, ElementType::boolean}},
                                  {"ids", {{2}, {-9007199254740992, 3}, ElementType::integer}},
                                  {"single", {{}, {0.1}}},
                                  {"none", {{3, 0}, {}}}},
                                 ""});
    run(R"(
import io, zipfile, numpy as np
with np.load("x.npz", allow_pickle=False) as x:
    names = [name for name in x.files if name != "note.txt"]
    assert names == ["exact", "head.0.fine", "mask", "ids", "single", "none"], names
    a = [x[name] for name in names]
assert [str(v.dtype) for v in a] == ["float32", "float64", "bool", "int64", "float64", "float32"]
assert [v.shape for v in a] == [(2, 2), (1, 2, 1), (2,), (2,), (), (3, 0)]
assert a[0].tobytes() == np.array([0.5, -0.0, np.inf, np.nan], "f4").tobytes()
assert a[1].ravel().tolist() == [0.1, -np.inf]
assert a[2].tolist() == [True, False] and a[3].tolist() == [-2**53, 3] and a[4] == 0.1
with zipfile.ZipFile("x.npz") as z:
    assert z.testzip() is None
    for member, v in zip(z.namelist()[1:], a):
        ours, theirs = z.read(member), io.BytesIO()
        np.save(theirs, v)
        assert ours == theirs.getvalue(), (member, ours[:128], theirs.getvalue()[:128])
    for info in z.infolist():
        assert info.date_time == (1980, 1, 1, 0, 0, 0) and info.compress_type == 0 and info.flag_bits == 0, info
)",
        folder);
}

TEST_CASE("what NumPy writes is read, stored or deflated, rows or columns first", "[trace_io][numpy]")
{
    const TemporaryFolder folder;
    if (!run(R"(
import numpy as np
arrays = dict(
    half=np.array([1.5, -np.inf, 2**-24, 65504], "f2"),
    columns=np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    transposed=np.arange(6).reshape(2, 3).T,
    bytes=np.array([0, 255], "u1"),
    long=np.array([[-5], [2**53]]),
    unsigned=np.array(7, "u8"),
    mask=np.array([[True, False]]),
    none=np.zeros((0, 3)),
    large=np.arange(100000) / 7)
np.savez("stored.npz", **arrays)
np.savez_compressed("deflated.npz", **arrays)
np.savez("big.npz", big=np.arange(3.0).astype(">f8"))
np.savez("text.npz", text=np.array("abc"))
np.savez("objects.npz", objects=np.array([None, {}]))
np.savez("beyond.npz", beyond=np.array([2**53 + 1]))
np.savez("nothing.npz")
)",
             folder))
        return;

    for (const char* name : {"stored.npz", "deflated.npz"}) {
        const NamedArrays arrays = read_npz(folder / name);
        CHECK(arrays.size() == 9);
        CHECK(identical(arrays.at("half"), {{4}, {1.5, -INFINITY, std::ldexp(1, -24), 65504}}));
        CHECK(arrays.at("columns").shape == Shape{2, 3, 4});
        for (std::size_t i = 0; i < 24; ++i)
            CHECK(arrays.at("columns").values.at(i) == static_cast<double>(i));
        CHECK(identical(arrays.at("transposed"), {{3, 2}, {0, 3, 1, 4, 2, 5}, ElementType::integer}));
        CHECK(identical(arrays.at("bytes"), {{2}, {0, 255}, ElementType::integer}));
        CHECK(identical(arrays.at("long"), {{2, 1}, {-5, 9007199254740992}, ElementType::integer}));
        CHECK(identical(arrays.at("unsigned"), {{}, {7}, ElementType::integer}));
        CHECK(identical(arrays.at("mask"), {{1, 2}, {1, 0}, ElementType::boolean}));
        CHECK(identical(arrays.at("none"), {{0, 3}, {}}));
        CHECK(arrays.at("large").values.at(99999) == 99999 / 7.0);
    }
    CHECK_THROWS_WITH(read_npz(folder / "big.npz"), ContainsSubstring("big-endian"));
    CHECK_THROWS_WITH(read_npz(folder / "text.npz"), ContainsSubstring("holds text"));
    CHECK_THROWS_WITH(read_npz(folder / "objects.npz"), ContainsSubstring("Python objects"));
    CHECK_THROWS_WITH(read_npz(folder / "beyond.npz"), ContainsSubstring("9007199254740993"));
    CHECK(read_npz(folder / "nothing.npz").empty());
}

TEST_CASE("the example of the documentation writes a trace", "[trace_io][numpy]")
{
    const fs::path page = fs::path(__FILE__).parent_path() / "../../docs/trace_format.md";
    if (!fs::exists(page)) {
        WARN("SKIPPED: no " << page.string());
        return;
    }
    const TemporaryFolder folder;
    if (!run(example_on(page), folder))
        return;

    const std::vector<Step> steps = read_trace(folder / "mine.npz").steps;
    REQUIRE(steps.size() == 6);
    CHECK(steps[3].path == "head.0.scores");
    CHECK(steps[3].formula == "queries @ keys.T");
    CHECK(steps[3].axes == std::vector<std::string>{"n", "m"});
    CHECK(steps[3].value.values == std::vector<double>{1, 0, 1, 0, 2, 1});
    CHECK(steps[4].options == StepOptions{{"scale", "1/sqrt(d_k)"}});
    CHECK(steps[5].path == "head.0.weights");
}
