// c++ -std=c++17 -o check_logits check_logits.cpp; ./check_logits FOLDER LOGITS [--case NAME] [--type float32|float16|bfloat16]
//
// Are an engine's logits right, or whose are they? As check_logits.py: FOLDER has cases.json. LOGITS is a .npy file, numbers of
// float32 alone (.bin, .raw), JSON or text: of the case's last token; of its `rows`; or of all tokens. Exit code 0 where they are
// right, 1 where not, 2 where they can't be read. An engine's test can include this file with CHECK_LOGITS_NO_MAIN and call judged().
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace check_logits {

using Numbers = std::vector<double>;
[[noreturn]] inline void refuse(const std::string& what) { throw std::runtime_error(what); }
inline std::string short_text(double x)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", x);
    return text;
}

struct Json { // a value: a number, a text, a list, or a list with names; what is left out is null
    double number = NAN;
    std::string text;
    std::vector<Json> list;
    std::vector<std::string> names;
    const Json& operator[](const std::string& name) const
    {
        const auto found = std::find(names.begin(), names.end(), name);
        if (found == names.end())
            refuse("there is no " + name);
        return list[static_cast<std::size_t>(found - names.begin())];
    }
    Numbers numbers() const
    {
        Numbers all;
        for (const Json& one : list)
            if (std::isnan(one.number) || !one.list.empty())
                refuse("expected a list of numbers");
            else
                all.push_back(one.number);
        return all;
    }
};

class Parser {
public:
    explicit Parser(const std::string& text) : at_(text.c_str()), end_(at_ + text.size()) {}
    Json whole()
    {
        Json value = parse(0);
        if (next() != 0 || at_ != end_)
            refuse("there is more after the JSON");
        return value;
    }

private:
    char next()
    {
        while (at_ != end_ && std::strchr(" \t\r\n", *at_) != nullptr && *at_ != 0)
            ++at_;
        return at_ == end_ ? '\0' : *at_;
    }
    std::string text()
    {
        std::string all;
        for (++at_; at_ != end_ && *at_ != '"'; ++at_) {
            if (*at_ == '\\' && ++at_ == end_)
                break;
            all += *at_;
        }
        if (at_ == end_)
            refuse("it ends in a text");
        ++at_;
        return all;
    }
    Json parse(int depth)
    {
        const char first = depth > 64 ? '\0' : next();
        Json value;
        if (first == '"') {
            value.text = text();
        } else if (first == '[' || first == '{') {
            const char last = first == '[' ? ']' : '}';
            ++at_;
            while (next() != last) {
                if (!value.list.empty() && *at_++ != ',')
                    refuse("expected a comma");
                if (first == '{' && next() != '"')
                    refuse("expected a name");
                if (first == '{') {
                    value.names.push_back(text());
                    if (next() != ':')
                        refuse("expected a colon");
                    ++at_;
                }
                value.list.push_back(parse(depth + 1));
            }
            ++at_;
        } else if (first != 0 && std::strchr("-0123456789NI", first) != nullptr) {
            char* after = nullptr;
            value.number = std::strtod(at_, &after);
            if (first == 'N' || std::strncmp(at_, "-I", 2) == 0 || first == 'I') { // as Python writes them
                value.number = INFINITY;
                after = const_cast<char*>(at_) + (first == 'N' ? 3 : first == 'I' ? 8 : 9);
            }
            if (after == at_ || after > end_)
                refuse("expected a number");
            at_ = after;
        } else if (end_ - at_ >= 4 && (std::strncmp(at_, "true", 4) == 0 || std::strncmp(at_, "null", 4) == 0)) {
            at_ += 4;
        } else if (end_ - at_ >= 5 && std::strncmp(at_, "false", 5) == 0) {
            at_ += 5;
        } else {
            refuse("it is no JSON, or is truncated");
        }
        return value;
    }
    const char *at_, *end_;
};

inline std::string content(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    std::string data((std::istreambuf_iterator<char>(file)), {});
    if (!file)
        refuse("can't be read");
    return data;
}

template <class T>
Numbers decoded(const char* data, std::size_t bytes)
{
    Numbers all(bytes / sizeof(T));
    for (std::size_t i = 0; i < all.size(); ++i) {
        T one;
        std::memcpy(&one, data + i * sizeof(T), sizeof(T));
        all[i] = static_cast<double>(one);
    }
    return all;
}

inline Numbers of_float16(const char* data, std::size_t bytes)
{
    Numbers all = decoded<std::uint16_t>(data, bytes);
    for (double& one : all) {
        const int bits = static_cast<int>(one), exponent = bits >> 10 & 31, fraction = bits & 1023;
        const double size = exponent == 31
                                ? (fraction ? NAN : INFINITY)
                                : std::ldexp(exponent ? 1024 + fraction : fraction, std::max(exponent, 1) - 25);
        one = bits >> 15 ? -size : size;
    }
    return all;
}

