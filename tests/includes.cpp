// Dependencies point one way. src/CMakeLists.txt says whom each room of the house sees; this test reads whom it includes.

#include "sources.hpp"
#include "test.hpp"

#include <map>
#include <regex>
#include <set>

using namespace attn::test;

namespace {

/// A room of the house, as src/CMakeLists.txt has it: add_room(mpi IN engines/mpi SEES fast reference formula …).
struct Room {
    std::string name;
    std::string folder; ///< of src/ and of include/attn/
    std::set<std::string> sees;
};

std::vector<Room> rooms_of(const std::string& cmake)
{
    static const std::regex call("add_room\\((\\w+)(?:[^)]*? IN ([\\w/]+))?[^)]*\\)");
    static const std::regex sees(" SEES((?: [a-z_]+)+)");
    std::vector<Room> rooms;
    for (std::sregex_iterator found(cmake.begin(), cmake.end(), call), end; found != end; ++found) {
        const std::string text = found->str();
        Room room{(*found)[1], (*found)[2].matched ? (*found)[2] : (*found)[1], {}};
        std::smatch names;
        if (std::regex_search(text, names, sees)) {
            std::istringstream words(names[1]);
            for (std::string word; words >> word;)
                room.sees.insert(word);
        }
        rooms.push_back(room);
    }
    for (Room& room : rooms) // whom a room that it sees sees, it sees, too; rooms stand in the order of the floors
        for (const std::string& seen : std::set<std::string>(room.sees))
            for (const Room& other : rooms)
                if (other.name == seen)
                    room.sees.insert(other.sees.begin(), other.sees.end());
    return rooms;
}

const std::vector<Room>& rooms()
{
    static const std::vector<Room> house = [] {
        std::vector<Room> all = rooms_of(source_file("src/CMakeLists.txt").text);
        std::set<std::string> everything{"cli", "lessons"};
        for (const Room& room : all)
            everything.insert(room.name);
        for (const std::string program : {"cli", "lessons", "bench"})
            all.push_back({program, program, everything});
        return all;
    }();
    return house;
}

/// The rooms that open no file and print nothing.
const std::set<std::string> quiet{"core", "reference"};
const std::set<std::string> noisy_headers{"iostream", "fstream", "filesystem", "cstdio", "print", "stdio.h"};

/// The floors of the reference: each sees those before it.
const std::vector<std::string> floors{"reference/ops/", "reference/attention/", "reference/layers/",
                                      "reference/models/"};

bool begins_with(const std::string& text, const std::string& beginning) { return text.rfind(beginning, 0) == 0; }

/// A file's place in the house: "include/attn/engines/fast/tile.hpp" is at "engines/fast/tile.hpp".
std::string place_of(const std::string& path)
{
    for (const std::string folder : {"include/attn/", "src/"})
        if (begins_with(path, folder))
            return path.substr(folder.size());
    return path;
}

/// The room with the longest folder that holds a place; nullptr where none does.
const Room* room_at(const std::string& place)
{
    const Room* found = nullptr;
    for (const Room& room : rooms())
        if (begins_with(place, room.folder + "/") && (found == nullptr || room.folder.size() > found->folder.size()))
            found = &room;
    return found;
}

std::size_t floor_of(const std::string& place)
{
    const auto floor = std::ranges::find_if(floors, [&](const auto& folder) { return begins_with(place, folder); });
    return static_cast<std::size_t>(floor - floors.begin());
}

/// What is in quotes or angle brackets, quotes and brackets included.
std::vector<std::string> includes_of(const std::string& text)
{
    std::vector<std::string> includes;
    std::istringstream lines(without_comments(text));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t hash = line.find_first_not_of(" \t");
        if (hash == std::string::npos || line[hash] != '#')
            continue;
        const std::size_t word = line.find_first_not_of(" \t", hash + 1);
        if (word == std::string::npos || line.compare(word, 7, "include") != 0)
            continue;
        const std::size_t begin = line.find_first_of("\"<", word);
        const std::size_t end = line.find_last_of("\">");
        if (begin != std::string::npos && end > begin)
            includes.push_back(line.substr(begin, end - begin + 1));
    }
    return includes;
}

/// Our files that can be included, by their paths from the repository's root.
const std::set<std::string>& our_files()
{
    static const std::set<std::string> paths = [] {
        std::set<std::string> all;
        for (const SourceFile& file : source_files({"include", "src", "lessons", "bench"}))
            all.insert(file.path);
        return all;
    }();
    return paths;
}

