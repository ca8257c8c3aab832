#include "policy/settings.hpp"
