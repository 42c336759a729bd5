// What the words of an array's name say: which step, which layer, and whether it is a gradient.

#include "name_vocabulary.hpp"

#include "name_rules.hpp"

#include "attn/formula/scope.hpp"
#include "attn/mistakes/head_scope.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <vector>

namespace attn::diff {
namespace {

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_capital(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

std::string lowered(std::string_view text)
{
    std::string result(text);
    std::ranges::transform(result, result.begin(),
                           [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    return result;
}

/// The words of a name, in small letters: att and weights of att_weights.
Words words_of(std::string_view name)
{
    Words words(1);
    for (const char c : lowered(name)) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0)
            words.emplace_back();
        else
            words.back() += c;
    }
    return words;
}

using WordTable = std::map<std::string_view, std::vector<std::string_view>>;

/// The names that programs have for a step, by the last word of its path.
const WordTable& known_words()
{
    static const WordTable known{
        {"query", {"q", "query", "xq"}},
        {"queries", {"q", "query", "queries", "xq"}},
        {"key", {"k", "key", "xk"}},
        {"keys", {"k", "key", "keys", "xk"}},
        {"value", {"v", "value", "val", "xv"}},
        {"values", {"v", "value", "values", "val", "xv"}},
        {"scores", {"score", "scores", "dots", "qk", "sim", "energy", "raw"}},
        {"scaled", {"scaled", "att", "attn", "scores", "dots", "sim", "energy", "logits"}},
        {"masked", {"masked", "att", "attn", "scores", "dots"}},
        {"weights", {"weights", "probs", "prob", "p", "att", "attn", "attention", "softmax", "alpha"}},
        {"context", {"context", "ctx", "z", "y", "out", "o"}},
        {"merged", {"merged", "y", "z", "out", "context", "ctx", "concat"}},
        {"hidden", {"hidden", "fc", "fc1", "h", "ff1", "up", "pre"}},
        {"activated", {"activated", "act", "gelu", "relu", "silu", "post"}},
        {"residual1", {"residual", "residual1", "x1", "h1", "resid"}},
        {"residual2", {"residual2", "x2", "h2", "resid"}},
        {"mean", {"mean", "mu"}},
        {"variance", {"variance", "var", "sigma2"}},
        {"normalized", {"normalized", "norm", "xhat"}},
        {"output", {"out", "output", "proj", "y", "x", "x2", "ln", "norm"}},
        {"logits", {"logits"}},
    };
    return known;
}

/// The same for what is given: inputs, and weights. Programs save them rarely, and their gradients always.
const WordTable& known_given()
{
    static const WordTable known{
        {"x", {"x", "inp", "input"}},
        {"memory", {"memory", "mem", "enc"}},
        {"query_weights", {"wq", "q", "query", "qkv", "in", "w"}},
        {"key_weights", {"wk", "k", "key", "qkv", "w"}},
        {"value_weights", {"wv", "v", "value", "qkv", "w"}},
        {"output_weights", {"wo", "w2", "o", "out", "proj", "fc2", "w"}},
        {"hidden_weights", {"w1", "fc", "fc1", "w"}},
        {"input_weights", {"wi", "wih", "wx", "w", "ih"}},
        {"recurrent_weights", {"wh", "whh", "u", "w", "hh"}},
        {"query_bias", {"bq", "q", "query", "qkv", "in", "b", "bias"}},
        {"key_bias", {"bk", "k", "key", "qkv", "b", "bias"}},
        {"value_bias", {"bv", "v", "value", "qkv", "b", "bias"}},
        {"output_bias", {"bo", "b2", "o", "out", "proj", "fc2", "b", "bias"}},
        {"hidden_bias", {"b1", "fc", "fc1", "b", "bias"}},
        {"input_bias", {"bi", "bih", "bx"}},
        {"recurrent_bias", {"bh", "bhh"}},
        {"gain", {"gain", "gamma", "g", "w", "weight"}},
        {"bias", {"bias", "beta", "b"}},
        {"table", {"table", "emb", "embedding", "wte", "w", "e", "c"}},
        {"embedding", {"table", "emb", "embedding", "wte", "w", "e", "c"}},
        {"token_embedding", {"wte", "tok", "emb", "embedding"}},
        {"position_embedding", {"wpe", "pos"}},
        {"embedded", {"encoded", "emb", "x"}},
        {"gate_weights", {"gate", "w"}},
        {"up_weights", {"up", "w"}},
        {"down_weights", {"down", "w"}},
        {"output", {"probs", "p"}},
        {"scores", {"s", "logits", "preatt"}},
        {"scaled", {"s", "preatt"}},
        {"masked", {"s", "preatt"}},
        {"candidate", {"candidate", "n", "c", "g"}},
        {"update", {"update", "z", "u"}},
        {"reset", {"reset", "r"}},
    };
    return known;
}

/// The names that programs have for what a step is inside of.
const WordTable& known_scopes()
{
    static const WordTable known{
        {"norm1", {"ln1", "norm1"}},
        {"norm2", {"ln2", "norm2"}},
        {"norm3", {"ln3", "norm3"}},
        {"norm", {"lnf", "ln", "norm"}},
        {"feed_forward", {"mlp", "ff", "ffn", "fc"}},
        {"self_attn", {"att", "attn", "mha", "qkv"}},
        {"cross_attn", {"cross"}},
    };
    return known;
}

bool has(const WordTable& table, std::string_view step, std::string_view word)
{
    const auto words = table.find(step);
    return words != table.end() && std::ranges::find(words->second, word) != words->second.end();
}

bool is_word_of(std::size_t role, std::string_view word)
{
    return std::ranges::find(roles[role].words, word) != std::end(roles[role].words);
}

/// Of "keys" and "key_weights" 1; nothing for a step that is neither queries nor keys nor values nor a map to them.
std::optional<std::size_t> role_of_step(std::string_view last)
{
    const std::string_view first = last.substr(0, last.find('_')); // key of key_weights
    for (std::size_t i = 0; i < std::size(roles); ++i)
        if (first == roles[i].one || last == roles[i].many)
            return i;
    return std::nullopt;
}

// ------------------------------------------------------------------------------------------------------------ gradients

/// True for a word that programs have for some step: "scores", "x", "fc1".
bool is_word_of_a_step(std::string_view word)
{
    const auto knows = [&](const WordTable& table) {
        return std::ranges::any_of(table,
                                   [&](const auto& one) { return one.first == word || has(table, one.first, word); });
    };
    return (word.size() == 1 && is_letter(word.front())) || knows(known_words()) || knows(known_given()) ||
           knows(known_scopes());
}

/// The words that a word is made of, with the number of each: ln1 and b of ln1b, fc, proj and w of fcprojw; nothing where that is
/// none. Single letters stand at the end.
std::optional<Words> parts_of(std::string_view word)
{
    if (word.empty())
        return Words{};
    for (std::size_t end = word.size(); end > 0; --end) {
        std::string_view part = word.substr(0, end);
        while (!part.empty() && !is_letter(part.back()))
            part.remove_suffix(1);
        const bool is_whole = end == word.size() || is_letter(word[end]); // with all of its number
        if (part.size() < 2 ? end < word.size() : !is_word_of_a_step(part))
            continue;
        if (part.empty() || !is_whole || !is_word_of_a_step(part))
            continue;
        if (auto rest = parts_of(word.substr(end))) {
            rest->insert(rest->begin(), {std::string(part), std::string(word.substr(0, end))});
            return rest;
        }
    }
    return std::nullopt;
}

/// The words of the name of a gradient, and what these are made of.
Words words_of_gradient(std::string_view name)
{
    Words words = words_of(name), all = words;
    for (const std::string& word : words)
        if (const auto parts = parts_of(word))
            all.insert(all.end(), parts->begin(), parts->end());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

/// A word of a name without what says that it is a gradient; nothing where nothing says so.
std::optional<std::string> without_gradient(const std::string& word)
{
    const std::string small = lowered(word);
    for (const std::string_view before :
         {"gradient_", "grad_", "delta_", "adjoint_", "d_loss_d_", "dloss_d", "dloss/d", "dl_d", "dl/d", "dld", "d_"})
        if (small.starts_with(before) && small.size() > before.size())
            return word.substr(before.size());
    for (const std::string_view after : {"_gradient", "_grads", "_grad", "_delta", "_adjoint"})
        if (small.ends_with(after) && small.size() > after.size())
            return word.substr(0, word.size() - after.size());
    constexpr std::string_view grad = "grad"; // gradWq, WqGrad
    if (small.starts_with(grad) && word.size() > grad.size() && is_capital(word[grad.size()]))
        return word.substr(grad.size());
    if (word.ends_with("Grad") && word.size() > grad.size())
        return word.substr(0, word.size() - grad.size());
    if (word.size() < 2 || word.front() != 'd')
        return std::nullopt;
    const bool is_word = parts_of(words_of(word.substr(1)).front()).has_value();
    return is_capital(word[1]) || is_word ? std::optional(word.substr(1)) : std::nullopt;
}

std::string gradient_path(Words words) { return std::string(formula::gradient_scope) + joined(words, '.'); }

/// True for a name of the gradient of a bias.
bool says_bias(std::string_view name)
{
    constexpr std::string_view biases[] = {"b", "bias", "beta", "bq", "bk", "bv", "bo", "b1", "b2"};
    return std::ranges::any_of(words_of_gradient(name), [&](const std::string& word) {
        return std::ranges::find(biases, word) != std::end(biases);
    });
}

} // namespace

bool is_gradient(std::string_view path) { return path.starts_with(formula::gradient_scope); }

std::size_t words_in_common(std::string_view name, std::string_view step)
{
    step = step.substr(0, step.find('|')); // of packed ones the first
    const std::string_view last = last_word(step);
    if (!is_gradient(name) || !is_gradient(step))
        return static_cast<std::size_t>(std::ranges::count_if(words_of(name), [&](const std::string& word) {
            return word == last || has(known_words(), last, word) ||
                   (is_gradient(step) && has(known_given(), last, word));
        }));
    const Words words = words_of_gradient(name);
    const Words scopes = split(step, '.');
    const auto count = [&](const auto& says) { return static_cast<std::size_t>(std::ranges::count_if(words, says)); };
    const std::size_t of_step = count([&](const std::string& word) {
        return word == last || has(known_words(), last, word) || has(known_given(), last, word);
    });
    const std::size_t of_scopes = count([&](const std::string& word) {
        return std::ranges::any_of(scopes, [&](const std::string& scope) { return has(known_scopes(), scope, word); });
    });
    return of_step == 0 ? 0 : of_step + of_scopes;
}

bool is_of_other_layer(std::string_view name, std::string_view step)
{
    const auto first_number = [](const Words& words) -> std::string {
        const auto found =
            std::ranges::find_if(words, [](const std::string& word) { return mistakes::is_number(word); });
        return found == words.end() ? "" : *found;
    };
    const bool is_numbered =
        step.find("layers.") != std::string_view::npos || step.find("step.") != std::string_view::npos;
    const std::string mine = first_number(words_of(name)), theirs = first_number(words_of(step));
    return is_numbered && !mine.empty() && !theirs.empty() && mine != theirs;
}

bool says_layer(std::string_view name)
{
    constexpr std::array<std::string_view, 4> of_layers{"layer", "layers", "block", "blocks"};
    const Words words = words_of(name);
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
        if (std::ranges::find(of_layers, words[i]) != of_layers.end() && mistakes::is_number(words[i + 1]))
            return true;
    return false;
}

bool contradicts(std::string_view name, std::string_view step)
{
    const std::string_view last = last_word(step);
    if (is_gradient(name) && says_bias(name) != last.ends_with("bias"))
        return says_bias(name);
    const auto role = role_of_step(last);
    if (!role || words_in_common(name, step) > 0)
        return false;
    const Words words = words_of(name);
    const auto says = [&](std::size_t one) {
        return std::ranges::any_of(words, [&](const std::string& word) { return is_word_of(one, word); });
    };
    return !says(*role) && (says(0) || says(1) || says(2));
}

std::optional<std::string> gradient_name(std::string_view name)
{
    if (is_gradient(name))
        return std::string(name);
    Words words = split(name, '.');
    const auto is_the_word = [](const std::string& word) {
        const std::string small = lowered(word);
        return small == "grad" || small == "grads" || small == "gradient" || small == "gradients";
    };
    if (words.size() > 1 && is_the_word(words.front())) {
        words.erase(words.begin());
        return gradient_path(std::move(words));
    }
    if (words.size() > 1 && is_the_word(words.back())) {
        words.pop_back();
        return gradient_path(std::move(words));
    }
    // The number of a layer can stand at the end: dln1b.0.
    const auto last = std::ranges::find_if_not(words.rbegin(), words.rend(),
                                               [](const std::string& word) { return mistakes::is_number(word); });
    const auto plain = last == words.rend() ? std::nullopt : without_gradient(*last);
    if (!plain)
        return std::nullopt;
    *last = *plain;
    return gradient_path(std::move(words));
}

} // namespace attn::diff
