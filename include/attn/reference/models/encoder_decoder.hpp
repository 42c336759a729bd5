#pragma once

#include "attn/reference/models/signal_model.hpp"

namespace attn {

/// A model that reads one sequence and writes another: an encoder, and a decoder that attends to what it gives.
struct EncoderDecoderDescription {
    LanguageModelDescription encoder = {}, decoder = {};
};

/// Its learned parameters. Where the decoder's embedding is none (std::monostate), it has the encoder's table of words.
struct EncoderDecoderWeights {
    LanguageModelWeights encoder = {}, decoder = {};
};

/// The logits of a sequence that a model writes about another one.
///
/// @param source       what the encoder reads: ids (m), or a sound (features, frames)
/// @param ids          (n): the tokens that the decoder has written so far
/// @param weights      of both; the decoder's layers have cross-attention
/// @param description  of both
/// @param trace        in the scope encoder the steps of language_model() or sound_model(), in the scope decoder those of
///                     language_model(), whose `memory` is `encoder.output`; a table of words that both share is `embedding` in
///                     this scope
/// @return (n, vocabulary), or the decoder's last tokens (n, d_model)
/// @throws ShapeError, Error  as these do
/// @see Vaswani et al. 2017; Raffel et al. 2020 (T5); Lewis et al. 2020 (BART); Radford et al. 2022 (Whisper)
Matrix encoder_decoder(const Integers& source, const Integers& ids, const EncoderDecoderWeights& weights,
                       const EncoderDecoderDescription& description, const Trace& trace = {});
/// The same of a sound.
Matrix encoder_decoder(const Matrix& source, const Integers& ids, const EncoderDecoderWeights& weights,
                       const EncoderDecoderDescription& description, const Trace& trace = {});
/// The same of a batch.
/// @param source_padding  which tokens of the sources are real: neither encoder nor decoder attends to others
/// @param padding         which of the decoder's tokens are
Tensor3 encoder_decoder(const IntegerMatrix& source, const Padding& source_padding, const IntegerMatrix& ids,
                        const Padding& padding, const EncoderDecoderWeights& weights,
                        const EncoderDecoderDescription& description, const Trace& trace = {});
/// The same of a batch of sounds, which are all of one length.
Tensor3 encoder_decoder(const Tensor3& source, const IntegerMatrix& ids, const Padding& padding,
                        const EncoderDecoderWeights& weights, const EncoderDecoderDescription& description,
                        const Trace& trace = {});

} // namespace attn
