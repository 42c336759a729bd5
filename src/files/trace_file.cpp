#include "attn/files/trace_file.hpp"

#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "npz_writer.hpp"

#include <map>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

namespace attn::files {
namespace {

std::string in_marks(std::string_view text) { return '"' + std::string(text) + '"'; }

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string steps_member = "steps.json";

// The version of the format. Version 1 was a plain list of steps, with the version in the zip archive's note.
const std::string format_name = "attn trace ";
const std::string format_version = "2";

// A trace, its steps, a step, its options: what is deeper is no trace. A step has six keys, and a module a few options.
constexpr JsonLimits largest_parts{.deepest = 5, .most_keys = 100};

/// What a step must fulfil on its way out and in.
void expect_sound(const Step& step)
{
    if (!is_step_path(step.path))
        throw Error("has a path that is not made of letters, digits and _ with single dots between them");
    if (!step.axes.empty() && step.axes.size() != step.value.rank())
        throw Error("names " + std::to_string(step.axes.size()) + " axes, expected " +
                    std::to_string(step.value.rank()) + " for its shape " + to_string(step.value.shape) + ", or none");
}

/// How a message begins that is about a step.
std::string step_called(const std::string& path) { return "step " + in_marks(path) + ' '; }

// ------------------------------------------------------------------------------------------------ writing

Json options_of(const Step& step)
{
    if (step.options.size() > largest_parts.most_keys)
        throw Error("has " + std::to_string(step.options.size()) + " options, more than " +
                    std::to_string(largest_parts.most_keys));
    Json options = Json::object();
    for (const auto& [name, text] : step.options) {
        if (options.contains(name))
            throw Error("has the option " + in_marks(name) + " twice");
        options[name] = text;
    }
    return options;
}

std::string line_of(const Step& step)
{
    expect_sound(step);
    Json json = Json::object();
    json["path"] = step.path;
    json["formula"] = step.formula;
    json["shape"] = step.value.shape;
    json["axes"] = step.axes;
    json["module"] = step.module;
    json["options"] = options_of(step);
    try {
        return json.dump();
    } catch (const Json::exception&) {
        throw Error("has a text that is not UTF-8");
    }
}

} // namespace

/// The paths of a file's steps and aliases: each once, and each alias of a step.
class Paths {
public:
    explicit Paths(const fs::path& file) : file_(file) {}

    void add_step(const std::string& path)
    {
        add(path);
        steps_.insert(path);
    }

    void add_alias(const Alias& alias)
    {
        if (!is_step_path(alias.path))
            throw FileError(file_, "alias " + in_marks(alias.path) +
                                       " is not made of letters, digits and _ with single dots between them");
        if (!steps_.contains(alias.target))
            throw FileError(file_, "alias " + in_marks(alias.path) + " means " + in_marks(alias.target) +
                                       ", which is no step");
        add(alias.path);
    }

private:
    void add(const std::string& path)
    {
        if (!paths_.insert(path).second)
            throw FileError(file_, "two steps are called " + in_marks(path) + "; give each a scope of its own");
    }

