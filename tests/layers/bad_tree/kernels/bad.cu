#include "policy/units.hpp"
