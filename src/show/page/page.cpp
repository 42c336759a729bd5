#include "page.hpp"

#include "page_assets.hpp"

#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/core/memory.hpp"
#include "attn/files/npy.hpp"
#include "model.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <set>
#include <utility>

#include <zlib.h>

namespace attn::show {
namespace {

// The limit of Chromium and Firefox; beyond it they show an empty page without a message.
constexpr std::size_t most_bytes = std::size_t{1} << 29;

// The limit for all explanations together: about two seconds to write them.
constexpr std::size_t most_explained = std::size_t{1} << 23;

std::string base64(std::string_view bytes)
{
    static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text((bytes.size() + 2) / 3 * 4, '=');
    for (std::size_t at = 0, to = 0; at < bytes.size(); at += 3, to += 4) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
        for (std::size_t i = 0; i <= count; ++i)
            text[to + i] = digits[group >> (18 - 6 * i) & 63];
    }
    return text;
}

std::string bytes_of_hex(std::string_view hex)
{
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::string bytes;
    for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
        bytes += static_cast<char>(digit(hex[at]) * 16 + digit(hex[at + 1]));
    return bytes;
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

/// JSON that ends no script element and begins no comment in one: only the text between quotes can hold a <.
std::string script_safe(const Json& json)
{
    std::string safe;
    for (const char c : text_of(json))
        if (c == '<')
            safe += "\\u003c";
        else
            safe += c;
    return safe;
}

/// The text of a page's place: {{page.css}}.
using TextOf = std::function<std::string(std::string_view place)>;

std::string filled(std::string_view page, const TextOf& text_of)
{
    std::string text;
    while (true) {
        const std::size_t open = page.find("{{");
        text += page.substr(0, open);
        if (open == std::string_view::npos)
            return text;
        const std::size_t close = page.find("}}", open);
        text += text_of(page.substr(open + 2, close - open - 2));
        page.remove_prefix(close + 2);
    }
}

const PageAsset& asset_called(std::string_view name)
{
    const std::span<const PageAsset> assets = page_assets();
    return *std::ranges::find(assets, name, &PageAsset::name);
}

// ------------------------------------------------------------------------------------------------ what a page carries

std::string deflated(const std::string& bytes)
{
    uLongf size = compressBound(bytes.size());
    std::string result(size, '\0');
    if (compress(reinterpret_cast<Bytef*>(result.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                 bytes.size()) != Z_OK)
        throw Error("the explanations can't be compressed: there is not enough memory");
    result.resize(size);
    return result;
}

/// The elements of a page that carry its numbers and explanations, which no browser runs.
class CarriedData {
public:
    explicit CarriedData(std::deque<ShownRun>& runs) : runs_(runs) {}

    /// @param model  names the tensors that have to be carried
    void add_tensors(const Json& model)
    {
        for (const Json& entry : model.at("steps"))
            for (const char* side : {"step", "other"})
                if (entry.contains(side))
                    add_tensor(entry[side].at("numbers")[0], entry[side].at("numbers")[1]);
    }

    /// The explanations of the steps with the fewest numbers, up to the limit.
    void add_explanations()
    {
        std::vector<std::pair<std::size_t, std::size_t>> computed; // run and step
        for (std::size_t run = 0; run < runs_.size(); ++run)
            for (std::size_t step = 0; step < runs_[run].outline().steps.size(); ++step)
                if (!runs_[run].outline().steps[step].formula.empty())
                    computed.emplace_back(run, step);
        const auto count = [&](const auto& place) {
            return runs_[place.first].outline().steps[place.second].value.size();
        };
        std::ranges::stable_sort(computed, {}, count);
        std::size_t left = most_explained;
        try {
            for (const auto& [run, step] : computed)
                if (!add_explanations(run, step, left))
                    return;
        } catch (const BudgetError&) { // as many as may be
        }
    }

    const std::string& elements() const { return elements_; }

private:
    void add_tensor(std::size_t run, std::size_t step)
    {
        if (!tensors_.emplace(run, step).second)
            return;
        try {
            add("tensor", run, step, files::encode_npy(runs_[run].value(step)));
        } catch (const Error& error) {
            throw Error("step \"", runs_[run].outline().steps[step].path, "\" ", error.what());
        }
        if (elements_.size() > most_bytes)
            throw Error("the page would be larger than the ", bytes_text(most_bytes),
                        " that a browser opens; `attn view TRACE` without -o shows a trace of any size");
    }

    /// @return false where they would cost more than is left
    bool add_explanations(std::size_t run, std::size_t step, std::size_t& left)
    {
        const std::size_t count = runs_[run].value(step).size();
        Json explanations = Json::array();
        for (std::size_t offset = 0; offset < count; ++offset) {
            ShownExplanation explanation = runs_[run].explained(step, offset);
            if (explanation.cost > left)
                return false;
            left -= explanation.cost;
            explanations.push_back(std::move(explanation.json));
        }
        add("explained", run, step, deflated(text_of(explanations)));
        return true;
    }

    void add(const std::string& what, std::size_t run, std::size_t step, const std::string& bytes)
    {
        elements_ += "<script type=\"application/octet-stream\" id=\"" + what + "-" + std::to_string(run) + "-" +
                     std::to_string(step) + "\">" + base64(bytes) + "</script>\n";
    }

    std::deque<ShownRun>& runs_;
    std::string elements_;
    std::set<std::pair<std::size_t, std::size_t>> tensors_;
};

} // namespace

std::string page_policy(std::string_view source)
{
    const auto hash = [](std::string_view name) {
        return " 'sha256-" + base64(bytes_of_hex(asset_called(name).sha256)) + "'";
    };
    std::string scripts;
    for (const std::string_view name : {std::string_view("numbers.js"), source, std::string_view("heatmap.js"),
                                        std::string_view("steps.js"), std::string_view("page.js")})
        scripts += hash(name);
    return "default-src 'none'; script-src" + scripts + "; style-src" + hash("page.css") +
           (source == "served.js" ? "; connect-src 'self'" : "") + "; base-uri 'none'; form-action 'none'";
}

std::string filled_page(const Json& model, std::string_view source, const std::string& data)
{
    return filled(asset_called("page.html").text, [&](std::string_view place) {
        if (place == "policy")
            return page_policy(source);
        if (place == "trace")
            return script_safe(model);
        if (place == "data")
            return data;
        return std::string(asset_called(place == "source" ? source : place).text);
    });
}

std::string page_of(std::vector<TitledRecording> recordings, const TokenLabels& labels)
{
    const BudgetScope budget;
    std::deque<ShownRun> runs;
    for (TitledRecording& run : recordings)
        runs.emplace_back(std::move(run.title), std::move(run.recording));
    const Json model = model_of(runs, labels);
    CarriedData data(runs);
    data.add_tensors(model);
    data.add_explanations();
    return filled_page(model, "carried.js", data.elements());
}

} // namespace attn::show