    const fs::path& file_;
    std::set<std::string> paths_, steps_;
};

namespace {

// ------------------------------------------------------------------------------------------------ reading

/// What a JSON value is, for people.
std::string kind_of(const Json& json) { return json.is_null() ? "null" : std::string("a JSON ") + json.type_name(); }

Error wrong_kind(const std::string& role, const Json& json, const std::string& expected)
{
    return Error("has " + kind_of(json) + " as its " + role + ", expected " + expected);
}

std::string text_at(const Json& step, const std::string& key)
{
    const Json text = step.value(key, Json(""));
    if (!text.is_string())
        throw wrong_kind(key, text, "a string");
    return text.get<std::string>();
}

std::vector<std::string> axes_at(const Json& step)
{
    const Json list = step.value("axes", Json::array());
    if (!list.is_array())
        throw wrong_kind("axes", list, "a list of strings");
    std::vector<std::string> axes;
    for (const Json& axis : list) {
        if (!axis.is_string())
            throw wrong_kind("axes", axis, "strings");
        axes.push_back(axis.get<std::string>());
    }
    return axes;
}

StepOptions options_at(const Json& step)
{
    const Json object = step.value("options", Json::object());
    if (!object.is_object())
        throw wrong_kind("options", object, "an object of strings");
    StepOptions options;
    for (const auto& [name, text] : object.items()) {
        if (!text.is_string())
            throw wrong_kind("option " + in_marks(name), text, "a string");
        options.emplace_back(name, text.get<std::string>());
    }
    return options;
}

/// Where a step states its shape, it must be the array's.
void expect_shape(const Json& step, const Shape& stored)
{
    const auto found = step.find("shape");
    if (found == step.end())
        return;
    if (!found->is_array())
        throw wrong_kind("shape", *found, "a list of whole numbers");
    for (const Json& size : *found)
        if (!size.is_number_unsigned())
            throw Error("has " + size.dump() + " in its shape, expected whole numbers");
    const auto stated = found->get<Shape>();
    if (stated != stored)
        throw Error("has the shape " + to_string(stated) + " in steps.json, but its array is " + to_string(stored));
}

Json parse_steps(const fs::path& file, const std::string& text)
{
    about_file(file, "steps.json ", [&] { expect_small_parts(text, largest_parts); });
    Json json;
    try {
        json = Json::parse(text);
    } catch (const Json::exception& error) {
        throw FileError(file, "steps.json " + json_fault(text, error));
    }
    return json;
}

FileError newer_format(const fs::path& file, const std::string& found)
{
    return FileError(file, "says that it is an " + found + ", expected " + format_name + format_version + " or " +
                               format_name + "1; read it with a newer attn");
}

/// The lists of a steps.json: the steps, and their other names.
struct Lists {
    Json steps, aliases;
};

Lists lists_in(const fs::path& file, Json json)
{
    if (json.is_array()) // version 1
        return {std::move(json), Json::array()};
    if (!json.is_object())
        throw FileError(file, "steps.json is " + kind_of(json) +
                                  ", expected an object with the lists steps and aliases, or the list of steps");
    const Json format = json.value("format", Json(format_name + format_version));
    if (format != format_name + format_version)
        throw newer_format(file, format.is_string() ? format.get<std::string>() : format.dump());
    Lists lists{json.value("steps", Json()), json.value("aliases", Json::array())};
    for (const auto& [name, list] : {std::pair{"steps", &lists.steps}, std::pair{"aliases", &lists.aliases}})
        if (!list->is_array())
            throw FileError(file,
                            std::string("steps.json has ") + kind_of(*list) + " as its " + name + ", expected a list");
    return lists;
}

void expect_known_version(const fs::path& file, const std::string& comment)
{
    if (comment.starts_with(format_name) && comment != format_name + format_version && comment != format_name + "1")
        throw newer_format(file, comment);
}

std::string path_at(const fs::path& file, const Json& steps, std::size_t index)
{
    const Json& step = steps[index];
    const std::string entry = "steps.json[" + std::to_string(index) + "] ";
    if (!step.is_object())
        throw FileError(file, entry + "is " + kind_of(step) + ", expected an object with a \"path\"");
    const auto path = step.find("path");
    if (path == step.end() || !path->is_string())
        throw FileError(file, entry + "has no \"path\", the string that names the step and its array");
    return path->get<std::string>();
}

/// The step that an entry describes, its value's shape and type without the numbers.
Step step_of(const Json& json, const std::string& path, Array outline)
{
    Step step{path, text_at(json, "formula"), axes_at(json), text_at(json, "module"), options_at(json), {}};
    expect_shape(json, outline.shape);
    step.value = std::move(outline);
    expect_sound(step);
    return step;
}

Alias alias_at(const fs::path& file, const Json& aliases, std::size_t index)
{
    const Json& alias = aliases[index];
    const auto text = [&](const char* key) {
        const auto found = alias.is_object() ? alias.find(key) : alias.end();
        if (!alias.is_object() || found == alias.end() || !found->is_string())
            throw FileError(file, "steps.json: aliases[" + std::to_string(index) + "] has no \"" + key +
                                      "\", expected an object of the strings path and target");
        return found->get<std::string>();
    };
    return {text("path"), text("target")};
}

Lists lists_in(const NpzReader& file)
{
    expect_known_version(file.path(), file.comment());
    const std::optional<std::string> text = file.text(steps_member);
    if (!text)
        throw FileError(file.path(), "is no trace: it has no member steps.json, the list of its steps");
    return lists_in(file.path(), parse_steps(file.path(), *text));
}

} // namespace

struct TraceWriter::File {
    explicit File(const fs::path& path) : npz(path), paths(npz.path()) {}

