#pragma once

#include "attn/files/npz.hpp"

/// All arrays of an .npz file in its order, and those texts that are asked for and present.
inline attn::files::Npz read_npz_members(const std::filesystem::path& path, const std::vector<std::string>& texts,
                                         const attn::files::NpzLimits& limits = {})
{
    const attn::files::NpzReader file(path);
    attn::files::Npz content{{}, {}, file.comment()};
    for (const std::string& name : texts)
        if (const auto text = file.text(name, limits.text_bytes))
            content.texts.emplace_back(name, *text);
    attn::files::read_npz_each(
        path, [&](const std::string& name, attn::Array array) { content.arrays.emplace_back(name, std::move(array)); },
        limits);
    return content;
}
