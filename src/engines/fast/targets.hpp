// Which instruction sets the kernels are not compiled for. To be included before hwy/foreach_target.h.
#pragma once

// The targets for long vectors of unknown length have no arrays of vectors.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