    void add(const Step& step)
    {
        paths.add_step(step.path);
        const std::string line = about_file(npz.path(), step_called(step.path), [&] { return line_of(step); });
        steps += (steps.empty() ? "\n" : ",\n") + line;
        npz.array(step.path, step.value);
    }

    void add(const Alias& alias)
    {
        paths.add_alias(alias);
        aliases += (aliases.empty() ? "\n" : ",\n") + Json{{"path", alias.path}, {"target", alias.target}}.dump();
        if (alias.path.find('.') == std::string::npos) // a result, which a reader without steps.json looks for
            results.push_back(alias);
    }

    void finish()
    {
        for (const Alias& result : results)
            npz.same_array(result.path, result.target);
        npz.text(steps_member, "{\"format\": \"" + format_name + format_version +
                                   "\",\n\"made_by\": \"attn " ATTN_VERSION "\",\n\"steps\": [" + steps +
                                   "\n],\n\"aliases\": [" + aliases + "\n]}\n");
        npz.finish(format_name + format_version, 1);
    }

    NpzWriter npz;
    Paths paths;
    std::string steps, aliases; ///< their lines in steps.json
    std::vector<Alias> results;
};

TraceWriter::TraceWriter(const fs::path& path) : file_(std::make_unique<File>(path)) {}
TraceWriter::~TraceWriter() = default;

void TraceWriter::finish() { file_->finish(); }

std::optional<Array> TraceWriter::on_step(const Step& step)
{
    file_->add(step);
    return std::nullopt;
}

void TraceWriter::on_alias(const Alias& alias) { file_->add(alias); }

void write_trace(const fs::path& path, const Recording& recording)
{
    TraceWriter::File file(path);
    for (const Step& step : recording.steps)
        file.add(step);
    for (const Alias& alias : recording.aliases)
        file.add(alias);
    file.finish();
}

TraceReader::TraceReader(fs::path file) : file_(std::move(file))
{
    const Lists lists = lists_in(file_);
    std::map<std::string_view, std::size_t> places; // of the arrays that no step has taken
    for (std::size_t place = 0; place < file_.names().size(); ++place)
        places.emplace(file_.names()[place], place);

    Paths paths(file_.path());
    for (std::size_t index = 0; index < lists.steps.size(); ++index) {
        const std::string path = path_at(file_.path(), lists.steps, index);
        paths.add_step(path);
        const auto array = places.extract(path);
        if (array.empty())
            throw FileError(file_.path(),
                            "step " + in_marks(path) + " has no array; expected the member " + path + ".npy");
        places_.push_back(array.mapped());
        Array outline = file_.outline(array.mapped());
        outline_.steps.push_back(about_file(file_.path(), step_called(path),
                                            [&] { return step_of(lists.steps[index], path, std::move(outline)); }));
    }
    for (std::size_t index = 0; index < lists.aliases.size(); ++index) {
        const Alias& alias = outline_.aliases.emplace_back(alias_at(file_.path(), lists.aliases, index));
        paths.add_alias(alias);
        const auto array = places.extract(alias.path); // a result has one
        const auto target = static_cast<std::size_t>(outline_.find(alias.target) - outline_.steps.data());
        if (!array.empty() && !identical(file_.array(array.mapped()), value(target)))
            throw FileError(file_.path(), "alias " + in_marks(alias.path) + " means " + in_marks(alias.target) +
                                              ", but its array holds other numbers");
    }
    if (!places.empty())
        throw FileError(file_.path(), "has the array " + in_marks(places.begin()->first) +
                                          ", which no step or alias in steps.json names");
}

Recording read_trace(const fs::path& path)
{
    const TraceReader reader(path);
    Recording recording = reader.outline();
    std::size_t elements_left = NpzLimits{}.elements;
    for (std::size_t step = 0; step < recording.steps.size(); ++step) {
        recording.steps[step].value = reader.value(step, elements_left);
        elements_left -= recording.steps[step].value.size();
    }
    return recording;
}

} // namespace attn::files
