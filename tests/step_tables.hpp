#pragma once

#include "sources.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

/// The steps of a run as text, and as the doc comment of a function lists them.
namespace attn::test {

using Lines = std::vector<std::string>;

inline Lines operator+(Lines left, const Lines& right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

inline std::string joined(const std::vector<std::string>& words)
{
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : ", ") + word;
    return text;
}

/// "path | axes | formula | module", a line a step.
inline Lines lines(const Recorder& recorder)
{
    Lines result;
    for (const Step& step : recorder.steps())
        result.push_back(step.path + " | " + joined(step.axes) + " | " + step.formula + " | " + step.module);
    return result;
}

/// The rows in which two lists differ, a line each: "- " and what is expected, "+ " and what is found. Empty where they are the same.
inline std::string different_rows(const Lines& expected, const Lines& found)
{
    // How many rows the rests of both lists have in common, in order.
    std::vector common(expected.size() + 1, std::vector<std::size_t>(found.size() + 1));
    for (std::size_t i = expected.size(); i-- > 0;)
        for (std::size_t j = found.size(); j-- > 0;)
            common[i][j] =
                expected[i] == found[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    std::string text;
    for (std::size_t i = 0, j = 0; i < expected.size() || j < found.size();)
        if (i < expected.size() && j < found.size() && expected[i] == found[j])
            ++i, ++j;
        else if (j == found.size() || (i < expected.size() && common[i + 1][j] >= common[i][j + 1]))
            text += "- " + expected[i++] + '\n';
        else
            text += "+ " + found[j++] + '\n';
    return text;
}

// ------------------------------------------------------------------------------ what a function's doc comment promises

inline std::vector<std::string> cells(const std::string& row)
{
    std::vector<std::string> result;
    std::istringstream stream(row.substr(1));
    for (std::string cell; std::getline(stream, cell, '|');) {
        const std::size_t begin = cell.find_first_not_of(' ');
        const std::size_t end = cell.find_last_not_of(' ');
        result.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
    }
    return result;
}

/// The rows of the step table in the doc comment above a function, or above a struct ("struct YarnScaling"): step, shape,
/// formula. In place of a formula, "= NAME" says that the row is another name of the step NAME.
inline std::vector<std::vector<std::string>> step_table(const std::string& header, const std::string& function)
{
    const bool is_whole = function.find_first_of("({") != std::string::npos || // given with what follows
                          function.starts_with("struct ");
    std::vector<std::vector<std::string>> table;
    std::istringstream stream(header);
    for (std::string line; std::getline(stream, line);) {
        const bool is_comment = line.rfind("///", 0) == 0;
        const std::size_t bar = line.find('|');
        if (is_comment && line.find("@param trace") != std::string::npos)
            table.clear();
        if (is_comment && bar != std::string::npos)
            table.push_back(cells(line.substr(bar, line.rfind('|') - bar + 1)));
        if (!is_comment && (" " + line).find(" " + function + (is_whole ? "" : "(")) != std::string::npos)
            break;
        if (!is_comment && line.rfind("template", 0) != 0)
            table.clear();
    }
    if (table.size() < 2)
        return {};
    return {table.begin() + 2, table.end()}; // without the heading and the line under it
}

/// "step | shape | formula", a line a row, with the shapes of one sequence.
inline Lines promised(const std::string& header, const std::string& function)
{
    Lines result;
    for (std::vector<std::string> row : step_table(source_file("include/attn/" + header).text, function)) {
        if (const std::size_t batch = row.at(1).find("(b,) "); batch != std::string::npos) {
            row[1].erase(batch, 5); // what is recorded here is one sequence
            if (row[1].find(',') == std::string::npos)
                row[1].insert(row[1].size() - 1, ",");
        }
        result.push_back(row.at(0) + " | " + row.at(1) + " | " + row.at(2));
    }
    return result;
}

/// Numbers in place of the words in capitals that stand for them: {{"N", "3"}}. None is no word N.
inline Lines with_numbers(Lines table, const std::vector<std::pair<std::string, std::string>>& numbers)
{
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    for (std::string& line : table)
        for (const auto& [word, number] : numbers)
            for (std::size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) {
                const bool begins = at == 0 || !is_letter(line[at - 1]);
                const bool ends = at + word.size() == line.size() || !is_letter(line[at + word.size()]);
                if (begins && ends)
                    line.replace(at, word.size(), number);
            }
    return table;
}

inline std::string shape_of_axes(const Step& step)
{
    return "(" + joined(step.axes) + (step.axes.size() == 1 ? ",)" : ")");
}

/// The same three columns of what a run recorded; a shape of one axis has NumPy's comma.
/// @param module  only the steps of this function; of all unless given
inline Lines kept(const Recorder& recorder, const std::string& module = {})
{
    Lines result;
    for (const Step& step : recorder.steps())
        if (module.empty() || step.module == module)
            result.push_back(step.path + " | " + shape_of_axes(step) + " | " + step.formula);
    return result;
}

/// What a run has under the path of a row. A row such as "norm1.x | (n, d_model) | = residual1" is another name: of the
/// step that the name means there, with as many axes as that has, which can have other letters.
inline std::string row_of(const std::string& row, const Recorder& recorder)
{
    const Recording& recording = recorder.recording();
    const formula::StepNames names(recording);
    const std::string path = row.substr(0, row.find(" |"));
    const std::optional<std::size_t> step = names.find(path);
    if (!step)
        return path + " is missing";
    const std::string start = path + " | " + shape_of_axes(recording.steps[*step]) + " | ";
    if (std::ranges::find(recording.aliases, path, &Alias::path) == recording.aliases.end())
        return start + recording.steps[*step].formula;
    const std::size_t equals = row.find(" | = ");
    const std::string meant = equals == std::string::npos ? "" : row.substr(equals + 5);
    const bool is_meant =
        formula::resolve(path, meant, [&](std::string_view name) { return names.find(name); }) == step;
    const bool same_rank = std::ranges::count(row.substr(0, equals), ',') == std::ranges::count(start, ',');
    return is_meant && same_rank ? row : start + "= " + recording.steps[*step].path;
}

/// How a run differs from a table that lists some of its steps.
inline std::string different_among(const Lines& table, const Recorder& recorder)
{
    Lines found;
    for (const std::string& row : table)
        found.push_back(row_of(row, recorder));
    return different_rows(table, found);
}

/// How a run differs from a table that lists all its steps, in order, and other names of them.
/// @param module  only the steps of this function; of all unless given
inline std::string different_rows(const Lines& table, const Recorder& recorder, const std::string& module = {})
{
    Lines steps, names;
    for (const std::string& row : table)
        (row.find(" | = ") == std::string::npos ? steps : names).push_back(row);
    return different_rows(steps, kept(recorder, module)) + different_among(names, recorder);
}

} // namespace attn::test