/// The file of ours that an include means, by its path from the repository's root; empty where it means none. Which folders a
/// compiler looks in is not asked: a path that ends in what is written is found in any of them.
std::string file_of(const std::string& path, const std::string& include)
{
    std::string name = include.substr(1, include.size() - 2);
    const std::filesystem::path here = std::filesystem::path(path).parent_path();
    const std::string beside = (here / name).lexically_normal().generic_string();
    if (include.front() == '"' && our_files().contains(beside))
        return beside;
    if (our_files().contains("include/" + name))
        return "include/" + name;
    name = std::filesystem::path(name).lexically_normal().generic_string();
    while (begins_with(name, "../"))
        name = name.substr(3);
    const auto found =
        std::ranges::find_if(our_files(), [&](const std::string& file) { return ("/" + file).ends_with("/" + name); });
    return found == our_files().end() ? "" : *found;
}

/// Why this file may not include that, or nothing.
std::string objection(const std::string& path, const std::string& include)
{
    const std::string name = include.substr(1, include.size() - 2);
    if (path == "include/attn/attn.hpp") // the heart, in one header
        return begins_with(name, "attn/core/") || begins_with(name, "attn/reference/") ? ""
                                                                                       : "it is core and reference";
    const std::string place = place_of(path);
    const Room* const room = room_at(place);
    if (room == nullptr)
        return path + " is in no room of src/CMakeLists.txt";

    if (begins_with(name, "xtensor/") || begins_with(name, "xtl/"))
        return path == "include/attn/core/tensor.hpp" ? "" : "only attn/core/tensor.hpp includes xtensor";
    if (begins_with(name, "xtensor-blas/"))
        return path == "src/reference/ops/matmul.cpp" ? "" : "only ops/matmul.cpp includes xtensor-blas";
    if (path == "src/core/memory.cpp" && include.front() == '<') // asks the system what memory there is
        return "";
    if (quiet.contains(room->name) && noisy_headers.contains(name))
        return room->name + " opens no file and prints nothing";
    const std::string other_path = file_of(path, include);
    if (other_path.empty() && include.front() == '<') {
        const bool is_standard = name.find('/') == std::string::npos && name.find('.') == std::string::npos;
        return quiet.contains(room->name) && !is_standard
                   ? room->name + " stands on the standard library and xtensor only"
                   : "";
    }
    if (other_path.empty())
        return "there is no such file";

    const std::string other_place = place_of(other_path);
    const Room* const other = room_at(other_place);
    if (other == nullptr)
        return other_path + " is in no room of src/CMakeLists.txt";
    if (begins_with(other_path, "src/") && (other != room || !begins_with(path, "src/")))
        return "src/" + other->folder + " keeps " + other_path + " to itself";
    if (other != room)
        return room->sees.contains(other->name) ? "" : room->name + " does not see " + other->name;
    return room->name == "reference" && floor_of(other_place) > floor_of(place) ? place + " stands below " + other_place
                                                                                : "";
}

std::vector<std::string> objections(const SourceFile& file)
{
    std::vector<std::string> found;
    for (const std::string& include : includes_of(file.text))
        if (const std::string why = objection(file.path, include); !why.empty())
            found.push_back(file.path + " includes " + include + ": " + why);
    return found;
}

} // namespace

TEST_CASE("no file includes a header of a folder that its own folder may not depend on", "[source]")
{
    const std::vector<SourceFile> files = source_files({"include", "src", "lessons", "bench"});
    REQUIRE(files.size() > 20);
    for (const SourceFile& file : files)
        CHECK(objections(file) == std::vector<std::string>{});
}

TEST_CASE("attn/attn.hpp includes every public header of the reference but for the products that engines share",
          "[source]")
{
    const std::vector<std::string> included = includes_of(source_file("include/attn/attn.hpp").text);
    for (const SourceFile& file : source_files({"include/attn/reference"}))
        if (file.path != "include/attn/reference/ops/float_product.hpp") {
            CAPTURE(file.path);
            CHECK(std::ranges::count(included, '"' + file.path.substr(8) + '"') == 1);
        }
}

TEST_CASE("the include rule sees every include, and no comment", "[source]")
{
    const std::string text = "#include \"a.hpp\"\n"
                             "  #  include <b> // \"c\"\n"
                             "// #include <d>\n"
                             "/* #include <e> */\n"
                             "#if __has_include(<f>)\n"
                             "#define include <g>\n"
                             "const char* text = \"#include <h>\";\n";
    CHECK(includes_of(text) == std::vector<std::string>{"\"a.hpp\"", "<b>"});
}