inline void flatten(const Json& one, Numbers& all)
{
    if (one.list.empty() && std::isnan(one.number))
        refuse("it has something that is no number");
    if (one.list.empty())
        all.push_back(one.number);
    for (const Json& each : one.list)
        flatten(each, all);
}

inline Numbers numbers_of(const std::string& path)
{
    std::string data = content(path);
    const std::string end = path.substr(std::min(path.rfind('.'), path.size()));
    if (data.compare(0, 6, "\x93NUMPY") == 0 && data.size() > 12) {
        const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(data[i])); };
        const std::size_t begin = byte(6) == 1 ? 10 : 12, after = begin + byte(8) + 256 * byte(9);
        const std::string head = data.substr(begin, after - begin);
        const std::size_t kind = head.find("'<f"), open = head.find('('), close = head.find(')', open);
        const std::size_t size = kind == std::string::npos ? 0 : static_cast<std::size_t>(head[kind + 3] - '0');
        if ((size != 2 && size != 4 && size != 8) || close == std::string::npos ||
            head.find("'fortran_order': False") == std::string::npos)
            refuse("expected real numbers, '<f2', '<f4' or '<f8', in C's order; it says " + head.substr(0, 80));
        std::size_t count = 1;
        for (const char* at = head.c_str() + open + 1; at < head.c_str() + close;) {
            char* next = nullptr;
            const unsigned long long axis = std::strtoull(at, &next, 10);
            count *= next == at ? 1 : static_cast<std::size_t>(axis);
            at = next == at ? at + 1 : next;
        }
        if (after > data.size() || count > data.size() || data.size() - after != size * count)
            refuse("its numbers are not as many as its shape says");
        const char* numbers = data.data() + after;
        return size == 2   ? of_float16(numbers, 2 * count)
               : size == 4 ? decoded<float>(numbers, 4 * count)
                           : decoded<double>(numbers, 8 * count);
    }
    if (end == ".bin" || end == ".raw" || end == ".f32") {
        if (data.size() % 4 != 0)
            refuse(std::to_string(data.size()) + " bytes are not whole numbers of float32");
        return decoded<float>(data.data(), data.size());
    }
    Numbers all;
    if (end == ".json") {
        const Json found = Parser(data).whole();
        flatten(found.names.empty() ? found : found["logits"], all);
        return all;
    }
    std::replace_if(
        data.begin(), data.end(), [](char c) { return c == ',' || c == ';' || c == '[' || c == ']'; }, ' ');
    for (const char *at = data.c_str(), *last = at + data.find_last_not_of(" \t\r\n") + 1; at < last;) {
        char* next = nullptr;
        all.push_back(std::strtod(at, &next));
        if (next == at)
            refuse("expected a number, found " + std::string(at).substr(0, 20));
        at = next;
    }
    return all;
}

/// The root of the mean square, or a sixth of the largest difference.
inline double far(const Numbers& found, const Numbers& right)
{
    if (found.size() != right.size())
        refuse("cases.json has rows that are not as long as others");
    double sum = 0, most = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        sum += (found[i] - right[i]) * (found[i] - right[i]);
        most = std::max(most, std::abs(found[i] - right[i]));
    }
    return std::max(std::sqrt(sum / static_cast<double>(found.size())), most / 6);
}

inline double largest(const Numbers& numbers)
{
    double most = 0;
    for (const double x : numbers)
        most = std::max(most, std::abs(x));
    return most;
}

inline Numbers picked(const Numbers& row, const Numbers& columns)
{
    Numbers some;
    for (const double i : columns)
        some.push_back(row.at(static_cast<std::size_t>(i)));
    return some;
}

/// Those of the case, and those of the same tokens at once where its last token is one of these: a layer that is wrong is so in
/// every call.
inline std::vector<const Json*> mistakes_of(const Json& file, const Json& asked)
{
    const Json& once = file["cases"].list.front();
    const auto last = [](const Json& one) {
        return one["logits"].list.empty() ? Numbers{} : one["logits"].list.back().numbers();
    };
    std::vector<const Json*> all, cases{&asked};
    if (&asked != &once && far(last(asked), last(once)) <= file["tolerance"]["float32"].number)
        cases.push_back(&once);
    for (const Json* one : cases)
        for (const Json& mistake : (*one)["wrong"].list)
            all.push_back(&mistake);
    return all;
}

