#include "policy/engine.hpp"
