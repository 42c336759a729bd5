#define CATCH_CONFIG_MAIN
#include "test.hpp"