/// @param type  empty: float32, float16 or bfloat16
/// @return whether the logits are right, and what to say
inline std::pair<bool, std::string> judged(const Json& file, const std::string& name, const Numbers& found,
                                           const std::string& type)
{
    std::vector<std::string> types{"float32", "float16", "bfloat16"};
    const Json* at = nullptr;
    std::string known;
    for (const Json& one : file["cases"].list) {
        known += ' ' + one["id"].text;
        at = one["id"].text == name ? &one : at;
    }
    if (at == nullptr)
        refuse("there is no case " + name + "; there are" + known);
    const Numbers rows = (*at)["rows"].numbers();
    std::vector<Numbers> right, mine;
    for (const Json& one : (*at)["logits"].list)
        right.push_back(one.numbers());
    std::size_t total = 0;
    for (const Json& one : (*at)["ids"].list)
        total += one.list.size();
    const auto width = static_cast<std::size_t>(file["vocabulary"].number);
    if (width == 0 || right.empty() || right.size() != rows.size() ||
        (found.size() != width && found.size() != rows.size() * width && found.size() != total * width))
        refuse("it has " + std::to_string(found.size()) + " numbers; expected " + std::to_string(width) +
               ", the last token's, " + std::to_string(rows.size()) + " x " + std::to_string(width) +
               ", those of rows, or " + std::to_string(total) + " x " + std::to_string(width));
    for (std::size_t i = 0; i * width < found.size(); ++i)
        mine.emplace_back(found.begin() + static_cast<std::ptrdiff_t>(i * width),
                          found.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    if (mine.size() == 1)
        right.erase(right.begin(), right.end() - 1);
    if (mine.size() != right.size())
        mine = [&] {
            std::vector<Numbers> some;
            for (const double row : rows)
                some.push_back(mine.at(static_cast<std::size_t>(row)));
            return some;
        }();
    double off = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) {
        if (!std::all_of(mine[i].begin(), mine[i].end(), [](double x) { return std::isfinite(x); }))
            return {false, "wrong: logits are not finite"};
        off = std::max(off, far(mine[i], right[i]));
    }
    const auto allowed = [&](const std::string& one) { return file["tolerance"][one].number; };
    const Numbers columns = file["columns"].numbers(), last = picked(mine.back(), columns);
    const double own = far(last, picked(right.back(), columns)),
                 size = std::max(1.0, largest(last) / largest(right.back()));
    std::vector<std::pair<double, const Json*>> near;
    for (const Json* one : mistakes_of(file, *at))
        near.emplace_back(far(last, (*one)["logits"].numbers()), one);
    std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (!type.empty())
        types = {type};
    const auto within = std::find_if(types.begin(), types.end(), [&](const std::string& one) {
        return !near.empty() && near[0].first < own / 2 && near[0].first <= allowed(one) * size;
    });
    if (within != types.end()) {
        std::string text =
            "wrong: " + short_text(off) + " off, " + short_text(near[0].first) + " from a mistake in " + *within;
        for (std::size_t i = 0; i < near.size() && i < 3 && near[i].first <= 1.5 * near[0].first + allowed("float32");
             ++i) {
            text += i == 0 ? "\nlooks like " : "\nor ";
            for (const Json& each : (*near[i].second)["names"].list)
                text += (&each == &(*near[i].second)["names"].list.front() ? "" : " or ") + each.text;
            text += ": " + file["mistakes"][(*near[i].second)["names"].list.at(0).text]["sentence"].text + "\n  " +
                    (*near[i].second)["how"].text;
        }
        return {false, text};
    }
    for (const std::string& one : types)
        if (off <= allowed(one))
            return {true, "right: " + short_text(off) + " off, " + short_text(off / allowed(one)) +
                              " of what is allowed in " + one};
    return {false, "wrong: " + short_text(off) + " off, allowed is " + short_text(allowed(types.back())) + " in " +
                       types.back() + "; no mistake that is listed gives these numbers"};
}

} // namespace check_logits

#ifndef CHECK_LOGITS_NO_MAIN
int main(int count, char** words)
{
    std::string about = "check_logits FOLDER LOGITS [--case NAME] [--type float32|float16|bfloat16]";
    try {
        std::map<std::string, std::string> flags{{"--case", "once"}, {"--type", ""}};
        for (int i = 3; i < count; i += 2)
            if (i + 1 == count || flags.count(words[i]) == 0)
                check_logits::refuse("expected --case NAME or --type TYPE");
            else
                flags[words[i]] = words[i + 1];
        if (const std::string& type = flags["--type"];
            count < 3 || (!type.empty() && type != "float32" && type != "float16" && type != "bfloat16"))
            check_logits::refuse("expected a folder, a file of logits, and a type that is known");
        about = std::string(words[1]) + "/cases.json";
        const check_logits::Json file = check_logits::Parser(check_logits::content(about)).whole();
        about = words[2];
        const auto [is_right, text] =
            check_logits::judged(file, flags["--case"], check_logits::numbers_of(words[2]), flags["--type"]);
        std::printf("%s\n", text.c_str());
        return is_right ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "check_logits: %s: %s\n", about.c_str(), error.what());
        return 2;
    }
}
#endif