TEST_CASE("the include rule refuses a dependency in the wrong direction", "[source]")
{
    const auto allowed = [](const std::string& path, const std::string& include) {
        return objection(path, include).empty();
    };
    CHECK(allowed("src/core/array.cpp", "\"attn/core/array.hpp\""));
    CHECK(allowed("src/reference/attention/weigh.cpp", "\"attn/reference/ops/matmul.hpp\""));
    CHECK(allowed("src/engines/mpi/ring.cpp", "\"attn/core/trace.hpp\"")); // by way of the reference
    CHECK(allowed("src/files/npz.cpp", "\"zip.hpp\""));
    CHECK(allowed("src/files/zip.cpp", "<zip.h>"));
    CHECK(allowed("lessons/01_x/lesson.cpp", "\"../lesson.hpp\""));
    CHECK(allowed("src/reference/ops/matmul.cpp", "<xtensor-blas/xblas.hpp>"));

    CHECK_FALSE(allowed("include/attn/core/trace.hpp", "\"attn/reference/ops/matmul.hpp\""));
    CHECK_FALSE(allowed("src/reference/ops/softmax.cpp", "\"attn/reference/attention/weigh.hpp\""));
    CHECK_FALSE(allowed("src/reference/ops/softmax.cpp", "\"../attention/weigh.hpp\""));
    CHECK_FALSE(allowed("src/reference/attention/weigh.cpp", "\"attn/files/npz.hpp\""));
    CHECK_FALSE(allowed("src/reference/attention/weigh.cpp", "\"attn/formula/verify.hpp\""));
    CHECK_FALSE(allowed("src/reference/attention/weigh.cpp", "\"attn/reference/layers/linear.hpp\""));
    CHECK_FALSE(allowed("src/reference/layers/encoder.cpp", "\"attn/reference/models/llama.hpp\""));
    CHECK_FALSE(allowed("src/reference/layers/encoder.cpp", "\"lessons/curriculum.hpp\""));
    CHECK_FALSE(allowed("src/formula/evaluate.cpp", "\"attn/reference/ops/softmax.hpp\""));
    CHECK_FALSE(allowed("src/formula/evaluate.cpp", "<xtensor/xtensor.hpp>"));
    CHECK_FALSE(allowed("src/files/npz.cpp", "\"attn/formula/verify.hpp\""));
    CHECK_FALSE(allowed("src/files/npz.cpp", "\"attn/files/weights/loader.hpp\""));
    CHECK_FALSE(allowed("src/files/npz.cpp", "\"attn/reference/attention/weigh.hpp\""));
    CHECK_FALSE(allowed("lessons/01_x/lesson.cpp", "<xtensor/xview.hpp>"));
    CHECK_FALSE(allowed("lessons/01_x/lesson.cpp", "<xtensor-blas/xlinalg.hpp>"));
    CHECK_FALSE(allowed("src/reference/ops/softmax.cpp", "<xtensor-blas/xblas.hpp>"));
    CHECK_FALSE(allowed("src/reference/ops/matmul.cpp", "<iostream>"));
    CHECK_FALSE(allowed("src/reference/ops/matmul.cpp", "<fmt/format.h>"));
    CHECK_FALSE(allowed("src/new_room/file.cpp", "<vector>"));
}

TEST_CASE("the include rule finds a private header of another room, however it is spelled", "[source]")
{
    const auto refused = [](const std::string& path, const std::string& include) {
        return objection(path, include).find(" to itself") != std::string::npos;
    };
    CHECK_FALSE(refused("src/formula/explain.cpp", "\"shaped.hpp\""));
    CHECK_FALSE(refused("src/reference/models/keras_attention.cpp", "\"../layers/heads.hpp\""));
    CHECK_FALSE(refused("lessons/18_flash_attention/lesson.cpp", "\"tiles.hpp\""));
    for (const std::string path : {"src/diff/names.cpp", "src/show/graph/svg.cpp", "include/attn/formula/scope.hpp",
                                   "lessons/ranks.cpp", "lessons/14_gradients/lesson.cpp", "bench/trace.cpp"})
        for (const std::string include : {"\"../formula/shaped.hpp\"", "\"../../src/formula/shaped.hpp\"",
                                          "\"formula/shaped.hpp\"", "\"shaped.hpp\"", "\"src/formula/shaped.hpp\"",
                                          "\"./shaped.hpp\"", "<formula/shaped.hpp>", "<shaped.hpp>"}) {
            CAPTURE(path, include);
            CHECK(refused(path, include));
        }
    CHECK(refused("src/engines/mpi/ring.cpp", "\"../fast/tile.hpp\""));
    CHECK(refused("src/files/weights/loader.cpp", "\"../zip.hpp\""));
    CHECK_FALSE(objection("lessons/ranks.cpp", "\"no_such_file.hpp\"").empty());
}

TEST_CASE("the rooms are those of src/CMakeLists.txt, and see whom it says, directly or not", "[source]")
{
    const std::vector<Room> house = rooms_of("add_room(core COMPUTES)\nadd_room(reference SEES core USES BLAS::BLAS)\n"
                                             "add_room(mpi IN engines/mpi COMPUTES SEES reference USES x)\n");
    REQUIRE(house.size() == 3);
    CHECK(house[0].sees.empty());
    CHECK(house[1].sees == std::set<std::string>{"core"});
    CHECK(house[2].folder == "engines/mpi");
    CHECK(house[2].sees == std::set<std::string>{"core", "reference"});
}
